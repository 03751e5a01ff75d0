"""Operations on runs: start, list, get, pause, resume, cancel, terminate, message and fork."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Body, Header, Path, Query, Router, Status
from pydantic import Field, model_validator

from console.api.runs.shapes import ContextIn, PriorityName, RunDetailOut, RunOut, RunsOut, run_columns, run_shape
from console.api.runs.waiting import WAIT_MAX_S, Wait, may_wait
from console.api.shapes.common import EXAMPLE_ID, Limit, RequestShape, ResponseShape
from console.site.access import fabric_roles as drilled
from console.site.access.callers import find_actor
from console.site.errors.problems import FieldError, Problem
from fabric.adapters.documents.attachments import BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, read_all
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.labels import LABELS_MAX
from fabric.core.values.taxonomy import Tier
from fabric.core.values.tracing import read_caller
from fabric.runtime.ports.journal import Document
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.runs.lookup import WaitsFor, runs_list
from fabric.selectors.runs.query.grammar import CHARS_MAX, parse
from fabric.selectors.runs.query.grammar import Problem as Mistake
from fabric.selectors.runs.query.grammar import Query as Line
from fabric.selectors.runs.query.list_pages import fabric_ids, list_views
from fabric.selectors.runs.query.orders import COLUMNS, read_order
from fabric.selectors.runs.query.values import ZONE_CHARS_MAX, require_zone
from fabric.services.runs.control import (
    MESSAGE_CHARS_MAX,
    run_cancel,
    run_context,
    run_pause,
    run_resume,
    run_say,
    run_terminate,
)
from fabric.services.runs.forks import ForkEdit, run_fork
from fabric.services.runs.start import KEY_CHARS_MAX, REASON_CHARS_MAX, TEXT_BYTES_MAX, run_start

router = Router(tags=["runs"])
RUN_ID = "The run's id."
TierName = Literal["interactive", "batch", "high_stakes"]


class DocumentIn(RequestShape):
    """A document: a text, or a file in base64. Exactly one of the two is given."""

    name: str = Field(min_length=1, max_length=500, description="Its file name.", examples=["notes.md"])
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=BYTES_MAX,
        description=f"Its text; at most {BYTES_MAX:,} bytes in UTF-8, and not only white space.",
        examples=["The budget is 40 dollars. The deadline is Friday."],
    )
    base64: str | None = Field(
        default=None,
        min_length=1,
        max_length=FILE_BYTES_MAX * 4 // 3 + 4,
        description=f"The file itself, a PDF, DOCX, XLSX, CSV or text, in base64 (RFC 4648, section 4); at most {FILE_BYTES_MAX:,} bytes.",
        examples=[None],
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("give either text or base64")
        return self


class RunIn(RequestShape):
    """Input of a new run."""

    fabric: str = Field(
        min_length=1, max_length=63, description="Name of a published fabric.", examples=["research-desk"]
    )
    text: str = Field(
        min_length=1,
        max_length=TEXT_BYTES_MAX,
        description=f"The request: what you want to know or have done; at most {TEXT_BYTES_MAX:,} bytes in UTF-8.",
        examples=["What do the notes say about the budget?"],
    )
    documents: list[DocumentIn] = Field(
        default=[], max_length=FILES_MAX, description=f"Attached files: up to {FILES_MAX} documents."
    )
    tier: TierName | None = Field(default=None, description="One of the fabric's tiers; null: the fabric's default.")
    priority: PriorityName | None = Field(
        default=None, description="How urgently it is taken up; null: what its tier asks for."
    )
    session_key: str = Field(
        default="",
        max_length=KEY_CHARS_MAX,
        description="Runs with the same key belong together; empty: a run is its own.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description=f"Labels by which runs are found, at most {LABELS_MAX}; every reader of the run sees them.",
        examples=[{"team": "ops"}],
    )


class CancelIn(RequestShape):
    """Reason for cancelling a run."""

    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept in the run's journal; may be empty.",
        examples=["Asked twice by mistake."],
    )


NO_REASON = CancelIn()


class ResumeIn(RequestShape):
    """An empty body."""


NOTHING = ResumeIn()


class TerminateIn(RequestShape):
    """Reason for terminating a run."""

    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept in the run's journal. Needed, since nothing is undone.",
        examples=["It works on the wrong customer."],
    )


class MessageIn(RequestShape):
    """A message to the next speaker."""

    text: str = Field(
        min_length=1,
        max_length=MESSAGE_CHARS_MAX,
        description=f"The message; at most {MESSAGE_CHARS_MAX:,} characters, and not only white space. Kept in the run's journal.",
        examples=["The customer's contract ends in March, not in May."],
    )


class EditIn(RequestShape):
    """One change by hand. Everything that followed from the changed value is done anew."""

    what: Literal["request", "plan", "fan_in", "validate"] = Field(
        description="The request's text, or a stage's output.", examples=["request"]
    )
    value: Any = Field(
        description="The new text of the request, or the stage's output as JSON in its own shape.",
        examples=["What do the notes say about the deadline?"],
    )


class ForkIn(RequestShape):
    """Event from which a new run goes on."""

    seq: int = Field(ge=1, le=2_147_483_647, description="Seq of one of the run's events.", examples=[1])
    edit: EditIn | None = Field(default=None, description="One change by hand; null: none.")


def _key(description: str, example: str) -> Any:
    return Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=KEY_CHARS_MAX,
        pattern=r"^[!-~]+$",
        description=description,
        example=example,
    )


StartKey = Annotated[
    str,
    _key(
        "A name of your own for this request. Sent again with the same body it is the same run (200), with another it is "
        "refused (409). Without it, each request starts a run.",
        "order-4711-first-try",
    ),
]
MessageKey = Annotated[
    str,
    _key(
        "A name of your own for this request to this run. Sent again by the same caller with the same body it is the same one (`recorded` is "
        "false), with another it is refused (409). Without it, each request is another one.",
        "note-4711-first-try",
    ),
]


TraceParent = Annotated[
    str,
    Header(
        alias="traceparent",
        description="Your trace (W3C Trace Context). The run continues it, and so do its calls to models, tools and "
        "webhooks. A malformed one counts as absent: the run begins a trace of its own.",
        example="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ),
]
TraceState = Annotated[
    str,
    Header(alias="tracestate", description="Goes on with `traceparent`, unchanged.", example="vendor=opaque"),
]
Baggage = Annotated[
    str,
    Header(
        alias="baggage",
        description="Your baggage (W3C Baggage), up to 8,192 bytes. Every call of the run carries it to its peer.",
        example="team=acme",
    ),
]


WaitForEnd = Annotated[
    int,
    Query(
        ge=0,
        le=WAIT_MAX_S,
        description="Wait so many seconds for the end of the run. A server that is busy answers at once.",
    ),
]


class CancellationOut(ResponseShape):
    """Result of a request to a run."""

    run_id: str = Field(description="The run's id.")
    recorded: bool = Field(description="False: it had been asked for before.")


@router.post("/runs", response={201: RunDetailOut, 200: RunDetailOut}, url_name="api-runs", operation_id="startRun")
def start_run(
    request: HttpRequest,
    response: HttpResponse,
    body: Annotated[RunIn, Body()],
    idempotency_key: StartKey = "",
    traceparent: TraceParent = "",
    tracestate: TraceState = "",
    baggage: Baggage = "",
    wait: WaitForEnd = 0,
) -> Status[RunDetailOut]:
    """Start a run. Workers execute it; follow it by its events, or wait for its end."""
    actor = find_actor(request)
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        now=wiring.clock().now,
        actor=actor,
        fabric=body.fabric,
        text=body.text,
        documents=_documents(body.documents),
        tier=body.tier,
        priority=body.priority,
        session_key=body.session_key,
        labels=body.labels,
        start_key=idempotency_key,
        caller=read_caller(traceparent, tracestate, baggage),
    )
    response["Location"] = reverse("api-run", args=[started.run_id])
    return Status(201 if started.created else 200, _show_or_wait(request, actor, started.run_id, wait))


def _show_or_wait(request: HttpRequest, actor: Actor, run_id: str, wait: int) -> RunDetailOut:
    shown = run_shape(actor, run_id)
    if wait and shown.state not in TERMINAL:
        may_wait(request, Wait(actor.workspace_id, run_id, shown.last_seq, wait))
    return shown


QueryLine = Annotated[
    str | None,
    Query(
        max_length=CHARS_MAX,
        description="A query, as the page of runs has it. It names all that is asked for: no other filter stands beside it.",
        example="state:failed fired:budget",
    ),
]
Sort = Annotated[
    str | None,
    Query(
        max_length=20,
        description=f"Order: {', '.join(COLUMNS)}; a minus begins with the largest. All but started list ended runs alone.",
        example="-cost",
    ),
]
Zone = Annotated[
    str | None,
    Query(
        max_length=ZONE_CHARS_MAX,
        description="Time zone of days and hours in q; without it UTC.",
        example="Europe/Berlin",
    ),
]
RunCursor = Annotated[
    str | None,
    Query(max_length=200, description="The next_cursor of the page before.", example=f"1772357400123456.{EXAMPLE_ID}"),
]


@router.get("/runs", response=RunsOut, url_name="api-runs", operation_id="listRuns")
def list_runs(
    request: HttpRequest,
    state: Annotated[RunState | None, Query(description="Only runs in this state.")] = None,
    waits_for: Annotated[
        WaitsFor | None, Query(description="Only runs that wait for a person or for a provider, doing nothing else.")
    ] = None,
    fabric: Annotated[
        str | None, Query(max_length=63, description="Only runs of the fabric of this name.", example="research-desk")
    ] = None,
    tier: Annotated[Tier | None, Query(description="Only runs in this tier.")] = None,
    parent: Annotated[
        UUID | None,
        Query(
            description="Only runs that this run spawned. Without it, only runs that no other run spawned.",
            example=EXAMPLE_ID,
        ),
    ] = None,
    q: QueryLine = None,
    sort: Sort = None,
    zone: Zone = None,
    limit: Limit = 50,
    cursor: RunCursor = None,
) -> RunsOut:
    """List runs. The newest first, a page at a time."""
    actor, below = find_actor(request), None if parent is None else str(parent)
    if q is not None or sort is not None:
        _refuse_beside(state=state, waits_for=waits_for, fabric=fabric, tier=tier, parent=parent)
        return _query_runs(actor, q or "", sort or "", zone, limit, cursor)
    if below is not None:
        actor = drilled.actor_on(actor, "api-runs", below)
    asked: dict[str, Any] = {"state": state, "waits_for": waits_for, "fabric": fabric, "tier": tier, "parent": below}
    found = runs_list(actor, limit=limit + 1, before=cursor, **asked)
    more = found[limit - 1].cursor if len(found) > limit else None
    return RunsOut(runs=[RunOut(**run_columns(view)) for view in found[:limit]], next_cursor=more)


FIELDS_OF_FILTERS = {"waits_for": "waits"}
"""Fields of the query line, by the filters that have another name."""


def _refuse_beside(**given: Any) -> None:
    """Refuse a filter beside a query or an order. Raises Problem."""
    for name, value in given.items():
        if value is not None:
            message = f"{name} does not go with q or sort: write {FIELDS_OF_FILTERS.get(name, name)}:{value} into q"
            raise Problem(422, message, [FieldError(name, message)])


def _query_runs(actor: Actor, text: str, sort: str, zone: str | None, limit: int, cursor: str | None) -> RunsOut:
    """Return a page of the runs that a query finds. Raises Problem with the place of what cannot be read."""
    fabrics = fabric_ids(actor)
    query = read_query(text, tuple(fabrics), zone)
    with query_times_out():
        found, following = list_views(actor, query, fabrics, order=read_order(sort, query), limit=limit, cursor=cursor)
    return RunsOut(runs=[RunOut(**run_columns(view)) for view in found], next_cursor=following)


def read_query(text: str, fabrics: tuple[str, ...], zone: str | None) -> Line:
    """Return a query whose days and hours are those of a zone; None: of UTC. Raises Problem with the place of what
    cannot be read.
    """
    query = parse(text, now=time.time_ns() // 1_000, fabrics=fabrics, zone=require_zone(zone or "UTC"))
    if isinstance(query, Mistake):
        error = FieldError("q", query.message, query.start, query.end)
        raise Problem(422, f"at character {query.start + 1} of q: {query.message}", [error])
    return query


@contextmanager
def query_times_out() -> Iterator[None]:
    """Turn TookTooLong into a Problem of status 503."""
    try:
        yield
    except TookTooLong as refusal:
        raise Problem(503, f"{refusal}; add started:-1d to the query") from None


@router.get("/runs/{uuid:run_id}", response=RunDetailOut, url_name="api-run", operation_id="getRun")
def get_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    wait: WaitForEnd = 0,
) -> RunDetailOut:
    """Get a run. Its state and input, and its outcome once it has ended."""
    return _show_or_wait(request, find_actor(request), str(run_id), wait)


@router.post(
    "/runs/{uuid:run_id}/cancel",
    response={202: CancellationOut},
    url_name="api-run-cancel",
    operation_id="cancelRun",
)
def cancel_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[CancelIn, Body()] = NO_REASON,
) -> Any:
    """Cancel a run. It issues nothing more, drops its calls, undoes what it can, and ends as cancelled."""
    recorded = run_cancel(**_read_run_arguments(request, run_id), reason=body.reason)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/terminate",
    response={202: CancellationOut},
    url_name="api-run-terminate",
    operation_id="terminateRun",
)
def terminate_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[TerminateIn, Body()],
) -> Any:
    """Terminate a run. It issues nothing more, drops its calls, undoes nothing, and ends as aborted. Cancel undoes
    what it can.
    """
    recorded = run_terminate(**_read_run_arguments(request, run_id), reason=body.reason)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/pause", response={202: CancellationOut}, url_name="api-run-pause", operation_id="pauseRun"
)
def pause_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[CancelIn, Body()] = NO_REASON,
) -> Any:
    """Pause a run. It issues nothing until it is resumed, and its clocks stand still; results of open calls are
    kept.
    """
    recorded = run_pause(**_read_run_arguments(request, run_id), reason=body.reason)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/resume", response={202: CancellationOut}, url_name="api-run-resume", operation_id="resumeRun"
)
def resume_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[ResumeIn, Body()] = NOTHING,
) -> Any:
    """Resume a paused run. It goes on with the time it had left."""
    return Status(202, CancellationOut(run_id=str(run_id), recorded=run_resume(**_read_run_arguments(request, run_id))))


@router.post(
    "/runs/{uuid:run_id}/say", response={202: CancellationOut}, url_name="api-run-say", operation_id="sayToRun"
)
def say_to_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[MessageIn, Body()],
    idempotency_key: MessageKey = "",
) -> Any:
    """Send a message to a run. It stands in the run's conversation in the caller's name, waits for the turn in
    flight, and the next speaker reads it; it takes no turn.
    """
    recorded = run_say(**_read_run_arguments(request, run_id), text=body.text, start_key=idempotency_key)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/context",
    response={202: CancellationOut},
    url_name="api-run-context",
    operation_id="writeContextOfRun",
)
def write_context_of_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[ContextIn, Body()],
    idempotency_key: MessageKey = "",
) -> Any:
    """Write context variables of a run's conversation. It takes no turn; writes of a turn in flight before and after
    it keep their order.
    """
    where = _read_run_arguments(request, run_id)
    recorded = run_context(**where, set=body.set, delete=body.delete, start_key=idempotency_key)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/fork",
    response={201: RunDetailOut, 200: RunDetailOut},
    url_name="api-run-fork",
    operation_id="forkRun",
)
def fork_run(
    request: HttpRequest,
    response: HttpResponse,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[ForkIn, Body()],
    idempotency_key: StartKey = "",
) -> Status[RunDetailOut]:
    """Fork a run. A new run goes on from one of its events with all results settled there; money, clocks and counts
    begin anew.
    """
    edit = None if body.edit is None else ForkEdit(body.edit.what, body.edit.value)
    started = run_fork(
        **_read_run_arguments(request, run_id),
        now=wiring.clock().now,
        seq=body.seq,
        edit=edit,
        start_key=idempotency_key,
    )
    response["Location"] = reverse("api-run", args=[started.run_id])
    return Status(201 if started.created else 200, run_shape(find_actor(request), started.run_id))


def _read_run_arguments(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """Return the arguments that every service that changes a run takes."""
    return {"store": wiring.store(), "nudge": wiring.nudge(), "actor": find_actor(request), "run_id": str(run_id)}


def _documents(given: Sequence[DocumentIn]) -> tuple[Document, ...]:
    """Return all documents. Raises Problem that names every refused document, with its reason."""
    documents, problems = read_all([(one.name, _bytes(number, one)) for number, one in enumerate(given)])
    if problems:
        errors = [FieldError(f"documents.{one.place}", str(one)) for one in problems]
        busy, large = any(one.busy for one in problems), any(one.too_large for one in problems)
        raise Problem(503 if busy else 413 if large else 422, errors[0].message, errors)
    return documents


def _bytes(number: int, given: DocumentIn) -> bytes:
    if given.base64 is None:
        return (given.text or "").encode()
    try:
        return base64.b64decode(given.base64, validate=True)
    except ValueError:
        message = f"the base64 of {given.name[:100]} is damaged; encode the file again (RFC 4648, section 4)"
        raise Problem(422, message, [FieldError(f"documents.{number}.base64", message)]) from None
