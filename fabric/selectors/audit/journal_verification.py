"""Verifies every journal, the audit stream and the checkpoints from their rows, and reports each fault in a sentence.

It only reads, in pages, so its memory does not grow with the tables. Rows written meanwhile are no fault: the row of
a run is read before its events, and once more where there are events past its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from django.db import connection

from fabric.core.events.envelope import NO_PAYLOAD, UnknownEvent, find_last_seq, from_row, read_row, split_row
from fabric.core.values.fingerprint import ZERO_HASH, event_hash
from fabric.models import Run
from fabric.packing.rows import unpack
from fabric.selectors.audit.lookup import was_erased

RUNS = 500
EVENTS = 200
"""Rows in one page, all in memory at once with their contents."""
FAULTS_A_RUN = 20


class AuditFault(StrEnum):
    """Kind of a fault."""

    GAP = "gap"
    CHANGED = "changed"
    PAYLOAD_CHANGED = "payload_changed"
    PAYLOAD_MISSING = "payload_missing"
    UNKNOWN_VERSION = "unknown_version"
    END_DIFFERS = "end_differs"
    RUN_MISSING = "run_missing"
    STREAM_GAP = "stream_gap"
    STREAM_CHANGED = "stream_changed"
    CUT_CHANGED = "cut_changed"
    CHECKPOINT_CHANGED = "checkpoint_changed"
    CHECKPOINT_MISSING = "checkpoint_missing"
    UNTRUSTED_KEY = "untrusted_key"
    COVERED_MISSING = "covered_missing"
    COVERED_CHANGED = "covered_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One fault. ``run_id`` empty: in the stream or a checkpoint, and ``seq`` is a place in there."""

    fault: AuditFault
    run_id: str = ""
    seq: int = 0
    says: str


@dataclass(slots=True)
class VerifiedCounts:
    """Numbers of verified rows."""

    runs: int = 0
    events: int = 0
    lines: int = 0
    unsealed: int = 0
    checkpoints: int = 0
    erased: int = 0
    """Runs with erased contents, according to the audit stream."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """One row of ``fabric_event`` with all its columns, unpacked."""

    run_id: str
    seq: int
    kind: str
    version: int
    at: int
    header: bytes
    payload: bytes | None
    payload_hash: bytes
    hash: bytes
    workspace_id: str
    more: int

    @property
    def last_seq(self) -> int:
        """Return the seq of the row's last event."""
        return find_last_seq(self.seq, self.header)


@dataclass(slots=True)
class JournalCheck:
    """Follows one run's journal row by row, up to the end that the run's row states."""

    run_id: str
    workspace_id: str
    last_seq: int
    head_hash: bytes
    seq: int = 0
    head: bytes = ZERO_HASH
    past: int = 0
    """Seq of the last row past the end that the run's row states; 0: none."""
    whole: bool = True
    """False after a gap: the chain before the next row is unknown."""
    missing: list[int] = field(default_factory=list)
    """Seqs of rows whose payload is missing although they had one."""

    def take(self, row: JournalRow) -> Iterator[AuditFinding]:
        """Check the next row."""
        if row.last_seq > self.last_seq:
            self.past = row.last_seq
            return
        if row.seq != self.seq + 1:
            gone = (
                f"event {self.seq + 1} is" if row.seq == self.seq + 2 else f"events {self.seq + 1} to {row.seq - 1} are"
            )
            yield self._build_finding(AuditFault.GAP, self.seq + 1, f"{gone} missing: {row.seq} follows {self.seq}")
            self.whole = False
        changed = self._find_change(row)
        if changed:
            yield self._build_finding(AuditFault.CHANGED, row.seq, f"event {row.seq} ({row.kind[:40]}) {changed}")
        elif unknown := _unknown(row):
            yield self._build_finding(AuditFault.UNKNOWN_VERSION, row.seq, unknown)
        yield from self._payload(row)
        # The number of events by the part that was not changed, so that no gap seems to follow.
        self.seq = row.last_seq if self._is_chained(row) else row.seq + row.more
        self.head, self.whole = row.hash, True

    def _is_chained(self, row: JournalRow) -> bool:
        hashed = event_hash(self.head, row.seq, row.kind, row.version, row.header, row.payload_hash)
        return not self.whole or hashed == row.hash

    def _find_change(self, row: JournalRow) -> str:
        if not self._is_chained(row):
            return "does not have the hash of what it says after the event before it: it, or that one, was changed"
        if row.workspace_id != self.workspace_id:
            return f"names another workspace than its run, {row.workspace_id[:80]!r}"
        if row.seq + row.more != row.last_seq:
            return "has another number of events in its row than in its header"
        try:
            instants = {event.at for event in read_row(row.seq, row.kind, row.version, row.header)}
        except UnknownEvent:
            return ""
        except ValueError:
            return "has a header that cannot be read"
        return "" if instants == {row.at} else "has another instant in its row than in its header"

    def _payload(self, row: JournalRow) -> Iterator[AuditFinding]:
        if row.payload is None:
            if row.payload_hash != NO_PAYLOAD:
                self.missing.append(row.seq)
        elif sha256(row.payload).digest() != row.payload_hash:
            sentence = f"event {row.seq} ({row.kind[:40]}) has another content than the one that was hashed"
            yield self._build_finding(AuditFault.PAYLOAD_CHANGED, row.seq, sentence)

    def end(self) -> Iterator[AuditFinding]:
        """Check the end, after the last row."""
        if self.seq < self.last_seq:
            sentence = f"the journal ends at event {self.seq}, the run's row says {self.last_seq}: its end was cut off"
            yield self._build_finding(AuditFault.GAP, self.seq + 1, sentence)
        elif self.head != self.head_hash:
            sentence = f"the hash of event {self.seq} is not the one that the run's row has for its end"
            yield self._build_finding(AuditFault.END_DIFFERS, self.seq, sentence)

    def _build_finding(self, fault: AuditFault, seq: int, says: str) -> AuditFinding:
        return AuditFinding(fault=fault, run_id=self.run_id, seq=seq, says=f"run {self.run_id}: {says}")


def _unknown(row: JournalRow) -> str:
    for seq, kind, version, header in split_row(row.seq, row.kind, row.version, row.header):
        try:
            from_row(seq, kind, version, header)
        except UnknownEvent:
            return f"event {seq} is {kind[:40]!r} version {version}, which this program does not know: upgrade it, then verify again"
    return ""


def verify_journals(counted: VerifiedCounts, run_id: str = "") -> Iterator[AuditFinding]:
    """Verify every journal, or one."""
    after = ""
    while True:
        rows = _runs(run_id, after)
        last = len(rows) < RUNS
        upto = run_id or ("" if last else max(rows))
        yield from _range(rows, after, upto, counted, run_id)
        if last or run_id:
            return
        after = upto


def _runs(run_id: str, after: str) -> dict[str, tuple[str, int, bytes]]:
    found = Run.objects.filter(id=run_id) if run_id else Run.objects.filter(id__gt=after).order_by("id")[:RUNS]
    rows = found.values_list("id", "workspace_id", "last_seq", "head_hash")
    return {name: (workspace, last_seq, bytes(head)) for name, workspace, last_seq, head in rows}


def _range(
    rows: Mapping[str, tuple[str, int, bytes]], after: str, upto: str, counted: VerifiedCounts, only: str
) -> Iterator[AuditFinding]:
    """Verify the journals of all runs with ``after`` < id <= ``upto``, including runs without a row."""
    waiting = dict(rows)
    check: JournalCheck | None = None
    found = 0
    for row in _events(only or after, upto, exact=bool(only)):
        counted.events += row.last_seq - row.seq + 1
        if check is None or check.run_id != row.run_id:
            if check is not None:
                yield from _end_check(check, counted)
            known = waiting.pop(row.run_id, None)
            if known is None:
                # It may have been started since the page of runs was read.
                known = _runs(row.run_id, "").get(row.run_id)
                if known is None:
                    yield _orphan(row)
            check, found = JournalCheck(row.run_id, *(known or (row.workspace_id, 0, ZERO_HASH))), 0
        for finding in check.take(row):
            found += 1
            if found <= FAULTS_A_RUN:
                yield finding
    if check is not None:
        yield from _end_check(check, counted)
    for name, (workspace_id, last_seq, head) in waiting.items():
        yield from _end_check(JournalCheck(name, workspace_id, last_seq, head), counted)


def _orphan(row: JournalRow) -> AuditFinding:
    sentence = f"run {row.run_id}: there are events of it, and no run: its row was deleted"
    return AuditFinding(fault=AuditFault.RUN_MISSING, run_id=row.run_id, seq=row.seq, says=sentence)


def _end_check(check: JournalCheck, counted: VerifiedCounts) -> Iterator[AuditFinding]:
    counted.runs += 1
    yield from check.end()
    if check.past:
        now = _runs(check.run_id, "").get(check.run_id)
        if now is not None and now[1] < check.past:
            sentence = f"run {check.run_id}: there is an event {check.past}, and the run's row says that its journal ends at {now[1]}"
            yield AuditFinding(fault=AuditFault.END_DIFFERS, run_id=check.run_id, seq=now[1] + 1, says=sentence)
    if check.missing and was_erased(check.workspace_id, check.run_id):
        counted.erased += 1
    elif check.missing:
        seq, count = check.missing[0], len(check.missing)
        which = f"event {seq} has" if count == 1 else f"event {seq} and {count - 1} more have"
        sentence = (
            f"run {check.run_id}: {which} lost the content that was hashed, and no audit line says that it was erased"
        )
        yield AuditFinding(fault=AuditFault.PAYLOAD_MISSING, run_id=check.run_id, seq=seq, says=sentence)


_COLUMNS = "run_id, seq, kind, version, at, header, payload, payload_hash, hash, workspace_id, more"


def _events(after: str, upto: str, *, exact: bool) -> Iterator[JournalRow]:
    """Yield the rows of all journals with ``after`` < run id <= ``upto``, by run and seq, in pages.

    ``exact``: the rows of run ``after`` too.
    """
    at: tuple[str, int] = (after, -(2**31) if exact else 2**31 - 1)
    bound = "AND run_id <= %s" if upto else ""
    statement = f"SELECT {_COLUMNS} FROM fabric_event WHERE (run_id, seq) > (%s, %s) {bound} ORDER BY run_id, seq LIMIT {EVENTS}"  # noqa: S608 - constants.
    while True:
        values: list[Any] = [*at, *([upto] if upto else [])]
        with connection.cursor() as cursor:
            cursor.execute(statement, values)
            page = cursor.fetchall()
        for run_id, seq, kind, version, instant, header, payload, payload_hash, hashed, workspace_id, more in page:
            kept = None if payload is None else unpack(bytes(payload))
            yield JournalRow(run_id, seq, kind, version, instant, unpack(bytes(header)), kept, bytes(payload_hash), bytes(hashed), workspace_id, more)  # fmt: skip
        if len(page) < EVENTS:
            return
        at = page[-1][:2]
