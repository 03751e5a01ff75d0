"""Loads a claimed run into memory: folds its journal and checks every byte of it, or names the damage.

A damaged journal is no exception and stops no other run: the run goes to quarantine with one sentence
(``quarantine/verdicts.py``), and no command is issued from a journal that is inconsistent.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Literal

from fabric.core.events.envelope import Event, UnknownEvent, read_row
from fabric.core.evolve import evolve
from fabric.core.state.context import Contents
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import ZERO_HASH, content_ref, decode, event_hash
from fabric.core.values.frozen import replace, value
from fabric.runtime.journal.snapshots import ContentPosition, is_sound, live_refs, restore_run
from fabric.runtime.ports.journal import ClaimedRun, StoredRow

What = Literal["gap", "changed", "payload", "tail", "unknown", "unreadable", "input", "revision"]


@value()
class JournalDamage:
    """Damage of a stored run."""

    what: What
    seq: int
    """The event that it was noticed at; 0: none."""
    sentence: str


@value()
class LoadedRun:
    """A run folded from its journal."""

    run: Run
    head: bytes
    """Chain hash of its last event."""
    contents: Contents
    snapshot_seq: int
    """Seq of the snapshot that loading began with; 0: none."""


class _Damaged(Exception):
    def __init__(self, what: What, seq: int, sentence: str) -> None:
        super().__init__(sentence)
        self.damage = JournalDamage(what, seq, sentence)


def load(claimed: ClaimedRun, revision: str = "") -> LoadedRun | JournalDamage:
    """Fold a run, and check its journal.

    1. Its events are dense, and each is chained to the one before it and has its original payload.
    2. All kinds and versions are known.
    3. The last event is the one that the run's row names.
    4. No payload is missing that the run still needs.

    ``revision``: the revision that would drive it, which must be the one it was started with; otherwise approved
    things would run under other rules.
    """
    try:
        loaded = _load(claimed)
        _check_revision(loaded.run, revision)
        return loaded
    except _Damaged as found:
        return found.damage


def slim(claimed: ClaimedRun) -> ClaimedRun:
    """Return the claim without the journal: the parts that its owner still needs once it is folded."""
    return replace(claimed, rows=(), kept=(), snapshot=None, inbox=(), announced=())


def find_texts(claimed: ClaimedRun) -> tuple[tuple[str, str], ...] | None:
    """Return name and text of its documents; None where they were not read."""
    return None if claimed.documents is None else tuple((one.name, one.text) for one in claimed.documents)


def needs_journal(claimed: ClaimedRun) -> bool:
    """Return True if the snapshot cannot be used, so that ``drop_snapshot`` needs all rows."""
    return claimed.snapshot is not None and not is_sound(claimed.snapshot)


def drop_snapshot(claimed: ClaimedRun, rows: Iterable[StoredRow]) -> ClaimedRun:
    """Return the claim without its snapshot."""
    kept = tuple(row for row in rows if row.seq <= claimed.last_seq)
    return replace(claimed, rows=kept, kept=(), snapshot=None)


# -- folding -----------------------------------------------------------------------------------------------------------


def _load(claimed: ClaimedRun) -> LoadedRun:
    contents, run, head = Contents(), Run(claimed.run_id, tier=claimed.tier, seed=claimed.seed), ZERO_HASH
    gone: dict[str, int] = {}
    if claimed.snapshot is not None:
        run, kept = restore_run(claimed.snapshot)
        head = claimed.snapshot.head
        gone = _take_kept(contents, kept, claimed.kept)
    began = run.seq
    for row in claimed.rows:
        first, *more = _check_row(row, run.seq + 1, head)
        if row.payload is not None:
            contents.put(first.content_ref, decode(row.payload), first.content_bytes)
            contents.seqs[first.content_ref] = row.seq
        elif first.content_ref:
            gone[first.content_ref] = row.seq
        run, head = _fold_event(run, first), row.hash
        for event in more:
            run = _fold_event(run, event)
    _check_end(claimed, run, head)
    _check_contents(run, gone, contents)
    return LoadedRun(run, head, contents, began)


def _check_row(row: StoredRow, expected: int, prev: bytes) -> list[Event]:
    """Return the events of a row that is at its place and unchanged since it was written."""
    seq, kind = row.seq, row.kind
    if seq != expected:
        missing = (
            f"event {expected} is missing" if seq == expected + 1 else f"events {expected} to {seq - 1} are missing"
        )
        raise _Damaged(
            "gap", expected, f"{missing} from the journal" if seq > expected else f"event {seq} is there twice"
        )
    if row.payload is not None and sha256(row.payload).digest() != row.payload_hash:
        raise _Damaged("payload", seq, f"the payload of event {seq} ({kind}) is not the one that was written")
    if event_hash(prev, seq, kind, row.version, row.header, row.payload_hash) != row.hash:
        raise _Damaged(
            "changed",
            seq,
            f"event {seq} ({kind}) was changed, or does not follow from the event before it: its hash differs",
        )
    try:
        return read_row(seq, kind, row.version, row.header)
    except UnknownEvent as error:
        raise _Damaged("unknown", seq, str(error)) from error
    except ValueError as error:
        raise _Damaged("unreadable", seq, str(error)) from error


def _fold_event(run: Run, event: Event) -> Run:
    try:
        return evolve(run, event)
    except Exception as error:
        sentence = f"event {event.seq} ({event.fact.kind}) makes no sense after those before it ({type(error).__name__}: {error})"
        raise _Damaged("unreadable", event.seq, sentence) from error


def _take_kept(contents: Contents, wanted: Iterable[ContentPosition], rows: Iterable[StoredRow]) -> dict[str, int]:
    """Take over the payloads that a snapshot needs, each checked against its own name; return those that are
    missing.
    """
    by_seq, gone = {row.seq: row for row in rows}, {}
    for one in wanted:
        row = by_seq.get(one.seq)
        if row is None or row.payload is None:
            gone[one.ref] = one.seq
        elif content_ref(row.payload) != one.ref:
            raise _Damaged(
                "payload", one.seq, f"the payload of event {one.seq} ({row.kind}) is not the one that was written"
            )
        else:
            contents.put(one.ref, decode(row.payload), one.size)
            contents.seqs[one.ref] = one.seq
    return gone


def _check_end(claimed: ClaimedRun, run: Run, head: bytes) -> None:
    if run.seq < claimed.last_seq:
        which = (
            f"event {claimed.last_seq} is"
            if run.seq + 1 == claimed.last_seq
            else f"events {run.seq + 1} to {claimed.last_seq} are"
        )
        raise _Damaged("tail", run.seq + 1, f"{which} missing at the journal's end")
    if run.seq > claimed.last_seq:
        raise _Damaged(
            "tail",
            claimed.last_seq + 1,
            f"the journal has event {run.seq}, but its run's row ends at {claimed.last_seq}",
        )
    if head != claimed.head:
        raise _Damaged(
            "tail", run.seq, f"event {run.seq} is not the one that the run's row ends with: its hash differs"
        )


def _check_revision(run: Run, revision: str) -> None:
    if revision and run.revision and run.revision != revision:
        sentence = f"it began with revision {run.revision} of its fabric, and what its row names is {revision}"
        raise _Damaged("revision", 1, sentence)


def _check_contents(run: Run, gone: dict[str, int], contents: Contents) -> None:
    if run.terminal:
        return
    for ref in live_refs(run, gone) if gone else ():
        if ref not in contents.values:
            raise _Damaged(
                "payload",
                gone[ref],
                f"the payload of event {gone[ref]} is missing, and the run cannot continue without it",
            )
