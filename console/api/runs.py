"""Runs: starting, listing, looking at one, taking hold of one, forking."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Body, Header, Path, Query, Router, Status
from pydantic import Field, model_validator

from console import drilled
from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.lists import Limit
from console.api.problems import FieldError, Problem
from console.api.run_context import ContextIn
from console.api.run_told import PriorityName, RunDetailOut, RunOut, RunsOut, columns_told, run_told
from console.api.schemas import Given, Told
from fabric import wiring
from fabric.adapters.documents import BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, read_all
from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import Document
from fabric.selectors.runs import runs_list
from fabric.selectors.waits_for import WaitsFor
from fabric.services.control import (
    MESSAGE_CHARS_MAX,
    run_cancel,
    run_context,
    run_pause,
    run_resume,
    run_say,
    run_terminate,
)
from fabric.services.forks import Edit, run_fork
from fabric.services.runs import KEY_CHARS_MAX, REASON_CHARS_MAX, TEXT_BYTES_MAX, run_start

router = Router(tags=["runs"])
RUN_ID = "The run's id."
TierName = Literal["interactive", "batch", "high_stakes"]


class DocumentIn(Given):
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
        default=[], max_length=FILES_MAX, description=f"What is attached: up to {FILES_MAX} documents."
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


class ResumeIn(Given):
    """Nothing needs to be said."""


NOTHING = ResumeIn()


class TerminateIn(Given):
    """Why a run is to be ended at once."""

    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept in the run's journal. Needed, since nothing is undone.",
        examples=["It works on the wrong customer."],
    )


class MessageIn(Given):
    """What is said to whoever speaks next."""

    text: str = Field(
        min_length=1,
        max_length=MESSAGE_CHARS_MAX,
        description=f"The message; at most {MESSAGE_CHARS_MAX:,} characters, and not only white space. Kept in the run's journal.",
        examples=["The customer's contract ends in March, not in May."],
    )


class EditIn(Given):
    """One change by hand. Whatever followed from what is changed is done anew."""

    what: Literal["request", "plan", "fan_in", "validate"] = Field(
        description="The request's text, or what a stage passed on.", examples=["request"]
    )
    value: Any = Field(
        description="The new text of the request, or the stage's output as JSON in its own shape.",
        examples=["What do the notes say about the deadline?"],
    )


class ForkIn(Given):
    """Where a new run is to go on from."""

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


class CancellationOut(Told):
    """What was asked of a run."""

    run_id: str = Field(description="The run's id.")
    recorded: bool = Field(description="False: it had been asked for before.")


@router.post("/runs", response={201: RunDetailOut, 200: RunDetailOut}, url_name="api-runs", operation_id="startRun")
def start_run(
    request: HttpRequest,
    response: HttpResponse,
    body: Annotated[RunIn, Body()],
    idempotency_key: StartKey = "",
) -> Status[RunDetailOut]:
    """Start a run. It goes on by itself; follow it by its events."""
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        now=wiring.clock().now,
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
    return Status(201 if started.created else 200, run_told(actor_of(request), started.run_id))


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
    limit: Limit = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=200, description="The next_cursor of the page before.", example=f"1772357400123456.{EXAMPLE_ID}"
        ),
    ] = None,
) -> RunsOut:
    """List runs. The newest first, a page at a time."""
    actor, below = actor_of(request), None if parent is None else str(parent)
    if below is not None:
        actor = drilled.actor_on(actor, "api-runs", below)
    asked: dict[str, Any] = {"state": state, "waits_for": waits_for, "fabric": fabric, "tier": tier, "parent": below}
    found = runs_list(actor, limit=limit + 1, before=cursor, **asked)
    more = found[limit - 1].cursor if len(found) > limit else None
    return RunsOut(runs=[RunOut(**columns_told(view)) for view in found[:limit]], next_cursor=more)


@router.get("/runs/{uuid:run_id}", response=RunDetailOut, url_name="api-run", operation_id="getRun")
def get_run(
    request: HttpRequest, run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)]
) -> RunDetailOut:
    """Get a run. Where it stands, what it was given, and its outcome once it has ended."""
    return run_told(actor_of(request), str(run_id))


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
    recorded = run_cancel(**_held_by(request, run_id), reason=body.reason)
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
    """Terminate a run. It issues nothing more, lets its calls go, undoes nothing, and ends as aborted. Cancel undoes what it can."""
    recorded = run_terminate(**_held_by(request, run_id), reason=body.reason)
    return Status(202, CancellationOut(run_id=str(run_id), recorded=recorded))


@router.post(
    "/runs/{uuid:run_id}/pause", response={202: CancellationOut}, url_name="api-run-pause", operation_id="pauseRun"
)
def pause_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[CancelIn, Body()] = NO_REASON,
) -> Any:
    """Pause a run. It issues nothing until it is resumed, and its clocks stand still; what is out comes back and is kept."""
    recorded = run_pause(**_held_by(request, run_id), reason=body.reason)
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
    return Status(202, CancellationOut(run_id=str(run_id), recorded=run_resume(**_held_by(request, run_id))))


@router.post(
    "/runs/{uuid:run_id}/say", response={202: CancellationOut}, url_name="api-run-say", operation_id="sayToRun"
)
def say_to_run(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[MessageIn, Body()],
    idempotency_key: MessageKey = "",
) -> Any:
    """Say something to a run. It stands in the run's conversation in the caller's name, waits for the turn in flight, and is read by whoever speaks next; it takes no turn."""
    recorded = run_say(**_held_by(request, run_id), text=body.text, start_key=idempotency_key)
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
    """Write context variables of a run's conversation. It takes no turn; what a turn in flight writes before and after it keeps its order."""
    where = _held_by(request, run_id)
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
    """Fork a run. A new run goes on from one of its events with what was settled there; money, clocks and counts begin anew."""
    edit = None if body.edit is None else Edit(body.edit.what, body.edit.value)
    started = run_fork(
        **_held_by(request, run_id), now=wiring.clock().now, seq=body.seq, edit=edit, start_key=idempotency_key
    )
    response["Location"] = reverse("api-run", args=[started.run_id])
    return Status(201 if started.created else 200, run_told(actor_of(request), started.run_id))


def _held_by(request: HttpRequest, run_id: UUID) -> dict[str, Any]:
    """What every service that takes hold of a run is given."""
    return {"store": wiring.store(), "nudge": wiring.nudge(), "actor": actor_of(request), "run_id": str(run_id)}


def _documents(given: Sequence[DocumentIn]) -> tuple[Document, ...]:
    """Every document that is not taken, with its reason; else all of them, read as the form's files are."""
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
