"""A person who answers, as a web server or a command does it: ``python -m tests.benchmarks.peers.our_answers``, beside a worker of the same installation.

``RUNS 1`` starts so many runs whose provider refuses every call, waits until each asks a person, and then approves one after the other. Measured is from the
moment the COMMIT of the answer has returned here to the moment this process is told of the run's first event after it, which the worker committed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import django

from tests.benchmarks.peers.serving import serve
from tests.benchmarks.throughput.answers import REQUEST

WAIT_S = 60.0
LOOK_S = 0.1
"""A message of a run's end may be lost, so the waiting caller looks as well: within what is timed, at the very end only."""
NAME = "answerer"


class Heard:
    """When a journal was told to reach what, by the clock of this process."""

    def __init__(self) -> None:
        from fabric.composition import engine as wiring

        self._at: dict[str, list[tuple[int, float]]] = {}
        self._changed = threading.Condition()
        self._listener = wiring.listener(self._told, "told")
        self._listener.start()

    def _told(self, nudged: Any) -> None:
        now = time.perf_counter()
        with self._changed:
            for run_id, seq in nudged.run_seqs.items():
                self._at.setdefault(run_id, []).append((seq, now))
            self._changed.notify_all()

    def after(self, run_id: str, seq: int) -> float:
        """When the run's journal first went beyond ``seq``. TimeoutError after a minute."""

        def first() -> float | None:
            return next((at for reached, at in self._at.get(run_id, ()) if reached > seq), None)

        with self._changed:
            if not self._changed.wait_for(lambda: first() is not None, WAIT_S):
                raise TimeoutError(f"nothing was told of run {run_id} after event {seq} within {WAIT_S:.0f} s")
            found = first()
        assert found is not None
        return found


class Timed:
    """A store that remembers when an answer's COMMIT had returned."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.committed = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_input(self, *given: Any, **named: Any) -> bool:
        """See ``JournalStore``."""
        taken: bool = self._store.put_input(*given, **named)
        self.committed = time.perf_counter()
        return taken


def waiting(ids: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """The open review of each run with its digest, once every run waits and has no owner. TimeoutError after a minute."""
    from fabric.models import Review, Run
    from fabric.models.reviews import OPEN

    give_up = time.monotonic() + WAIT_S
    while time.monotonic() < give_up:
        rows = Review.objects.filter(OPEN, run_id__in=ids).values_list("run_id", "id", "digest")
        found = {run_id: (review, digest) for run_id, review, digest in rows}
        if len(found) == len(ids) and not Run.objects.filter(id__in=ids, incarnation__isnull=False).exists():
            return found
        time.sleep(LOOK_S)
    raise TimeoutError(f"{len(found)} of {len(ids)} runs came to wait for a person within {WAIT_S:.0f} s")


def answering() -> Callable[[int, int], dict[str, object]]:
    """A member who may answer, and a fabric whose runs ask; what answers a request for so many."""
    from fabric.composition import engine as wiring
    from fabric.core.people.actor import Actor
    from fabric.models import Run
    from fabric.services.actors import actor_named, workspace_default
    from fabric.services.fabrics.revisions import fabric_publish
    from fabric.services.people.members import member_add, user_new
    from fabric.services.reviews.decisions import decide_review
    from fabric.services.runs.start import run_start
    from tests.benchmarks.idle import SPEC

    workspace = workspace_default()
    member_add(workspace, user_new(workspace, NAME, None), ["reviewer"], by="")
    system, person = Actor("bench", workspace, "system"), actor_named(workspace, NAME)
    # JSON is YAML.
    source = json.dumps(SPEC.model_dump(mode="json", exclude_unset=True))
    fabric = fabric_publish(actor=system, source=source, origin="bench").name
    heard, store = Heard(), Timed(wiring.store())
    ports: dict[str, Any] = {"store": store, "nudge": wiring.nudge()}

    def go(runs: int, _: int) -> dict[str, object]:
        begun = time.perf_counter()
        ids = [run_start(**ports, actor=system, fabric=fabric, text=REQUEST, tier="batch").run_id for _ in range(runs)]
        latencies = []
        for run_id, (review, digest) in waiting(ids).items():
            seq = Run.objects.get(id=run_id).last_seq
            decide_review(**ports, actor=person, review_id=review, verb="approve", digest=digest)
            latencies.append(1_000 * (heard.after(run_id, seq) - store.committed))
            waiting([run_id])
        return {"seconds": time.perf_counter() - begun, "latencies_ms": latencies}

    return go


def main() -> None:
    """Serves until standard input closes."""
    django.setup()
    serve("answers", answering())


if __name__ == "__main__":
    main()
