"""Serves a run as of one of its events: state, money, limits, breakers, conversation and reviews as they were then."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from console.api.runs.operations import RUN_ID
from console.api.runs.records import SEQ_MAX
from console.api.shapes.common import EXAMPLE_ID, Instant, ResponseShape, instant
from console.live.stories import past_stories
from console.site.access.callers import find_actor
from fabric.core.values.flow import RunState
from fabric.selectors.runs.lookup import run_events, run_get
from fabric.selectors.runs.margins.margin import Margin
from fabric.selectors.runs.past.views import build_past_run

router = Router(tags=["runs"])


class MarginThenOut(ResponseShape):
    """Distance of the run from one limit."""

    key: str = Field(
        description="Path of the limit in the policy, or a name of what is counted.", examples=["retry.bucket"]
    )
    name: str = Field(description="Its name on the run's page.", examples=["Retry budget"])
    where: str = Field(description="Stage, step or agent that it was counted in; empty: the whole run.")
    observed: float = Field(description="What was counted.", examples=[2])
    limit: float = Field(description="The limit, in the same unit.", examples=[10])
    unit: str = Field(description="Unit of both; money is usd_micros.", examples=["retry tokens"])
    tripped: bool = Field(description="True if it had tripped.")


class BreakerThenOut(ResponseShape):
    """A breaker that runs share, at the instant of the event."""

    where: str = Field(description="What it protects.", examples=["provider openai"])
    scope: str = Field(description="Scope of its row.")
    state: str = Field(
        description="closed, half open, open or stopped; not kept: its log, of seven days, does not reach back so far."
    )


class ReviewThenOut(ResponseShape):
    """A review that was open."""

    id: str = Field(description="Its id.")
    reason: str = Field(description="The reason.")
    asked: str = Field(description="Whom it asked.", examples=["reviewer"])
    opened_at: Instant = Field(description="When it was opened.")
    due_at: Instant = Field(description="When it was due.")


class SpokenOut(ResponseShape):
    """A turn, a step or a person's message. Its words are the content of its event."""

    seq: int = Field(description="Its event.", examples=[7])
    who: str = Field(description="Agent, or the person.", examples=["planner"])
    step: str = Field(description="The turn or step.", examples=["turn 2"])
    state: str = Field(description="Its state then.", examples=["active"])


class PastRunOut(ResponseShape):
    """A run as of one of its events."""

    run_id: str = Field(description="The run's id.")
    seq: int = Field(description="The event.", examples=[7])
    last_seq: int = Field(description="The run's last event, now.", examples=[28])
    at: Instant = Field(description="When the event happened.")
    kind: str = Field(description="Its kind.", examples=["stage_entered"])
    summary: str = Field(description="The event in one short sentence.")
    state: RunState = Field(description="State of the run.")
    stage: str = Field(description="Its stage; empty before the first.", examples=["fan_out"])
    replans: int = Field(description="Number of replans.")
    reason: str = Field(description="Why it had ended or what it waited for, where there is something to say.")
    fired: list[str] = Field(description="Protections that had fired, the first one first.", examples=[["budget"]])
    cap_usd_micros: int = Field(
        description="The most it could spend, in millionths of a US dollar.", examples=[1000000]
    )
    spent_usd_micros: int = Field(description="Spent so far.", examples=[12500])
    reserved_usd_micros: int = Field(description="The most that its calls in flight could still cost.", examples=[500])
    left_usd_micros: int = Field(description="The rest of the cap; below 0 where it was passed.", examples=[987000])
    tokens: int = Field(description="Tokens so far, in and out.")
    retry_tokens: float | None = Field(
        description="Tokens left in the retry budget that had the least; null before the start.", examples=[10]
    )
    deadline_at: Instant | None = Field(description="When it was to be stopped at the latest.")
    margins: list[MarginThenOut] = Field(description="Limits: those that had tripped, then the nearest first.")
    breakers: list[BreakerThenOut] = Field(description="Shared breakers before its calls.")
    conversation: list[SpokenOut] = Field(description="The conversation so far, in order.")
    reviews: list[ReviewThenOut] = Field(description="Reviews that were open, the most urgent first.")


@router.get("/runs/{uuid:run_id}/at", response=PastRunOut, url_name="api-run-at", operation_id="getRunAt")
def get_run_at(
    request: HttpRequest,
    run_id: Annotated[UUID, Path(description=RUN_ID, example=EXAMPLE_ID)],
    seq: Annotated[int, Query(ge=1, le=SEQ_MAX, description="Seq of one of the run's events.", example=7)],
) -> PastRunOut:
    """Get a run as of one of its events. State, money, limits, conversation and open reviews, folded from its journal.
    503 while a very long journal is read: ask again.
    """
    actor = find_actor(request)
    run = run_get(actor, str(run_id))
    past = build_past_run(run, past_stories.read_story(actor, run, seq))
    (event,) = run_events(actor, run.id, after=seq - 1, limit=1)
    then = past.run
    return PastRunOut(
        run_id=run.id,
        seq=past.seq,
        last_seq=past.last_seq,
        at=instant(past.at),
        kind=event.kind,
        summary=event.summary,
        state=then.state,
        stage=then.stage,
        replans=then.epoch,
        reason=then.reason,
        fired=list(then.fired),
        cap_usd_micros=past.cap_usd_micros,
        spent_usd_micros=then.cost_usd_micros,
        reserved_usd_micros=past.reserved_usd_micros,
        left_usd_micros=past.left_usd_micros,
        tokens=then.tokens,
        retry_tokens=past.retry_tokens,
        deadline_at=instant(then.deadline_at or None),
        margins=[_margin_shape(one) for one in past.margins],
        breakers=[BreakerThenOut(where=one.where, scope=one.scope, state=one.word) for one in past.breakers],
        conversation=[SpokenOut(seq=one.seq, who=one.who, step=one.step, state=one.state) for one in past.conversation],
        reviews=[
            ReviewThenOut(
                id=one.id,
                reason=one.reason,
                asked=one.who,
                opened_at=instant(one.opened_at),
                due_at=instant(one.due_at),
            )
            for one in past.reviews
        ],
    )


def _margin_shape(margin: Margin) -> MarginThenOut:
    return MarginThenOut(
        key=margin.key,
        name=margin.name,
        where=margin.where,
        observed=margin.observed,
        limit=margin.limit,
        unit=margin.unit.replace("USD", "usd_micros"),
        tripped=margin.fired is not None,
    )
