"""Shared parts of the journal stores: a batch as column values, its weight, counters, and deciders of answers.

The present roles of a decider are looked up with the inbox rows, and once more when they are consumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from fabric.core.audit.lines import AuditEntry
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import TERMINAL
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.packing.rows import unpack
from fabric.runtime.journal.batches import ends
from fabric.runtime.ports.batch_parts import CLOSING, ReviewChange, Snapshot, list_names, names_text
from fabric.runtime.ports.journal import (
    ANNOUNCED_S,
    CLAIM_ROWS,
    Batch,
    ClaimedRun,
    InboxItem,
    NewRun,
    Priority,
    Standing,
    StoredRow,
)

PRIORITIES: tuple[Priority, ...] = ("critical", "high", "normal", "low")
"""Priorities by rank: the stored number is the position here, and claims go by it."""
TERMINAL_STATES = tuple(sorted(state.value for state in TERMINAL))
TERMINAL_SQL = "({})".format(", ".join(f"'{state}'" for state in TERMINAL_STATES))
_KEPT = "CASE WHEN excluded.{when} THEN excluded.{name} ELSE fabric_review.{name} END"
REVIEW_CHANGED = ", ".join(
    f"{name} = {_KEPT.format(name=name, when=when)}"
    for name, when in (
        *((name, "decided_at IS NOT NULL") for name in CLOSING),
        *((name, "digest <> ''") for name in ("digest", "content", "proposed_by")),
        ("agreed", "digest <> '' OR excluded.agreed <> ''"),
        *((name, name) for name in ("reminded", "onward")),
    )
)
"""Assignments of a later change of a review to its row: ``ReviewChange.then`` for both databases."""
ROW_BYTES = 64
"""Weight of a journal row besides its bytes: two hashes of 32."""
CLAIM_SPAN = 512
"""Rows that a claim reads past its limit, for more urgent runs, and for runs free of other claims."""
ANNOUNCED_US = round(ANNOUNCED_S * US)


class Counters:
    """Counts a store's requests to its database. Heartbeats are left out (performance.md P6)."""

    def __init__(self) -> None:
        self.commits = 0
        """Number of transactions that changed something."""
        self.statements = 0
        """Number of statements without BEGIN and COMMIT."""
        self.bytes_written = 0
        """Bytes of written journal rows, inbox rows and documents."""
        self._counting = Lock()

    def count(self, *, commits: int = 0, statements: int = 0, written: int = 0) -> None:
        """Add to the counters; safe from any thread."""
        with self._counting:
            self.commits += commits
            self.statements += statements
            self.bytes_written += written


@dataclass(slots=True)
class LoadedRun:
    """Rows of one claimed run, as they are read."""

    rows: list[StoredRow] = field(default_factory=list)
    kept: list[StoredRow] = field(default_factory=list)
    inbox: list[InboxItem] = field(default_factory=list)
    announced: list[InboxItem] = field(default_factory=list)
    snapshot: Snapshot | None = None

    def build_claim(self, *row: Any, priority: int, cut: bool = False, at: int = 0) -> ClaimedRun:
        """Return all of it, with the run's row after the claim, in the order of ``_AS_CLAIMED``."""
        said = dict(zip(_AS_CLAIMED, row, strict=True))
        said |= {"tier": Tier(said["tier"]), "taken_over": bool(said["taken_over"]), "capped": bool(said["capped"])}
        said["caused_by"] = list_names(said["caused_by"])
        return ClaimedRun(
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
        "trace_context",
        "capped",
        "policy_number",
    ),
)


def stored_row(
    seq: int, kind: str, version: int, header: bytes, payload: bytes | None, payload_hash: bytes, hashed: bytes
) -> StoredRow:
    """Return a journal row as it is read from its table."""
    content = None if payload is None else unpack(payload)
    return StoredRow(seq, kind, version, unpack(header), content, payload_hash, hashed)


def _seq(row: StoredRow) -> int:
    return row.seq


_AS_GIVEN = (
    *("run_id", "workspace_id", "revision_id", "session_key", "start_key", "title", "trace_id", "seed", "queue"),
    *("requested_by", "deadline_at", "input_id", "format", "parent_run_id", "parent_command", "root_run_id"),
    *("origin_run_id", "origin_seq", "trace_context"),
)


def run_values(run: NewRun) -> dict[str, Any]:
    """Return a new run and its first input as parameters of the inserting statement."""
    return {name: getattr(run, name) for name in _AS_GIVEN} | {
        "tier": run.tier.value,
        "priority": PRIORITIES.index(run.priority),
        "head": ZERO_HASH,
        "cap": run.cap_usd_micros,
        "body": run.input_body,
        "caused_by": names_text(run.caused_by),
    }


def audit_values(entry: AuditEntry | None) -> dict[str, Any]:
    """Return an act as a statement's parameters; none for None."""
    if entry is None:
        return {}
    named = {name: getattr(entry, name) for name in ("entry_id", "actor", "via", "subject", "address")}
    return named | {"act": entry.act.value, "entry_body": entry.body}


def weight(batch: Batch) -> int:
    """Return the bytes of a batch: rows, the contents of its reviews, its snapshot, and its inputs for other runs."""
    total = 0
    for row in batch.rows:
        total += len(row.header) + len(row.payload or b"") + ROW_BYTES
    for change in batch.reviews:
        total += len(change.content)
    if batch.snapshot is not None:
        total += len(batch.snapshot.state)
    for child in batch.children:
        total += len(child.input_body)
    for send in batch.sends:
        total += len(send.body)
    return total


def wakes_at(batch: Batch) -> int | None:
    """Return the time at which the run is due again after this batch; None for an ended one."""
    return None if ends(batch) else batch.wake_at


def changes(batch: Batch) -> list[ReviewChange]:
    """Return the batch's reviews, each once in its final state; one that is opened and changed here has both merged."""
    last: dict[str, ReviewChange] = {}
    for change in batch.reviews:
        before = last.pop(change.review_id, None)
        last[change.review_id] = change if before is None else before.then(change)
    # Closing before opening: the next review of a step may come in the batch that closes the one before it.
    return sorted(last.values(), key=lambda change: change.decided_at is None)


def check_batches(batches: Sequence[Batch]) -> None:
    """Raise ValueError for batches that no store can write."""
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
        if any(child.documents or child.labels or child.start_key for child in batch.children):
            raise ValueError(
                f"a child of run {batch.run_id} has documents, labels or a start key: it is shown its root's"
            )


def count_fitting(sizes: Iterable[int]) -> int:
    """Return the number of runs of these sizes, in rows to read, that one claim takes."""
    total = taken = 0
    for size in sizes:
        total += size
        if taken and total > CLAIM_ROWS:
            break
        taken += 1
    return taken


def refs_text(refs: Sequence[int]) -> str:
    """Return a snapshot's refs as they are stored: the databases read them as JSON."""
    return json.dumps(list(refs))


def write_nudge(run_seqs: Iterable[tuple[str, int]]) -> str:
    """Return ``run:seq,run:seq``, the text of a nudge, on a socket and in a NOTIFY."""
    return ",".join(f"{run}:{seq}" for run, seq in run_seqs)


MARK = b'"decision_made"'
"""Text in the body of every answer, of any version, and of few other inputs."""
HOLDS_SQL = """
SELECT CASE WHEN m.service THEN 'decides,' || m.roles WHEN EXISTS (
    SELECT 1 FROM fabric_member o JOIN auth_user p ON p.id = o.user_id
    WHERE o.workspace_id = m.workspace_id AND o.id <> m.id AND o.removed_at IS NULL AND NOT o.service AND p.is_active
  ) THEN m.roles ELSE 'alone,' || m.roles END
FROM fabric_member m JOIN auth_user u ON u.id = m.user_id
WHERE m.workspace_id = coalesce((SELECT w.drills_of_id FROM fabric_workspace w WHERE w.id = {workspace}), {workspace})
  AND m.name = {name} AND m.removed_at IS NULL AND u.is_active"""
"""Statement for a member's roles in a run's workspace, for both databases; no row: no member.

``eligibility.PROGRAM`` precedes those of a program, ``eligibility.ALONE`` those of the one person who can sign in.
"""


def decider(body: bytes | str) -> str:
    """Return the decider in an inbox row. Empty: the row is no answer, or is unreadable, which shows when it
    is taken.
    """
    raw = body.encode() if isinstance(body, str) else body  # Old programs left text in SQLite.
    if MARK not in raw:
        return ""
    try:
        given = json.loads(raw)
    except ValueError:
        return ""
    actor = given.get("actor") if isinstance(given, dict) and given.get("kind") == "decision_made" else ""
    return actor if isinstance(actor, str) else ""


Looks = Callable[[Sequence[tuple[str, str]]], Sequence[str | None]]
"""Takes pairs of a run and a decider, returns each one's present roles there; None for a former member."""


def add_standings(items: Iterable[InboxItem], look: Looks) -> list[InboxItem]:
    """Return the items, each answer with its decider's roles. They are looked up only where there is an answer."""
    found = list(items)
    named = {place: name for place, item in enumerate(found) if (name := decider(item.body))}
    if named:
        held = look([(found[place].run_id, name) for place, name in named.items()])
        for (place, name), roles in zip(named.items(), held, strict=True):
            found[place] = replace(found[place], standing=Standing(name, roles))
    return found
