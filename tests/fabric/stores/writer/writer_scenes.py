"""A store that can be held back and looked at, and who listens to the journal writer."""

import threading
from collections.abc import Sequence
from queue import SimpleQueue

from fabric.runtime.ports.journal import Batch, BatchFate
from fabric.worker.nudges.listener import NullNudge
from simulator.stores.memory.journal import MemoryStore
from tests.fabric.stores.journal_worlds import Hand, Journal, new_run

WAIT_S = 20


class Gate(MemoryStore):
    """A store whose flushes can be held back and looked at, and that refuses the runs it is told to."""

    def __init__(self) -> None:
        super().__init__(Hand())
        self.flushes: list[list[str]] = []
        self.begun: SimpleQueue[None] = SimpleQueue()
        self.open = threading.Event()
        self.open.set()
        self.refused: dict[str, Exception] = {}

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        self.flushes.append([batch.run_id for batch in batches])
        self.begun.put(None)
        assert self.open.wait(WAIT_S)
        for batch in batches:
            if batch.run_id in self.refused:
                raise self.refused[batch.run_id]
        return super().write(batches)


class Told(NullNudge):
    def __init__(self) -> None:
        self.messages: list[dict[str, int]] = []

    def announce(self, run_seqs):
        self.messages.append(dict(run_seqs))


class Outcomes:
    """Collects what callbacks are called with."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []
        self._arrived = threading.Semaphore(0)

    def of(self, name: str):
        def on_done(outcome):
            self.seen.append((name, outcome))
            self._arrived.release()

        return on_done

    def wait(self, count: int) -> list[tuple[str, object]]:
        for _ in range(count):
            assert self._arrived.acquire(timeout=WAIT_S), f"only {self.seen}"
        return self.seen


def owned(store, count):
    store.register("host-1", lease_s=3600)
    for _ in range(count):
        store.create(new_run())
    return [Journal(run.run_id) for run in store.claim("host-1", limit=1000, queues=["default"])]


def hold(store, writer, journal, outcomes):
    """Leave the writer inside a flush of this run."""
    store.open.clear()
    writer.submit(journal.batch(), outcomes.of(journal.run_id))
    store.begun.get(timeout=WAIT_S)
