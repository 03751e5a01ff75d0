"""Read one event with its surroundings: its row, its content, and the run at that seq, by fold.

Folding reads headers alone, ``FOLD_MAX`` of them at most: what lies further in has its facts and says that the rest was
not worked out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.calls.issue import command_for
from fabric.core.events.commands import CallModel
from fabric.core.events.envelope import UnknownEvent, from_row
from fabric.core.evolve import evolve
from fabric.core.mechanisms import budget, find_state
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import Contents, MissingContent
from fabric.core.state.run import Run
from fabric.core.values.taxonomy import Tier
from fabric.core.values.tracing import Trace
from fabric.core.values.units import JSON
from fabric.models import Attachment, Event
from fabric.runtime.ports.calls import ModelRequest, ToolOffer
from fabric.runtime.ports.journal import Document
from fabric.runtime.prompts import model_request
from fabric.selectors.contents import UNREAD, header_for, mask_content
from fabric.selectors.errors import Refused
from fabric.selectors.runs.events.windows import EventRow, event_row, step_agents
from fabric.selectors.runs.lookup import run_get
from fabric.selectors.stored_events import LAST_SEQ, read_events

ContentState = Literal["none", "kept", "erased", "unreadable", "unread"]
"""``unread``: there is one, and who looks may not read it."""

FOLD_MAX = 20_000
"""Events that are folded for one look, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One event with its content."""

    row: EventRow
    content: JSON
    state: ContentState
    content_bytes: int
    """Size of the content's JSON, while it is kept."""
    withheld: bool = False
    """True if some of the content is masked."""


@dataclass(slots=True)
class Moment:
    """A run as it was right after an event."""

    run: Run
    where: dict[str, int] = field(default_factory=dict)
    """The seq of each content, by reference."""
    issued: dict[str, tuple[int, ev.CallIssued]] = field(default_factory=dict)
    """The last attempt of each call with its seq, by command id."""
    reviews: dict[str, tuple[int, ev.ReviewOpened]] = field(default_factory=dict)
    """Every review with its seq."""
    skipped: tuple[ev.RungSkipped, ...] = ()
    """Rungs passed over right before this event."""
    reads: bool = True
    """True: the reader may read the contents."""

    @property
    def spent_usd_micros(self) -> int:
        """The run's cost at that moment."""
        return find_state(self.run.guards, budget).spent_usd_micros

    @property
    def reserved_usd_micros(self) -> int:
        """The most that its calls in flight could still cost."""
        return sum(held.usd_micros for held in find_state(self.run.guards, budget).reserved.values())


def event_get(actor: Actor, run_id: str, seq: int, *, revealed: bool = False) -> EventRecord:
    """One event. ``revealed``: with what is withheld of its content; ``services.reveals`` alone asks for it. Refused
    not_found.
    """
    view = run_get(actor, run_id)
    rows = Event.objects.filter(run_id=run_id) if 0 < seq <= LAST_SEQ else Event.objects.none()
    stored = next(read_events(rows, after=seq - 1, upto=seq, contents=True), None)
    if stored is None:
        raise Refused(f"run {run_id} has no event {seq}; look at the run's page", code="not_found", field="seq")
    row = event_row(step_agents(run_id, view.last_seq), stored, reads=view.reads)
    if stored.payload is None:
        return EventRecord(row=row, content=None, state="erased" if row.payload_hash else "none", content_bytes=0)
    raw = stored.payload
    if not view.reads:
        return EventRecord(row=row, content=None, state="unread", content_bytes=len(raw))
    try:
        given = json.loads(raw)
        content = given if revealed else mask_content(given)
        return EventRecord(row=row, content=content, state="kept", content_bytes=len(raw), withheld=content != given)
    except (ValueError, RecursionError):
        return EventRecord(row=row, content=None, state="unreadable", content_bytes=len(raw))


def moment_at(actor: Actor, run_id: str, seq: int) -> Moment | None:
    """Return the run right after ``seq``. None: it is too far in, or the journal up to there does not fold. Refused
    not_found.
    """
    view = run_get(actor, run_id)
    if seq > FOLD_MAX:
        return None
    moment = Moment(Run(run_id, tier=Tier(view.tier)), reads=view.reads)
    rows = Event.objects.filter(run_id=run_id)
    try:
        for number, kind, version, _, header, *_ in read_events(rows, upto=seq):
            _take(moment, number, kind, version, header_for(header, reads=view.reads), last=number == seq)
    except Exception:  # noqa: BLE001 - A gap, a kind of a newer version, a damaged journal: it may break anywhere, and nothing after it can be trusted.
        return None
    return moment if moment.run.seq == seq else None


def _take(moment: Moment, seq: int, kind: str, version: int, header: bytes, *, last: bool) -> None:
    event = from_row(seq, kind, version, header)
    if seq != moment.run.seq + 1:
        raise UnknownEvent(f"event {moment.run.seq + 1} is missing")
    fact = event.fact
    moment.run = evolve(moment.run, event)
    if event.content_ref:
        moment.where.setdefault(event.content_ref, seq)
    if isinstance(fact, ev.CallIssued):
        moment.issued[fact.command_id] = (seq, fact)
    elif isinstance(fact, ev.ReviewOpened):
        moment.reviews[fact.review_id] = (seq, fact)
    if isinstance(fact, ev.RungSkipped):
        moment.skipped = (*moment.skipped, fact)
    elif not last:
        moment.skipped = ()


SETTLING = (
    *("model_answered", "tool_answered", "input_requested"),
    *("attempt_failed", "attempt_interrupted", "call_aborted"),
)
"""Kinds that end an attempt."""
SETTLED_WITHIN = 2_000
"""Events that are looked at for the end of one attempt."""


def find_attempt_end(run_id: str, seq: int, command_id: str, attempt: int) -> tuple[int, str, int] | None:
    """Return ``(seq, kind, instant)`` of the event that ended the attempt issued at ``seq``. None: it is out, or the
    end lies far off.

    The caller has checked that the reader may see the run.
    """
    rows = Event.objects.filter(run_id=run_id)
    found = read_events(rows, after=seq, upto=seq + SETTLED_WITHIN, kinds=SETTLING)
    mark = command_id.encode()
    for number, kind, version, at, raw, *_ in found:
        if mark not in raw:
            continue
        try:
            fact: Any = from_row(number, kind, version, raw).fact
        except ValueError:
            continue
        if fact.command_id == command_id and fact.attempt == attempt:
            return number, kind, at
    return None


class Erased(LookupError):
    """Something that a prompt was made of is no longer kept."""


class Unread(LookupError):
    """The reader may not read the contents of a prompt."""


def prompt_at(
    actor: Actor, run_id: str, moment: Moment, issued: ev.CallIssued, spec: FabricSpec, offers: Mapping[str, ToolOffer]
) -> ModelRequest:
    """The request as it was sent, rendered again from its references. Raises Erased, Unread; KeyError for what this
    version does not know.
    """
    view = run_get(actor, run_id)
    if not view.reads:
        raise Unread(UNREAD)
    command = command_for(moment.run, spec, issued)
    assert isinstance(command, CallModel)
    refs = {ref for message in command.messages for ref in message.refs}
    render = _renderer(view.trace, command, spec, offers)
    contents = build_contents(run_id, moment, refs)
    nested = _refs_within(contents.values.values())
    if nested - refs:
        for ref, value in build_contents(run_id, moment, nested - refs).values.items():
            contents.put(ref, value, 0)
    try:
        return render(contents)
    except MissingContent as error:
        raise Erased(str(error)) from None


def _renderer(
    trace: Trace, command: CallModel, spec: FabricSpec, offers: Mapping[str, ToolOffer]
) -> Callable[[Contents], ModelRequest]:
    def render(contents: Contents) -> ModelRequest:
        return model_request(
            command,
            trace=trace,
            spec=spec,
            contents=contents,
            documents=lambda: _documents(trace.run_id),
            offers=offers,
        )

    return render


def _documents(run_id: str) -> tuple[Document, ...]:
    rows = Attachment.objects.filter(run_id=run_id).order_by("position")
    return tuple(Document(*row) for row in rows.values_list("name", "text", "origin"))


def _refs_within(values: Iterable[JSON]) -> set[str]:
    """References that a fan-out's output has to its branches' answers."""
    found: set[str] = set()
    for value in values:
        output = value.get("output") if isinstance(value, dict) else None
        for part in output if isinstance(output, list) else ():
            if isinstance(part, dict) and isinstance(part.get("ref"), str) and part["ref"]:
                found.add(part["ref"])
    return found


def build_contents(run_id: str, moment: Moment, refs: Iterable[str]) -> Contents:
    """Return the contents of those references that are still kept, masked. A reader without the right gets none."""
    seqs = {moment.where[ref]: ref for ref in refs if ref in moment.where}
    contents = Contents()
    wanted = sorted(seqs) if moment.reads else []
    rows = Event.objects.filter(run_id=run_id, seq__in=wanted, payload__isnull=False)
    for seq, payload in rows.values_list("seq", "payload"):
        raw = bytes(payload or b"null")
        try:
            contents.put(seqs[seq], mask_content(json.loads(raw)), len(raw))
        except (ValueError, RecursionError):
            continue  # One that was damaged is as one that was erased.
    return contents
