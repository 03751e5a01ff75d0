"""Reads runs: lists by keyset, one run, its outcome, its events.

1. A pause that people asked for may not be taken by the run's owner yet.
2. The columns of its row say whom a run waits for, in Python and as a condition on rows.
3. A run that was stopped, or that asks a person, comes with advice by the cause of its reason (``taxonomy.CLASSIFY``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from fabric.core.events import RunEnded
from fabric.core.events.envelope import UnknownEvent, from_row
from fabric.core.people.actor import Actor
from fabric.core.schema.payloads import Outcome, typed_model
from fabric.core.texts.text import clean_text
from fabric.core.values.flow import PROVIDER_AWAY, TERMINAL, RunState
from fabric.core.values.labels import read_labels
from fabric.core.values.taxonomy import CLASSIFY, Cause, Tier
from fabric.core.values.tracing import Trace, find_trace, parties
from fabric.core.values.units import JSON
from fabric.models import Attachment, Event, Inbox, Priority, Run
from fabric.models.runs.run import ASKED_FOR, ERASED_TITLE, LIVE
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.contents import content_for, fact_shown, header_for, line_for, may_read, title_for
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.display import write_sentence
from fabric.selectors.runs.labels import find_labels
from fabric.selectors.stored_events import StoredEvent, read_events

WaitsFor = Literal["person", "provider"]
WAITS: Mapping[WaitsFor, Q] = {
    "person": Q(state=RunState.WAITING.value),
    "provider": Q(state=RunState.RUNNING.value, reason__startswith=PROVIDER_AWAY),
}
"""The runs that wait for each; total over ``WaitsFor``. All of them are live."""


class Waiting:
    """A run as some list or page shows it, with its columns ``state`` and ``reason``."""

    __slots__ = ()
    state: str
    reason: str

    @property
    def waits_for(self) -> WaitsFor | None:
        """Return who the run waits for while it does nothing else. A wait for a provider ends by itself."""
        if self.state == RunState.WAITING:
            return "person"
        away = self.state == RunState.RUNNING and self.reason.startswith(PROVIDER_AWAY)
        return "provider" if away else None


LIMIT_MAX = 500

VIEW_COLUMNS = (
    *(
        "id",
        "workspace_id",
        "fabric_id",
        "revision_id",
        "session_key",
        "start_key",
        "title",
        "trace_id",
        "trace_context",
        "tier",
        "queue",
    ),
    *(
        "priority",
        "created_at",
        "created_by",
        "state",
        "stage",
        "epoch",
        "cost_usd_micros",
        "tokens",
        "reason",
        "recovered",
    ),
    *(
        "truncated",
        "cause",
        "failure",
        "fired",
        "breakers",
        "started_at",
        "ended_at",
        "deadline_at",
        "last_seq",
        "parent_run_id",
        "parent_command",
        "root_run_id",
        "cap_usd_micros",
        "fabric__name",
        "fabric__title",
        "revision__number",
    ),
)
"""Columns that ``make_view`` takes, beside ``LABELS``."""
LABELS = "labels_text"
"""Name of the column of ``find_labels`` beside those of a run's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView(Waiting):
    """A run as its last batch left it. Instants are microseconds since the epoch, UTC; money is micro-dollars."""

    id: str
    workspace_id: str
    fabric_id: str
    fabric_name: str
    fabric_title: str
    revision_id: str
    revision_number: int
    title: str
    """First line of the request."""
    session_key: str
    start_key: str
    trace_id: str
    trace_context: str
    """Trace of its caller (``core.values.tracing.Caller.pack``)."""
    tier: Tier
    queue: str
    priority: str
    created_at: int
    created_by: str
    state: RunState
    stage: str
    epoch: int
    cost_usd_micros: int
    tokens: int
    reason: str
    recovered: bool
    truncated: bool
    started_at: int | None
    ended_at: int | None
    deadline_at: int
    last_seq: int
    parent_run_id: str | None = None
    """Run that spawned it; None: a root."""
    parent_command: str = ""
    """Command of its parent that it answers."""
    root_run_id: str | None = None
    cause: str = ""
    """Cause of the failure that ended or last troubled it; "": none did."""
    failure: str = ""
    """Row of the decision table that it met last; "": none."""
    fired: tuple[str, ...] = ()
    """Short names of the protections that fired (``core.state.trouble``)."""
    breakers: tuple[str, ...] = ()
    """Breakers that refused its calls, as ``scope:name``."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values by key; a child run has its root's."""
    cap_usd_micros: int | None = None
    """Amount that its parent reserved for it."""
    documents: tuple[str, ...] = ()
    """Names of the attached documents; only ``run_get`` fills them in."""
    reads: bool = True
    """True: the reader may read its contents. Else title and reason are withheld."""
    as_of: int | None = None
    """The event that it is shown as of; None: it is shown as it is now."""

    @property
    def trace(self) -> Trace:
        """Return its place in its trace."""
        return find_trace(
            self.trace_id,
            self.id,
            parent_run_id=self.parent_run_id,
            parent_command=self.parent_command,
            context=self.trace_context,
        )

    @property
    def terminal(self) -> bool:
        """True: nothing can happen to it any more."""
        return self.state in TERMINAL

    @property
    def changes(self) -> bool:
        """True: what is shown of it may change by itself. A run of the past does not."""
        return self.as_of is None and not self.terminal

    @property
    def erased(self) -> bool:
        """True: retention took its input and its answers."""
        return self.terminal and self.title == ERASED_TITLE

    @property
    def cursor(self) -> str:
        """The value of ``before`` with which ``runs_list`` goes on after this run."""
        return f"{self.created_at}.{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event as people and programs read it."""

    seq: int
    at: int
    """Microseconds since the epoch, UTC."""
    kind: str
    fact: dict[str, JSON]
    """The fact with its defaults, ``kind`` and ``version``; empty for a kind that a newer version wrote."""
    content: JSON
    """Content of the event; None: none, or erased."""
    source: str
    destination: str
    summary: str
    """One short sentence with the numbers."""


def runs_list(
    actor: Actor,
    *,
    limit: int = 50,
    before: str | None = None,
    state: str | None = None,
    fabric: str | None = None,
    tier: str | None = None,
    parent: str | None = None,
    waits_for: WaitsFor | None = None,
) -> list[RunView]:
    """The workspace's runs, the newest first; child runs only of the one that is named as their ``parent``.

    ``before``: the cursor of the last run seen. Refused invalid for an unknown state or cursor.
    """
    rows = Run.objects.filter(match_visible(actor, Run))
    rows = rows.filter(ASKED_FOR if parent is None else Q(parent_run_id=parent))
    if fabric is not None:
        rows = rows.filter(fabric__name=clean_text(fabric)[0])
    if tier is not None:
        rows = rows.filter(tier=clean_text(tier)[0])
    if state is not None:
        if state not in tuple(RunState):
            known = ", ".join(RunState)
            raise Refused(f"there is no state {state[:40]!r}; there are: {known}", code="invalid", field="state")
        rows = rows.filter(state=state)
    if waits_for is not None:
        rows = rows.filter(LIVE, WAITS[waits_for])
    if before is not None:
        rows = rows.filter(build_cursor_condition(before, "-created_at", field="before"))
    page = rows.order_by("-created_at", "id").values(*VIEW_COLUMNS, **{LABELS: find_labels()})[
        : max(1, min(limit, LIMIT_MAX))
    ]
    return [make_view(actor, row) for row in page]


LAST_RUNS = 200
"""Number of the newest runs among which a person's last one is looked for."""


def find_last_fabric(actor: Actor) -> str:
    """Return the fabric of the actor's last run; empty if they started none of the newest runs."""
    newest = Run.objects.filter(match_visible(actor, Run)).order_by("-created_at", "id")[:LAST_RUNS]
    return next((name for name, by in newest.values_list("fabric__name", "created_by") if by == actor.name), "")


def run_get(actor: Actor, run_id: str) -> RunView:
    """One run with the names of its documents. Refused not_found."""
    row = _one(actor, run_id).values(*VIEW_COLUMNS, **{LABELS: find_labels()}).first()
    if row is None:
        raise _refuse_missing(run_id)
    names = Attachment.objects.filter(run_id=run_id, workspace_id=actor.workspace_id).order_by("position")
    return make_view(actor, row, tuple(names.values_list("name", flat=True)))


def run_outcome(actor: Actor, run_id: str) -> dict[str, JSON] | None:
    """Return ``payloads.Outcome`` as JSON, with ``partial`` of ``run_ended``, and ``data`` where its author has an
    output schema. None: there is none, it was erased, or the reader may not see it. Refused not_found.
    """
    found = _outcome_row(actor, run_id) if _readable(actor, run_id) else None
    return None if found is None else _outcome(found[1], partial=found[2])


def outcome_seq(actor: Actor, run_id: str) -> int | None:
    """The event whose content is the outcome, where there is one. Refused not_found."""
    found = _outcome_row(actor, run_id)
    return None if found is None else found[0]


def _outcome_row(actor: Actor, run_id: str) -> tuple[int, bytes, bool] | None:
    """``(seq, content, whether it is partial)``."""
    _exists(actor, run_id)
    events = Event.objects.filter(run_id=run_id, workspace_id=actor.workspace_id)
    last = (
        events.filter(kind=RunEnded.kind).values("seq", "kind", "version", "header", "payload").order_by("-seq").first()
    )
    if last is None:
        return None
    try:
        ended = from_row(last["seq"], last["kind"], last["version"], bytes(last["header"]))
    except ValueError:
        return None
    assert isinstance(ended.fact, RunEnded)
    found = (last["seq"], last["payload"])
    if ended.fact.outcome_ref:
        found = _content(events, ended.fact.outcome_ref)
    return None if found[1] is None else (found[0], bytes(found[1]), ended.fact.partial)


def _content(events: QuerySet[Event], ref: str) -> tuple[int, Raw | None]:
    """The content with that reference and its event: the first half of its hash, so a range of hashes."""
    low = bytes.fromhex(ref)
    found = events.filter(payload_hash__gte=low, payload_hash__lte=low + b"\xff" * 16, payload__isnull=False)
    return found.values_list("seq", "payload").first() or (0, None)


def _outcome(raw: bytes, *, partial: bool) -> dict[str, JSON] | None:
    try:
        output = json.loads(raw)["output"]
        return typed_model(Outcome, output).model_validate(output).model_dump(mode="json") | {"partial": partial}
    except (KeyError, TypeError, ValueError, ValidationError):
        return None


def run_events(actor: Actor, run_id: str, *, after: int = 0, limit: int = 200) -> list[EventView]:
    """The run's events with ``seq > after``, in order. Refused not_found."""
    reads = _readable(actor, run_id)
    rows, most = Event.objects.filter(run_id=run_id, workspace_id=actor.workspace_id), max(1, min(limit, LIMIT_MAX))
    found = read_events(rows, after=after, contents=True, page=most + 1)
    return [_event(stored, reads=reads) for stored in islice(found, most)]


Raw = bytes | memoryview
"""A binary column, as one driver or the other gives it."""


def _event(stored: StoredEvent, *, reads: bool) -> EventView:
    seq, kind, version, at, header, *_, payload = stored
    content = content_for(payload, reads=reads)
    try:
        event = from_row(seq, kind, version, header_for(header, reads=reads))
    except ValueError as error:
        return EventView(
            seq=seq, at=at, kind=kind, fact={}, content=content, source="", destination="", summary=str(error)
        )
    fact = fact_shown(event)
    source, destination = parties(event.fact)
    return EventView(
        seq=seq,
        at=event.at,
        kind=kind,
        fact=fact,
        content=content,
        source=source,
        destination=destination,
        summary=write_sentence(kind, fact),
    )


def _one(actor: Actor, run_id: str) -> QuerySet[Run]:
    return Run.objects.filter(match_visible(actor, Run), id=clean_text(run_id)[0])


def _readable(actor: Actor, run_id: str) -> bool:
    """Returns True where the actor may read the contents of a run. Refused not_found."""
    name = _one(actor, run_id).values_list("fabric__name", flat=True).first()
    if name is None:
        raise _refuse_missing(run_id)
    return may_read(actor, name)


def _exists(actor: Actor, run_id: str) -> None:
    if not _one(actor, run_id).exists():
        raise _refuse_missing(run_id)


def _refuse_missing(run_id: str) -> Refused:
    return Refused(
        f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found", field="run"
    )


def make_view(actor: Actor, row: dict[str, Any], documents: tuple[str, ...] = ()) -> RunView:
    """Return a row as a view, with title and reason for who may read contents."""
    own = {name: row[name] for name in VIEW_COLUMNS if "__" not in name}
    reads = may_read(actor, row["fabric__name"])
    own |= {"reason": line_for(row["reason"], reads=reads), "title": title_for(row["title"], reads=reads)}
    own |= {"tier": Tier(row["tier"]), "state": RunState(row["state"]), "priority": Priority(row["priority"]).label}
    own |= {"fired": list_names(row["fired"]), "breakers": list_names(row["breakers"])}
    own |= {"labels": read_labels(row[LABELS])}
    return RunView(
        **own,
        fabric_name=row["fabric__name"],
        fabric_title=row["fabric__title"],
        revision_number=row["revision__number"],
        documents=documents,
        reads=reads,
    )


PAUSE, RESUME = "pause:", "resume:"
"""Input ids of pauses and resumptions, each with its number in the run's life. Two that come at once are one."""


def count_holds(actor: Actor, run_id: str) -> tuple[int, int]:
    """Return how many pauses and resumptions the run was asked for. More pauses than resumptions: it is to pause."""
    rows = Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run_id)
    pauses = rows.filter(input_id__startswith=PAUSE).count()
    return pauses, rows.filter(input_id__startswith=RESUME).count()


def has_input(actor: Actor, run_id: str, input_id: str) -> bool:
    """Return True where the run was sent this input, however long ago."""
    return Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run_id, input_id=input_id).exists()


def asks_for_pause(actor: Actor, run_id: str) -> bool:
    """Return True where the last request was a pause."""
    pauses, resumptions = count_holds(actor, run_id)
    return pauses > resumptions


SAID_CHARS = 80
"""Characters of a sentence that a row keeps in any case."""
LOOKS = 8
"""So many of its last decisions are looked through."""
ADVISED = frozenset({RunState.STOPPED, RunState.FAILED, RunState.ABORTED, RunState.WAITING})


def write_advice(run: RunView) -> str:
    """Return the advice in a sentence or two. Empty: no decision names a cause, or a person ended the run."""
    if run.state not in ADVISED:
        return ""
    if run.state is RunState.ABORTED and _is_rejected(run):
        return ""
    trips = [fact.cause for fact in _last_facts(run, "reaction_decided", LOOKS)]
    named = [trip for trip in trips if trip.message[:SAID_CHARS] in run.reason] or trips[:1]
    # A fan-in that lacks results says why in the words of what failed in it.
    finest = [trip for trip in named if trip.cause is not Cause.PARTIAL_FAN_IN] or named
    return CLASSIFY[finest[0].cause].advice if finest else ""


def _is_rejected(run: RunView) -> bool:
    """Return True where a person rejected the run. An answer of the system does not count: its cause still wants
    advice.
    """
    return any(fact.verb == "reject" and not fact.system for fact in _last_facts(run, "review_decided", 1))


def _last_facts(run: RunView, kind: str, count: int) -> list[Any]:
    """The newest first. A row that this version cannot read is passed over."""
    rows = Event.objects.filter(run_id=run.id, kind=kind).order_by("-seq")[:count]
    facts: list[Any] = []
    for row in rows.values_list("seq", "kind", "version", "header"):
        try:
            facts.append(from_row(*row[:3], bytes(row[3])).fact)
        except (UnknownEvent, ValueError):
            continue
    return facts
