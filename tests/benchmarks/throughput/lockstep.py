"""COMMIT held until every client's run has a batch ready: group commit at so many at once, the same on every machine (performance.md P6 "at 8")."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from fabric.runtime.ports.journal import Batch, BatchFate, JournalStore
from fabric.stores.writer import JournalWriter, OnDone
from fabric.worker.nudges.listener import NullNudge

WAIT_S = 60.0


class LockstepWriter(JournalWriter):
    """A journal writer whose flush begins when one run of each client has a batch ready, in this flush or behind it.

    ``expect`` says how many clients there are, and each that is done with its runs says so with ``one_less``. TimeoutError in the flush when a run
    never gets a batch ready.
    """

    def __init__(self, store: JournalStore) -> None:
        self._all_in = threading.Condition()
        self._clients = 0
        super().__init__(_Held(store, self._hold), NullNudge())

    def submit_all(self, ready: Sequence[tuple[Batch, OnDone]]) -> None:
        """See ``JournalWriter``."""
        super().submit_all(ready)
        with self._all_in:
            self._all_in.notify_all()

    def expect(self, clients: int) -> None:
        """So many clients begin now, each with one unfinished run at a time."""
        with self._all_in:
            self._clients = clients

    def one_less(self) -> None:
        """One client has no more runs."""
        with self._all_in:
            self._clients -= 1
            self._all_in.notify_all()

    def _hold(self, batches: Sequence[Batch]) -> None:
        # Nothing changes between two looks but by ``submit_all`` or ``one_less``, and each of them says so.
        with self._all_in:
            if not self._all_in.wait_for(lambda: len(batches) + self.count_waiting() >= self._clients, WAIT_S):
                raise TimeoutError(f"{self._clients} runs should have a batch ready, and {len(batches)} have")


class _Held:
    """The store, but for ``write``."""

    def __init__(self, store: JournalStore, hold: Any) -> None:
        self._store, self._hold = store, hold

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """Writes once it may."""
        self._hold(batches)
        return list(self._store.write(batches))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
