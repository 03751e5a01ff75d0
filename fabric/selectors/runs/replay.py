"""Refolding: a run's journal read again from its rows and compared, byte for byte, with what the tables say
(docs/design.md).

Checked: each header encodes to the bytes that are stored, each payload has its hash, the chain is whole, and the state
that the journal folds to is what the run's row and its reviews show. Reads only; a run that goes on meanwhile is read
again until it stands still.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from django.db.models import QuerySet

from fabric.core.decision.work import EmittedFact
from fabric.core.events.envelope import NO_PAYLOAD, Event, read_row, to_row, verify_chain
from fabric.core.evolve import evolve
from fabric.core.people.actor import Actor
from fabric.core.state.run import Run
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.taxonomy import Tier
from fabric.models import Event as EventRow
from fabric.models import Review
from fabric.models import Run as RunRow
from fabric.runtime.journal import projection
from fabric.runtime.ports.batch_parts import Reservation, ReviewChange, RunColumns, Settlement
from fabric.runtime.spending.shares import list_entries
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible

READS_MAX = 10
PAGE = 500
ERASED = b"{}"
"""Text of ``projection.review_changes`` for an erased content."""

REFOLDED = (
    *("id", "seed", "tier", "last_seq", "head_hash", "state", "stage", "epoch", "cost_usd_micros", "tokens", "reason"),
    *("recovered", "truncated", "cause", "failure", "fired", "breakers"),
    *("unconfirmed_usd_micros", "spent_on", "started_at", "ended_at", "deadline_at"),
)
"""The columns of a run's row that refolding reads."""
PROJECTED = (
    "stage",
    "epoch",
    "cost_usd_micros",
    "tokens",
    "reason",
    "recovered",
    "truncated",
    "cause",
    "failure",
    "fired",
    "breakers",
    "unconfirmed_usd_micros",
    "spent_on",
    "started_at",
    "ended_at",
)


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of refolding one run. No differences: the tables agree with the journal."""

    run_id: str
    events: int
    differences: tuple[str, ...]


def replay_run(actor: Actor, run_id: str) -> Replay:
    """Refolds one run. Refused not_found."""
    for _ in range(READS_MAX):
        before = _row(actor, run_id)
        found = _compare_row(before)
        if not found.differences or _row(actor, run_id)["last_seq"] == before["last_seq"]:
            break
    return found


def run_ids(actor: Actor) -> Iterator[str]:
    """The ids of all the workspace's runs in order, a page at a time."""
    last = ""
    while page := list(_ids(actor).filter(id__gt=last)[:PAGE]):
        yield from page
        last = page[-1]


def _ids(actor: Actor) -> QuerySet[Any, str]:
    return RunRow.objects.filter(match_visible(actor, RunRow)).order_by("id").values_list("id", flat=True)


def _row(actor: Actor, run_id: str) -> dict[str, Any]:
    row = RunRow.objects.filter(match_visible(actor, RunRow), id=clean_text(run_id)[0]).values(*REFOLDED).first()
    if row is None:
        raise Refused(f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found")
    return dict(row)


def _compare_row(row: dict[str, Any]) -> Replay:
    """One reading of a run: its rows up to where its row says the journal ends."""
    found = refold_run(row)
    differences = [*found.differences, *([found.damage] if found.damage else [])]
    if found.folds:
        differences += columns_differ(row, projection.columns(found.run), started=found.run.seq > 0)
        differences += compare_reviews(row["id"], found.changes)
    return Replay(row["id"], found.run.seq, tuple(differences))


@dataclass(slots=True)
class Refolded:
    """A journal, folded from its rows."""

    run: Run
    changes: dict[str, ReviewChange] = field(default_factory=dict)
    """Events of each review, in order."""
    reserved: list[Reservation] = field(default_factory=list)
    """Amounts that its calls took of shared budgets, with their settlements."""
    settled: list[Settlement] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    """Rows whose bytes are not what they should be, a sentence each; they fold all the same."""
    damage: str = ""
    """Why the journal ends before its row's end, or elsewhere; empty: it is whole."""
    folds: bool = True
    """False: something between its rows, or one of them, could not be folded, so ``run`` is not its state."""


def refold_run(row: dict[str, Any]) -> Refolded:
    """Folds a run's events up to where its row says that the journal ends. ``row``: ``REFOLDED`` of it."""
    found = Refolded(Run(row["id"], tier=Tier(row["tier"]), seed=row["seed"]))
    head = ZERO_HASH
    for seq, kind, version, header, payload, payload_hash, hashed in _rows(row):
        run = found.run
        if seq != run.seq + 1:
            found.damage, found.folds = f"event {run.seq + 1} is missing: {seq} follows {run.seq}", False
            return found
        if verify_chain([(seq, kind, version, header, payload_hash, hashed)], head) is not None:
            found.differences.append(f"event {seq}: the chain is broken here")
        try:
            events = read_row(seq, kind, version, header)
            found.differences += _bytes_differ(events, header, payload, payload_hash)
            for event in events:
                found.run = evolve(found.run, event)
            head = hashed
        except Exception as error:  # noqa: BLE001 - A damaged journal may break anywhere, and that is what is looked for.
            damage = f"event {seq} ({kind}) does not fold: {error} ({type(error).__name__})"
            found.damage, found.folds = damage, False
            return found
        emitted = [EmittedFact(event, None if n else payload) for n, event in enumerate(events)]
        reserved, settled = list_entries(run, emitted)
        found.reserved += reserved
        found.settled += settled
        for change in projection.review_changes(emitted):
            known = found.changes.get(change.review_id)
            found.changes[change.review_id] = change if known is None else known.then(change)
    if (found.run.seq, head) != (row["last_seq"], bytes(row["head_hash"])):
        ends = f"the run's row ends at event {row['last_seq']}, the journal at {found.run.seq}"
        found.damage = f"{ends}, or their hashes differ"
    return found


def _rows(row: dict[str, Any]) -> Iterator[tuple[int, str, int, bytes, bytes | None, bytes, bytes]]:
    rows = EventRow.objects.filter(run_id=row["id"], seq__lte=row["last_seq"]).order_by("seq")
    fields = rows.values_list("seq", "kind", "version", "header", "payload", "payload_hash", "hash")
    for seq, kind, version, header, payload, payload_hash, hashed in fields.iterator(chunk_size=PAGE):
        kept = None if payload is None else bytes(payload)
        yield seq, kind, version, bytes(header), kept, bytes(payload_hash), bytes(hashed)


def _bytes_differ(events: list[Event], header: bytes, payload: bytes | None, payload_hash: bytes) -> Iterator[str]:
    event, *more = events
    if to_row(event, None, ZERO_HASH, more=more).header != header:
        yield f"event {event.seq} ({event.fact.kind}): its header does not encode to the bytes that are stored"
    if payload is not None and sha256(payload).digest() != payload_hash:
        yield f"event {event.seq} ({event.fact.kind}): its payload is not the one that was hashed"
    named = payload_hash.hex()[:32] if payload_hash != NO_PAYLOAD else ""
    if event.content_ref != named:
        yield f"event {event.seq} ({event.fact.kind}): it names another content than its payload"


def columns_differ(row: dict[str, Any], folded: RunColumns, *, started: bool) -> Iterator[str]:
    """Return each column of the run's row that differs from its folded journal, as a sentence."""
    if not started:
        return
    wanted = {name: getattr(folded, name) for name in PROJECTED} | {"state": folded.state.value}
    if folded.deadline_at:
        wanted["deadline_at"] = folded.deadline_at
    for name, value in wanted.items():
        if row[name] != value:
            yield f"the run's row has {name} {row[name]!r}, the journal {value!r}"


def compare_reviews(run_id: str, changes: dict[str, ReviewChange]) -> Iterator[str]:
    """Return each row of the table of reviews that differs from the journal, as a sentence."""
    rows = {row.id: row for row in Review.objects.filter(run_id=run_id)}
    for missing in changes.keys() - rows.keys():
        yield f"review {missing} is in the journal and not in the table"
    for extra in rows.keys() - changes.keys():
        yield f"review {extra} is in the table and not in the journal"
    for name in sorted(changes.keys() & rows.keys()):
        yield from _compare_review(rows[name], changes[name])


def _compare_review(row: Review, wanted: ReviewChange) -> Iterator[str]:
    if wanted.content != ERASED and bytes(row.content) != wanted.content:
        yield f"review {row.id} shows something else than the journal has"
    for name, value in wanted.row.items():
        if name != "content" and getattr(row, name) != value:
            yield f"review {row.id} has {name} {getattr(row, name)!r}, the journal {value!r}"
