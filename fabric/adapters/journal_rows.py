"""What the journal stores have in common: how a batch becomes column values, what it weighs, and the counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from fabric.core.flow import TERMINAL
from fabric.runtime.ports import Batch, EscalationChange
from fabric.runtime.progress import PROGRESS

PRIORITIES = ("critical", "high", "normal", "low")
"""By rank: the number stored is the position here, and claims go by it."""
TERMINAL_STATES = tuple(sorted(state.value for state in TERMINAL))
TERMINAL_SQL = "({})".format(", ".join(f"'{state}'" for state in TERMINAL_STATES))
ROW_BYTES = 64
"""What a journal row weighs beside its bytes: two hashes of 32."""
SECOND_US = 1_000_000


class Counters:
    """Counts what a store asked of its database. Heartbeats are left out (performance.md P6)."""

    def __init__(self) -> None:
        self.commits = 0
        """Transactions that changed something."""
        self.statements = 0
        """Statements sent; BEGIN and COMMIT are none."""
        self.bytes_written = 0
        """Bytes of journal rows, inbox rows and documents handed over."""
        self._counting = Lock()

    def count(self, *, commits: int = 0, statements: int = 0, written: int = 0) -> None:
        """Adds to the counters; safe from any thread."""
        with self._counting:
            self.commits += commits
            self.statements += statements
            self.bytes_written += written


def weight(batch: Batch) -> int:
    """Bytes that a batch brings: its rows and what its escalations show."""
    total = 0
    for row in batch.rows:
        total += len(row.header) + len(row.payload or b"") + ROW_BYTES
    for change in batch.escalations:
        total += len(change.content)
    return total


def is_over(batch: Batch) -> bool:
    """True: with this batch the run has ended and is given back. What waits in its inbox is closed with it."""
    return batch.release and batch.columns.state in TERMINAL


def progresses(batch: Batch) -> bool:
    """True: it journals a step that needs not be taken again, so the count of claims starts anew."""
    return any(PROGRESS.get(row.kind, False) for row in batch.rows)


def wakes_at(batch: Batch) -> int | None:
    """When the run is due again after this batch; an ended one never is."""
    return None if batch.columns.state in TERMINAL else batch.wake_at


def closed(asked: EscalationChange, answer: EscalationChange) -> EscalationChange:
    """A question with its answer: what was asked stays as it was."""
    return replace(
        asked, decided_at=answer.decided_at, verb=answer.verb, decided_by=answer.decided_by, by_system=answer.by_system
    )


def changes(batch: Batch) -> list[EscalationChange]:
    """The batch's escalations, each once, as it stands at the end; one opened and closed here keeps what it showed."""
    last: dict[str, EscalationChange] = {}
    for change in batch.escalations:
        before = last.pop(change.escalation_id, None)
        last[change.escalation_id] = change if before is None else closed(before, change)
    # Closing before opening: the next question of a step may come in the batch that closes the one before it.
    return sorted(last.values(), key=lambda change: change.decided_at is None)


def distinct_runs(batches: Sequence[Batch]) -> None:
    """Raises ValueError when two batches are of one run: the second would extend what is not yet written."""
    if len({batch.run_id for batch in batches}) != len(batches):
        raise ValueError("two batches of one run in one write: the second waits for the next one")


def told_text(run_seqs: Iterable[tuple[str, int]]) -> str:
    """``run:seq,run:seq``: what a nudge says, on a socket and in a NOTIFY."""
    return ",".join(f"{run}:{seq}" for run, seq in run_seqs)
