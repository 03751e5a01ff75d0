"""Runs: lists by keyset, one run, its outcome, its events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from fabric.core.actor import Actor
from fabric.core.envelope import from_row
from fabric.core.events import RunEnded
from fabric.core.flow import TERMINAL, RunState
from fabric.core.payloads import Outcome, typed_model
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.core.tracing import parties
from fabric.models import Attachment, Event, Priority, Run
from fabric.models.runs import ASKED_FOR, ERASED_TITLE, LIVE
from fabric.selectors.contents import content_for, fact_shown, header_for, line_for, may_read, title_for
from fabric.selectors.cursors import behind
from fabric.selectors.display import summary_of
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by
from fabric.selectors.waits_for import WAITS, Waiting, WaitsFor

JSON = Any
LIMIT_MAX = 500

_COLUMNS = (
    *(
        "id",
        "workspace_id",
        "fabric_id",
        "revision_id",
        "session_key",
        "start_key",
        "title",
        "trace_id",
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
        "started_at",
        "ended_at",
        "deadline_at",
        "last_seq",
        "parent_run_id",
        "root_run_id",
        "cap_usd_micros",
        "fabric__name",
        "fabric__title",
        "revision__number",
    ),
)


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
    """The run that spawned it; None: nobody did."""
    root_run_id: str | None = None
    cap_usd_micros: int | None = None
    """What its parent reserved for it."""
    documents: tuple[str, ...] = ()
    """Names of the attached documents; only ``run_get`` fills them in."""
    reads: bool = True
    """True: the reader may read its contents. Else title and reason are withheld."""

    @property
    def terminal(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.state in TERMINAL

    @property
    def erased(self) -> bool:
        """Whether retention took what it was given and what it said."""
        return self.terminal and self.title == ERASED_TITLE

    @property
    def cursor(self) -> str:
        """What ``runs_list`` takes as ``before`` to go on after this run."""
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
    """What the event carries; None when it carries nothing or that was erased."""
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
    rows = Run.objects.filter(seen_by(actor, Run))
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
        rows = rows.filter(behind(before, "-created_at", field="before"))
    page = rows.order_by("-created_at", "id").values(*_COLUMNS)[: max(1, min(limit, LIMIT_MAX))]
    return [_view(actor, row) for row in page]


def run_get(actor: Actor, run_id: str) -> RunView:
    """One run with the names of its documents. Refused not_found."""
    row = _one(actor, run_id).values(*_COLUMNS).first()
    if row is None:
        raise _missing(run_id)
    names = Attachment.objects.filter(run_id=run_id, workspace_id=actor.workspace_id).order_by("position")
    return _view(actor, row, tuple(names.values_list("name", flat=True)))


def run_outcome(actor: Actor, run_id: str) -> dict[str, JSON] | None:
    """``payloads.Outcome`` as JSON: what a caller gets, with ``partial`` as ``run_ended`` has it, and with ``data`` where its author has an output schema.
    None while there is none, when it was erased, and for who may not read it. Refused not_found.
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
    rows = Event.objects.filter(run_id=run_id, workspace_id=actor.workspace_id, seq__gt=after).order_by("seq")
    page = rows.values_list("seq", "kind", "version", "at", "header", "payload")[: max(1, min(limit, LIMIT_MAX))]
    return [_event(*row, reads=reads) for row in page]


Raw = bytes | memoryview
"""A binary column, as one driver or the other gives it."""


def _event(seq: int, kind: str, version: int, at: int, header: Raw, payload: Raw | None, *, reads: bool) -> EventView:
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
        summary=summary_of(kind, fact),
    )


def _one(actor: Actor, run_id: str) -> QuerySet[Run]:
    return Run.objects.filter(seen_by(actor, Run), id=clean_text(run_id)[0])


def _readable(actor: Actor, run_id: str) -> bool:
    """Returns True where the actor may read the contents of a run. Refused not_found."""
    name = _one(actor, run_id).values_list("fabric__name", flat=True).first()
    if name is None:
        raise _missing(run_id)
    return may_read(actor, name)


def _exists(actor: Actor, run_id: str) -> None:
    if not _one(actor, run_id).exists():
        raise _missing(run_id)


def _missing(run_id: str) -> Refused:
    return Refused(
        f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs", code="not_found", field="run"
    )


def _view(actor: Actor, row: dict[str, Any], documents: tuple[str, ...] = ()) -> RunView:
    own = {name: row[name] for name in _COLUMNS if "__" not in name}
    reads = may_read(actor, row["fabric__name"])
    own |= {"reason": line_for(row["reason"], reads=reads), "title": title_for(row["title"], reads=reads)}
    own |= {"tier": Tier(row["tier"]), "state": RunState(row["state"]), "priority": Priority(row["priority"]).label}
    return RunView(
        **own,
        fabric_name=row["fabric__name"],
        fabric_title=row["fabric__title"],
        revision_number=row["revision__number"],
        documents=documents,
        reads=reads,
    )
