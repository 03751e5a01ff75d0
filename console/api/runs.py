"""Runs: starting, listing, looking at one, cancelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Body, Header, Path, Query, Router, Status
from pydantic import Field

from console.api.callers import actor_of
from console.api.problems import FieldError, Problem
from console.api.schemas import Given, Instant, Told, instant
from fabric import wiring
from fabric.adapters.documents import BYTES_MAX, FILES_MAX, AttachmentRefused, documents_of
from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import Document
from fabric.selectors.runs import RunView, run_get, run_outcome, runs_list
from fabric.services.runs import KEY_CHARS_MAX, REASON_CHARS_MAX, TEXT_BYTES_MAX, run_cancel, run_start

router = Router(tags=["runs"])
LIMIT_MAX = 200
RUN_ID, EXAMPLE_ID = "The run's id.", "019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"
TierName = Literal["interactive", "batch", "high_stakes"]
PriorityName = Literal["critical", "high", "normal", "low"]


class DocumentIn(Given):
    """A text document."""

    name: str = Field(min_length=1, max_length=500, description="Its file name.", examples=["notes.md"])
    text: str = Field(
        min_length=1,
        max_length=BYTES_MAX,
        description=f"Its text; at most {BYTES_MAX:,} bytes in UTF-8, and not only white space.",
        examples=["The budget is 40 dollars. The deadline is Friday."],
    )


class RunIn(Given):
    """A run to be started."""

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
        default=[], max_length=FILES_MAX, description=f"What is attached: up to {FILES_MAX} text documents."
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


class CancelIn(Given):
    """Why a run is to stop."""

    reason: str = Field(
        default="",
        max_length=REASON_CHARS_MAX,
        description="Kept in the run's journal; may be empty.",
        examples=["Asked twice by mistake."],
    )


NO_REASON = CancelIn()


class OutcomeOut(Told):
    """What a run gave back."""

    text: str = Field(description="The answer.")
    citations: list[str] = Field(description="Names of the documents it rests on.")
    gaps: list[str] = Field(description="What is missing, a sentence each.")


class RunOut(Told):
    """A run as its last event left it."""

    id: str = Field(description="Its id.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"])
    fabric: str = Field(description="Name of its fabric.", examples=["research-desk"])
    revision: int = Field(description="Number of the revision it pinned.", examples=[3])
    revision_id: str = Field(description="Id of that revision.")
    title: str = Field(description="The request's first line.")
    state: RunState = Field(description="Where it stands. completed, failed, aborted and cancelled are final.")
    stage: str = Field(description="The stage it is in, or ended in; empty before the first.", examples=["fan_out"])
    tier: Tier = Field(description="The tier it was started in.")
    priority: PriorityName = Field(description="How urgently it is taken up.")
    session_key: str = Field(description="What it was started with.")
    reason: str = Field(description="Why it ended or what it waits for, where there is something to say.")
    recovered: bool = Field(description="Whether something failed on the way and was recovered from.")
    truncated: bool = Field(description="Whether the outcome is only what there was when the run was stopped.")
    replans: int = Field(description="How often it was planned anew.")
    cost_usd_micros: int = Field(description="Spent so far, in millionths of a US dollar.", examples=[12500])
    tokens: int = Field(description="Tokens so far, in and out.")
    last_seq: int = Field(description="Seq of its last event; 0 before the first.", examples=[28])
    trace_id: str = Field(description="Its trace id, 32 hex digits.")
    created_at: Instant = Field(description="When it was asked for.")
    created_by: str = Field(description="In whose name.", examples=["owner"])
    started_at: Instant | None = Field(description="When a worker first took it up; null before.")
    ended_at: Instant | None = Field(description="When it ended; null while it goes on.")
    deadline_at: Instant = Field(description="When it is stopped at the latest; waiting for a person moves it.")


class RunDetailOut(RunOut):
    """A run with what it was given and what it gave back."""

    documents: list[str] = Field(description="Names of the attached documents, as they were cleaned.")
    outcome: OutcomeOut | None = Field(description="What it gave back; null while it goes on, or when there is none.")


class RunsOut(Told):
    """A page of runs."""

    runs: list[RunOut] = Field(description="The newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class CancellationOut(Told):
    """A cancellation that was asked for."""

    run_id: str = Field(description="The run's id.")
    recorded: bool = Field(description="False: it had been asked for before.")


@router.post("/runs", response={201: RunDetailOut, 200: RunDetailOut}, url_name="api-runs", operation_id="startRun")
def start_run(
    request: HttpRequest,
    response: HttpResponse,
    body: Annotated[RunIn, Body()],
    idempotency_key: Annotated[
        str,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=KEY_CHARS_MAX,
            pattern=r"^[!-~]+$",
            description="A name of your own for this request. Sent again with the same body it is the same run (200), with another it is "
            "refused (409). Without it, each request starts a run.",
            example="order-4711-first-try",
        ),
    ] = "",
) -> Status[RunDetailOut]:
    """Start a run. It goes on by itself; follow it by its events."""
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=actor_of(request),
        fabric=body.fabric,
        text=body.text,
        documents=_documents(body.documents),
        tier=body.tier,
        priority=body.priority,
        session_key=body.session_key,
        start_key=idempotency_key,
    )
    response["Location"] = reverse("api-run", args=[started.run_id])
    return Status(201 if started.created else 200, _detail(request, started.run_id))


@router.get("/runs", response=RunsOut, url_name="api-runs", operation_id="listRuns")
def list_runs(
    request: HttpRequest,
    state: Annotated[RunState | None, Query(description="Only runs in this state.")] = None,
    fabric: Annotated[
        str | None, Query(max_length=63, description="Only runs of the fabric of this name.", example="research-desk")
    ] = None,
    tier: Annotated[Tier | None, Query(description="Only runs in this tier.")] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most so many.")] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=200, description="The next_cursor of the page before.", example=f"1772357400123456.{EXAMPLE_ID}"
        ),
    ] = None,
) -> RunsOut:
    """List runs. The newest first, a page at a time."""
    found = runs_list(actor_of(request), limit=limit + 1, before=cursor, state=state, fabric=fabric, tier=tier)
    more = found[limit - 1].cursor if len(found) > limit else None
    return RunsOut(runs=[RunOut(**_told(view)) for view in found[:limit]], next_cursor=more)


@router.get("/runs/{uuid:run_id}", response=RunDetailOut, url_name="api-run", operation_id="getRun")
def get_run(
    request: HttpRequest, run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)]
) -> RunDetailOut:
    """Get a run. Where it stands, what it was given, and its outcome once it has ended."""
    return _detail(request, str(run_id))


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
    """Cancel a run. It issues nothing more, lets its calls go, undoes what it can, and ends as cancelled."""
    recorded = run_cancel(
        store=wiring.store(), nudge=wiring.nudge(), actor=actor_of(request), run_id=str(run_id), reason=body.reason
    )
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


def _documents(given: Sequence[DocumentIn]) -> tuple[Document, ...]:
    """Every document that is not taken, with its reason; else all of them, held to what the form's files are held to."""
    files = [(one.name, one.text.encode()) for one in given]
    errors, too_large = [], False
    for number, pair in enumerate(files):
        try:
            documents_of([pair])
        except AttachmentRefused as refused:
            errors.append(FieldError(f"documents.{number}", str(refused)))
            too_large = too_large or len(pair[1]) > BYTES_MAX
    if errors:
        raise Problem(413 if too_large else 422, errors[0].message, errors)
    return documents_of(files)


def _detail(request: HttpRequest, run_id: str) -> RunDetailOut:
    actor = actor_of(request)
    view = run_get(actor, run_id)
    outcome = run_outcome(actor, run_id) if view.terminal else None
    told = None
    if outcome is not None:
        told = OutcomeOut(text=outcome["text"], citations=outcome["citations"], gaps=outcome["gaps"])
    return RunDetailOut(**_told(view), documents=list(view.documents), outcome=told)


def _told(view: RunView) -> dict[str, Any]:
    same: tuple[str, ...] = (
        "id",
        "revision_id",
        "title",
        "state",
        "stage",
        "tier",
        "priority",
        "session_key",
        "reason",
        "recovered",
    )
    same += ("truncated", "cost_usd_micros", "tokens", "last_seq", "trace_id", "created_by")
    return {
        **{name: getattr(view, name) for name in same},
        "fabric": view.fabric_name,
        "revision": view.revision_number,
        "replans": view.epoch,
        "created_at": instant(view.created_at),
        "started_at": instant(view.started_at),
        "ended_at": instant(view.ended_at),
        "deadline_at": instant(view.deadline_at),
    }
