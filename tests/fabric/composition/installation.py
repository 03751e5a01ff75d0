"""A whole installation inside a test: the engine of this process over the test database, runs started by the service, watched to their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.runtime.ports.journal import Document
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events, run_get, run_outcome
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.start import run_start
from fabric.worker.host import RunHost
from fabric.worker.nudges.listener import ReceivedNudge

SAMPLES = Path(settings.BASE_DIR) / "fabric" / "samples"
RESTING = {"completed", "stopped", "failed", "aborted", "cancelled", "waiting"}


@dataclass
class Installation:
    """A test's work with it."""

    actor: Actor
    host: RunHost
    heard: threading.Condition

    def publish(self, sample: str, **replaced: str) -> str:
        """Publishes a sample, with texts replaced; its name."""
        source = (SAMPLES / f"{sample}.yaml").read_text()
        for old, new in replaced.items():
            assert old in source, old
            source = source.replace(old, new)
        return fabric_publish(actor=self.actor, source=source, origin=sample).name

    def start(self, fabric: str, text: str, documents: tuple[Document, ...] = (), tier: str | None = None) -> str:
        """Starts a run by the service; its id."""
        started = run_start(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=self.actor,
            fabric=fabric,
            text=text,
            documents=documents,
            tier=tier,
        )
        return started.run_id

    def rest(self, run_id: str, timeout_s: float = 60.0) -> Any:
        """Waits until the run has ended or waits for a person; its row."""
        give_up = time.monotonic() + timeout_s
        with self.heard:
            while True:
                row = run_get(self.actor, run_id)
                if row.state in RESTING:
                    return row
                left = give_up - time.monotonic()
                assert left > 0, f"run {run_id} is still {row.state} after {timeout_s} s: {self.kinds(run_id)}"
                self.heard.wait(min(left, 1.0))

    def events(self, run_id: str) -> list[Any]:
        """All events of a run."""
        return list(run_events(self.actor, run_id, limit=500))

    def kinds(self, run_id: str) -> list[str]:
        """Their kinds."""
        return [event.kind for event in self.events(run_id)]

    def outcome(self, run_id: str) -> Any:
        """The run's outcome."""
        return run_outcome(self.actor, run_id)

    def answer(self, review: Any, verb: str, **more: Any) -> None:
        """A person answers a review."""
        decide_review(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=self.actor,
            review_id=review.id,
            digest=review.digest,
            verb=verb,
            **more,
        )

    def reviews(self, run_id: str) -> list[Any]:
        """Its open reviews."""
        return list(list_open_reviews(self.actor, run_id=run_id))


@contextmanager
def installation() -> Iterator[Installation]:
    """Hosts runs in this process while the block runs."""
    for cached in (wiring.store, wiring.memories, wiring.compile_published, wiring._revision):
        cached.cache_clear()
    heard = threading.Condition()

    def hear(nudged: ReceivedNudge) -> None:
        with heard:
            heard.notify_all()

    ear = wiring.listener(hear, "told")
    ear.start()
    try:
        with wiring.local_engine() as host:
            yield Installation(owner_actor(), host, heard)
    finally:
        ear.stop()
