"""A run's events after a cursor, in S3's envelope."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.escalations import RevealedOut
from console.api.families import EXAMPLE_ID
from console.api.runs import RUN_ID
from console.api.schemas import Given, Told
from console.api.waiting import WAIT_MAX_S, Wait, may_wait
from fabric.core.flow import RunState
from fabric.selectors.envelopes import CONTENT_BYTES_MAX, LIMIT_MAX, run_envelopes
from fabric.services.reveals import event_reveal

router = Router(tags=["events"])
SEQ_MAX = 2**31 - 1


class PartyOut(Told):
    """One end of an event."""

    layer: str = Field(description="Which part of the system.", examples=["agent"])
    agent_id: str = Field(description="Which agent or tool; may be empty.", examples=["planner"])


class EventOut(Told):
    """One recorded fact in its envelope. It never changes."""

    id: str = Field(description="The run's id and the seq.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55.7"])
    trace_id: str = Field(description="The run's trace id, 32 hex digits.")
    span_id: str = Field(description="The span it belongs to, 16 hex digits.")
    parent_span_id: str = Field(description="The span around that one; empty for the outermost.")
    timestamp: int = Field(description="When, in microseconds since the epoch, UTC.", examples=[1772357400123456])
    source: PartyOut = Field(description="Whom it comes from.")
    destination: PartyOut = Field(description="Whom it goes to.")
    payload: dict[str, Any] = Field(
        description="The fact: its seq, kind and version, then what this kind records (docs/events.md).",
        examples=[{"seq": 7, "content_ref": "", "kind": "stage_entered", "version": 1, "stage": "fan_out"}],
    )
    content: Any = Field(
        description="What it carries beside the fact: a prompt, an answer, an outcome. Null when it carries nothing, when that was "
        "erased, and with content=omit. Credentials in it are masked. Without the right to contents: withheld, why, and bytes, its size."
    )


class RevealIn(Given):
    """An event of the run."""

    seq: int = Field(ge=1, le=SEQ_MAX, description="Its seq.", examples=[7])


class EventsOut(Told):
    """Some events of a run, in order and without a gap."""

    events: list[EventOut] = Field(description="Those after the cursor, the oldest first.")
    next_after: int = Field(description="Send it as after for the next page.", examples=[28])
    more: bool = Field(description="Whether there were more when this was read: ask again at once.")
    last_seq: int = Field(description="Seq of the run's last event.", examples=[28])
    state: RunState = Field(description="Where the run stands.")
    ended: bool = Field(
        description="Whether the run has ended and this was the last page: there is nothing left to ask for."
    )


@router.get("/runs/{uuid:run_id}/events", response=EventsOut, url_name="api-run-events", operation_id="listRunEvents")
def list_events(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    after: Annotated[
        int, Query(ge=0, le=SEQ_MAX, description="The seq of the last event you have; 0 from the beginning.")
    ] = 0,
    limit: Annotated[
        int,
        Query(
            ge=1,
            le=LIMIT_MAX,
            description=f"At most so many; fewer where they carry more than {CONTENT_BYTES_MAX // 1_000_000} MB.",
        ),
    ] = 200,
    wait: Annotated[
        int,
        Query(
            ge=0,
            le=WAIT_MAX_S,
            description="Where there is nothing yet, wait so many seconds for it. A server that is busy answers at once.",
        ),
    ] = 0,
    content: Annotated[
        Literal["include", "omit"], Query(description="omit: the facts alone, without what they carry.")
    ] = "include",
) -> EventsOut:
    """List a run's events. Those after a cursor, in order: asked again with next_after until ended, nothing is missed and nothing comes twice."""
    actor, key = actor_of(request), str(run_id)
    page = run_envelopes(actor, key, after=after, limit=limit, contents=content == "include")
    ended = page.run.terminal and not page.more
    if wait and not page.events and not ended:
        may_wait(request, Wait(actor.workspace_id, key, after, wait))
    return EventsOut(
        events=[EventOut(**one) for one in page.events],
        next_after=page.last,
        more=page.more,
        last_seq=page.run.last_seq,
        state=page.run.state,
        ended=ended,
    )


@router.post(
    "/runs/{uuid:run_id}/reveal",
    response=RevealedOut,
    url_name="api-run-event-reveal",
    operation_id="revealRunEvent",
)
def reveal_event(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    body: Annotated[RevealIn, Body()],
) -> RevealedOut:
    """Reveal what is withheld of an event. For the role safety; the audit stream is told. 409 where nothing is withheld."""
    return RevealedOut(content=event_reveal(actor=actor_of(request), run_id=str(run_id), seq=body.seq).content)
