"""Many writers tell one workspace's audit stream at once, while two sealers seal and a verifier looks (docs/specification/durability.md H5).

Transactions hold 1 to 40 lines and stay open side by side, so lines commit in another order than that of their instants.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import OperationalError, connection, connections, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.models import AuditLine, Workspace
from fabric.selectors.audit.journal_verification import VerifiedCounts
from fabric.selectors.audit.stream_verification import verify_streams
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal

LINES_MAX = 40
SEALERS = 2
LOOK_S = 0.02


def measure(writers: int, lines: int) -> dict[str, Any]:
    """The figures of ``writers`` that tell ``lines`` acts each."""
    actor = Actor(name="bench", workspace_id=Workspace.objects.create(name="audit").id)
    over, false_alarms, looks = threading.Event(), list[str](), 0
    # Each writer has a session of its own, which no pool makes it wait for.
    connections.settings["default"]["OPTIONS"].pop("pool", None)
    begun = time.monotonic()
    working = [_thread(_write, actor, lines, seed) for seed in range(writers)]
    sealing = [_thread(_until, over, audit_seal) for _ in range(SEALERS)]
    while any(thread.is_alive() for thread in working):
        looked = time.monotonic()
        false_alarms += [finding.says for finding in verify_streams(VerifiedCounts())]
        looks += 1
        # What looks most of the time would be what is measured.
        over.wait(max(LOOK_S, 5 * (time.monotonic() - looked)))
    over.set()
    for thread in (*working, *sealing):
        thread.join()
    audit_seal()
    spent = time.monotonic() - begun
    counted = VerifiedCounts()
    faults = [finding.says for finding in verify_streams(counted)]
    return {
        "work": "audit",
        "writers": writers,
        "lines": AuditLine.objects.count(),
        "lines_wanted": writers * lines,
        "sealed": counted.lines,
        "unsealed": counted.unsealed,
        "faults": len(faults),
        "first_fault": faults[0] if faults else "",
        "looks_meanwhile": looks,
        "false_alarms": len(false_alarms),
        "lines_per_s": round(writers * lines / spent, 1),
    }


def _thread(target: Callable[..., None], *args: Any) -> threading.Thread:
    def run() -> None:
        try:
            target(*args)
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _until(over: threading.Event, act: Callable[[], object]) -> None:
    while not over.wait(LOOK_S):
        with suppress(OperationalError):
            act()


def _write(actor: Actor, lines: int, seed: int) -> None:
    rng = random.Random(seed)
    left = lines
    while left:
        count = min(left, rng.randint(1, LINES_MAX))
        # SQLite makes those wait who come at once, and refuses who has waited too long.
        with suppress(OperationalError):
            with transaction.atomic():
                for number in range(count):
                    audit_record(actor=actor, act=Act.RETENTION_SET, subject=f"{seed}.{left - number}")
            left -= count
