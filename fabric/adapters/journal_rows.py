"""What the journal stores have in common: how a batch becomes column values, what it weighs, and the counters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from fabric.core.audit import AuditEntry
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import TERMINAL
from fabric.core.taxonomy import Tier
from fabric.packing.rows import unpack
from fabric.runtime.batch_parts import CLOSING, EscalationChange, Snapshot, names_of, names_text
from fabric.runtime.ports import ANNOUNCED_S, CLAIM_ROWS, Batch, Claimed, InboxItem, NewRun, Priority, StoredRow
from fabric.runtime.progress import PROGRESS
from fabric.runtime.suspects import TOGETHER

PRIORITIES: tuple[Priority, ...] = ("critical", "high", "normal", "low")
"""By rank: the number stored is the position here, and claims go by it."""
TERMINAL_STATES = tuple(sorted(state.value for state in TERMINAL))
TERMINAL_SQL = "({})".format(", ".join(f"'{state}'" for state in TERMINAL_STATES))
TOGETHER_SQL = "CASE {{}} {} ELSE 1 END".format(" ".join(f"WHEN {row[0]} THEN {row[1]}" for row in TOGETHER.items()))
"""``suspects.together`` of a number of claims, which goes in its braces."""
_KEPT = "CASE WHEN excluded.{when} THEN excluded.{name} ELSE fabric_escalation.{name} END"
ESCALATION_CHANGED = ", ".join(
    f"{name} = {_KEPT.format(name=name, when=when)}"
    for name, when in (
        *((name, "decided_at IS NOT NULL") for name in CLOSING),
        *((name, "digest <> ''") for name in ("digest", "content", "proposed_by")),
        ("agreed", "digest <> '' OR excluded.agreed <> ''"),
        *((name, name) for name in ("reminded", "onward")),
    )
)
"""What a later change of a question sets in its row: ``EscalationChange.then`` in the words of both databases."""
ROW_BYTES = 64
"""What a journal row weighs beside its bytes: two hashes of 32."""
SECOND_US = 1_000_000
CLAIM_SPAN = 512
"""How far past its limit a claim looks, for what is more urgent, and for runs that no other claim is taking at this moment."""
ANNOUNCED_US = round(ANNOUNCED_S * SECOND_US)


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


@dataclass(slots=True)
class Loaded:
    """What is read of one run that was claimed, as it comes."""

    rows: list[StoredRow] = field(default_factory=list)
    kept: list[StoredRow] = field(default_factory=list)
    inbox: list[InboxItem] = field(default_factory=list)
    announced: list[InboxItem] = field(default_factory=list)
    snapshot: Snapshot | None = None

    def claimed(self, *row: Any, priority: int, cut: bool = False, at: int = 0) -> Claimed:
        """All of it, with what the run's row says after the claim, in the order of ``_AS_CLAIMED``."""
        said = dict(zip(_AS_CLAIMED, row, strict=True))
        said |= {"tier": Tier(said["tier"]), "taken_over": bool(said["taken_over"]), "capped": bool(said["capped"])}
        said["caused_by"] = names_of(said["caused_by"])
        return Claimed(
            **said,
            rows=tuple(sorted(self.rows, key=_seq)),
            inbox=tuple(self.inbox),
            snapshot=self.snapshot,
            kept=tuple(sorted(self.kept, key=_seq)),
            announced=tuple(self.announced),
            priority=PRIORITIES[priority],
            cut=cut,
            at=at,
        )


_AS_CLAIMED = (
    *("run_id", "fence", "revision_id", "trace_id", "seed", "tier", "taken_over", "claims", "last_seq", "head"),
    *(
        "format",
        "workspace_id",
        "queue",
        "session_key",
        "parent_run_id",
        "parent_command",
        "fabric_id",
        "requested_by",
        "caused_by",
        "capped",
        "policy_number",
    ),
)


def stored_row(
    seq: int, kind: str, version: int, header: bytes, payload: bytes | None, payload_hash: bytes, hashed: bytes
) -> StoredRow:
    """A journal row as it is read from its table."""
    content = None if payload is None else unpack(payload)
    return StoredRow(seq, kind, version, unpack(header), content, payload_hash, hashed)


def _seq(row: StoredRow) -> int:
    return row.seq


_AS_GIVEN = (
    *("run_id", "workspace_id", "revision_id", "session_key", "start_key", "title", "trace_id", "seed", "queue"),
    *("requested_by", "deadline_at", "input_id", "format", "parent_run_id", "parent_command", "root_run_id"),
    *("origin_run_id", "origin_seq"),
)


def run_values(run: NewRun) -> dict[str, Any]:
    """A new run and its first input as parameters of the statement that inserts them."""
    return {name: getattr(run, name) for name in _AS_GIVEN} | {
        "tier": run.tier.value,
        "priority": PRIORITIES.index(run.priority),
        "head": ZERO_HASH,
        "cap": run.cap_usd_micros,
        "body": run.input_body,
        "caused_by": names_text(run.caused_by),
    }


def audit_values(entry: AuditEntry | None) -> dict[str, Any]:
    """An act as a statement's parameters; none for None."""
    if entry is None:
        return {}
    named = {name: getattr(entry, name) for name in ("entry_id", "actor", "via", "subject", "address")}
    return named | {"act": entry.act.value, "entry_body": entry.body}


def weight(batch: Batch) -> int:
    """Bytes that a batch brings: its rows, what its escalations show, its snapshot, and what it has for other runs."""
    total = 0
    for row in batch.rows:
        total += len(row.header) + len(row.payload or b"") + ROW_BYTES
    for change in batch.escalations:
        total += len(change.content)
    if batch.snapshot is not None:
        total += len(batch.snapshot.state)
    for child in batch.children:
        total += len(child.input_body)
    for send in batch.sends:
        total += len(send.body)
    return total


def is_over(batch: Batch) -> bool:
    """True: with this batch the run has ended and is given back. What waits in its inbox is closed with it."""
    return batch.release and ends(batch)


def ends(batch: Batch) -> bool:
    """True: the run's state after the batch is one that absorbs."""
    return batch.columns is not None and batch.columns.state in TERMINAL


def progresses(batch: Batch) -> bool:
    """True: it journals a step that needs not be taken again, so the count of claims starts anew."""
    return any(PROGRESS.get(row.kind, False) for row in batch.rows)


def wakes_at(batch: Batch) -> int | None:
    """When the run is due again after this batch; an ended one never is."""
    return None if ends(batch) else batch.wake_at


def changes(batch: Batch) -> list[EscalationChange]:
    """The batch's escalations, each once, as it stands at the end; one opened and changed here is what came of it."""
    last: dict[str, EscalationChange] = {}
    for change in batch.escalations:
        before = last.pop(change.escalation_id, None)
        last[change.escalation_id] = change if before is None else before.then(change)
    # Closing before opening: the next question of a step may come in the batch that closes the one before it.
    return sorted(last.values(), key=lambda change: change.decided_at is None)


def checked(batches: Sequence[Batch]) -> None:
    """Raises ValueError for what no store can write: see the sentences."""
    if len({batch.run_id for batch in batches}) != len(batches):
        raise ValueError("two batches of one run in one write: the second waits for the next one")
    for batch in batches:
        if not batch.children:
            continue
        if batch.caps is None:
            raise ValueError(f"run {batch.run_id} spawns without the caps of its family: give Batch.caps")
        roots = {child.root_run_id for child in batch.children}
        if len(roots) != 1 or None in roots or any(child.parent_run_id != batch.run_id for child in batch.children):
            raise ValueError(f"a child of run {batch.run_id} has another parent, or another root than the others")
        if any(child.documents or child.start_key for child in batch.children):
            raise ValueError(f"a child of run {batch.run_id} has documents or a start key: it is shown its root's")


def fitting(sizes: Iterable[int]) -> int:
    """How many runs of these sizes, in rows to read, one claim takes."""
    total = taken = 0
    for size in sizes:
        total += size
        if taken and total > CLAIM_ROWS:
            break
        taken += 1
    return taken


def refs_text(refs: Sequence[int]) -> str:
    """A snapshot's refs as they are stored: the databases read them as JSON."""
    return json.dumps(list(refs))


def told_text(run_seqs: Iterable[tuple[str, int]]) -> str:
    """``run:seq,run:seq``: what a nudge says, on a socket and in a NOTIFY."""
    return ",".join(f"{run}:{seq}" for run, seq in run_seqs)
