"""Serves the records of a run: its events, its cost, and its bundle.

The cost is by stage, agent and model, with the kinds of its tokens. The bundle is one file that can be verified
offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import FileResponse, HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.reviews.decisions import RevealedOut
from console.api.runs.operations import RUN_ID
from console.api.runs.waiting import WAIT_MAX_S, Wait, may_wait
from console.api.shapes.common import EXAMPLE_ID, Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from console.site.downloads import ZIP, bundle_response
from fabric.core.values.cost import TOKEN_KINDS
from fabric.core.values.flow import RunState
from fabric.selectors.runs.export.bundle import CONTENT_BYTES_MAX, LIMIT_MAX, run_envelopes
from fabric.selectors.runs.story.fold import run_story
from fabric.selectors.runs.story.parts import CallSums
from fabric.services.reviews.reveals import event_reveal

router = Router(tags=["events"])
SEQ_MAX = 2**31 - 1


class PartyOut(ResponseShape):
    """One end of an event."""

    layer: str = Field(description="Which part of the system.", examples=["agent"])
    agent_id: str = Field(description="Which agent or tool; may be empty.", examples=["planner"])


class EventOut(ResponseShape):
    """One recorded fact in its envelope. It never changes."""

    seq: int = Field(description="Its place in the journal, from 1.", examples=[7])
    kind: str = Field(description="Kind of the event (docs/reference/events.md).", examples=["stage_entered"])
    at: Instant = Field(description="When it happened.")
    summary: str = Field(description="One short sentence with the numbers, as the page of the run has it.")
    id: str = Field(description="The run's id and the seq.", examples=["019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55.7"])
    trace_id: str = Field(description="The run's trace id, 32 hex digits.")
    span_id: str = Field(description="The span it belongs to, 16 hex digits.")
    parent_span_id: str = Field(description="The span around that one; empty for the outermost.")
    timestamp: int = Field(
        description="The same instant, in microseconds since the epoch, UTC.", examples=[1772357400123456]
    )
    source: PartyOut = Field(description="Whom it comes from.")
    destination: PartyOut = Field(description="Whom it goes to.")
    payload: dict[str, Any] = Field(
        description="The fact: its seq, kind and version, then what this kind records (docs/reference/events.md).",
        examples=[
            {
                "seq": 7,
                "content_ref": "",
                "kind": "stage_entered",
                "version": 1,
                "stage": "fan_out",
                "epoch": 1,
                "deadline_at": 1772357460123456,
                "agents": ["reader"],
                "gate": None,
            }
        ],
    )
    content: Any = Field(
        description="Content beside the fact: a prompt, an answer, an outcome. Null: none, erased, or content=omit. Credentials in it are masked. Without the right to contents: withheld, the reason, and bytes, its size."
    )


class RevealIn(RequestShape):
    """An event of the run."""

    seq: int = Field(ge=1, le=SEQ_MAX, description="Its seq.", examples=[7])


class EventsOut(ResponseShape):
    """Some events of a run, in order and without a gap."""

    events: list[EventOut] = Field(description="Those after the cursor, the oldest first.")
    next_after: int = Field(description="Send it as after for the next page.", examples=[28])
    more: bool = Field(description="True if more events exist: ask again at once.")
    last_seq: int = Field(description="Seq of the run's last event.", examples=[28])
    state: RunState = Field(description="Where the run stands.")
    ended: bool = Field(description="True if the run has ended and this is the last page.")


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
    """List a run's events. Those after a cursor, in order: requests with next_after until ended return every event
    exactly once.
    """
    actor, key = find_actor(request), str(run_id)
    page = run_envelopes(actor, key, after=after, limit=limit, contents=content == "include")
    ended = page.run.terminal and not page.more
    if wait and not page.events and not ended:
        may_wait(request, Wait(actor.workspace_id, key, after, wait))
    return EventsOut(
        events=[EventOut(at=instant(one["timestamp"]), **one) for one in page.events],
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
    """Reveal the withheld content of an event. For the role safety; the audit stream records it. 409 if nothing is
    withheld.
    """
    return RevealedOut(content=event_reveal(actor=find_actor(request), run_id=str(run_id), seq=body.seq).content)


bundle_router = Router(tags=["runs"])
BUNDLE = {"responses": {200: {"content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}}}


@bundle_router.post(
    "/runs/{uuid:run_id}/export", url_name="api-run-export", operation_id="exportRun", openapi_extra=BUNDLE
)
def export_run(
    request: HttpRequest, run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)]
) -> FileResponse:
    """Export a run as a bundle. The audit stream records the export, which makes a checkpoint of the run's journal."""
    return bundle_response(find_actor(request), str(run_id))


cost_router = Router(tags=["runs"])


class CostOut(ResponseShape):
    """The cost of a set of calls and child runs."""

    calls: int = Field(description="Calls of models and of tools.", examples=[12])
    children: int = Field(description="Child runs that were spawned.", examples=[0])
    cost_usd_micros: int = Field(description="Millionths of a US dollar.", examples=[12500])
    tools_usd_micros: dict[str, int] = Field(
        description="The part of it that calls of tools with a price came to, by tool.", examples=[{"lookup": 5000}]
    )
    tokens: int = Field(description="In and out.", examples=[4200])
    tokens_by_kind: dict[str, int] = Field(
        description=f"Its tokens by kind, those that it has: {', '.join(TOKEN_KINDS)}. The kind is not known of the rest of `tokens`: attempts that "
        "are charged their reservation, and child runs.",
        examples=[{"input": 900, "cached": 3000, "output": 200, "reasoning": 100}],
    )


class RunCostOut(ResponseShape):
    """A run's cost so far."""

    run_id: str = Field(description="The run's id.")
    total: CostOut = Field(description="Altogether.")
    by_stage: dict[str, CostOut] = Field(description="By stage; calls that belong to none are in the total alone.")
    by_agent: dict[str, CostOut] = Field(description="By agent.")
    by_model: dict[str, CostOut] = Field(description="By model, as the fabric names it.")


@cost_router.get("/runs/{uuid:run_id}/cost", response=RunCostOut, url_name="api-run-cost", operation_id="getRunCost")
def run_cost(
    request: HttpRequest, run_id: Annotated[UUID, Path(description="The run's id.", example=EXAMPLE_ID)]
) -> RunCostOut:
    """Get a run's cost. By stage, agent and model, with the kinds of tokens that have prices of their own."""
    story = run_story(find_actor(request), str(run_id))
    return RunCostOut(
        run_id=story.run_id,
        total=_cost_shape(story.total),
        by_stage=_all(story.by_stage),
        by_agent=_all(story.by_agent),
        by_model=_all(story.by_model),
    )


def _all(tallies: Mapping[str, CallSums]) -> dict[str, CostOut]:
    return {name: _cost_shape(tally) for name, tally in tallies.items()}


def _cost_shape(tally: CallSums) -> CostOut:
    return CostOut(
        calls=tally.calls,
        children=tally.children,
        cost_usd_micros=tally.cost_usd_micros,
        tools_usd_micros=dict(tally.tools),
        tokens=tally.tokens,
        tokens_by_kind=dict(tally.kinds),
    )
