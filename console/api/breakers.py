"""Circuit breakers: where they stand, and moving one by hand."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Body, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.selectors.breakers import BreakerView, breakers_of
from fabric.services.breakers import breaker_force_open, breaker_reset
from fabric.services.runs import REASON_CHARS_MAX

router = Router(tags=["breakers"])
SCOPE = "What it stands in front of: provider:NAME, agent:FABRIC_ID:NAME, tool:FABRIC_ID:NAME, stage:FABRIC_ID:STAGE or fabric:FABRIC_ID."
KIND = "Its policy's digest: a scope may have several breakers."
EXAMPLE_SCOPE, EXAMPLE_KIND = "provider:openai", "circuit_breaker:92e507dd97e0"
SCOPE_CHARS_MAX = 300
GENERATION_MAX = 2**63 - 1


class MoveIn(Given):
    """Which breaker, as it was seen, and why."""

    scope: str = Field(min_length=1, max_length=SCOPE_CHARS_MAX, description=SCOPE, examples=[EXAMPLE_SCOPE])
    kind: str = Field(min_length=1, max_length=SCOPE_CHARS_MAX, description=KIND, examples=[EXAMPLE_KIND])
    generation: int = Field(
        ge=0, le=GENERATION_MAX, description="As it was listed: one that changed meanwhile is left alone.", examples=[4]
    )
    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept with the breaker and in the audit stream.",
        examples=["The provider is down for maintenance."],
    )


class SignalOut(Told):
    """What opens a breaker, and how far it has come."""

    names: list[str] = Field(description="What is counted, together.", examples=[["timeout", "server_error"]])
    mode: Literal["consecutive", "window", "rate", "cumulative"] = Field(
        description="consecutive: in a row; window: in window_s; rate: share of the calls in window_s; cumulative: since it closed."
    )
    threshold: float = Field(description="Opens at this count; a rate above this share.", examples=[5.0])
    window_s: float = Field(description="How far window and rate reach back, seconds.", examples=[60.0])
    count: int = Field(description="Counted now, by all workers; 0 of what is counted within one step.", examples=[2])
    calls: int = Field(description="Of a rate: all calls in the window.", examples=[0])
    share: int = Field(description="Whole percent of the way to the threshold.", examples=[40])


class BreakerChangeOut(Told):
    """One change of a breaker."""

    generation: int = Field(description="That it had from then on.", examples=[4])
    state: str = Field(description="Its own from then on.", examples=["open"])
    signal: str = Field(description="What opened it; forced: a person did.", examples=["timeout"])
    by: str = Field(description="Who moved it by hand; empty: nobody.", examples=[""])
    reason: str = Field(description="Why; empty: nobody moved it.", examples=[""])
    at: Instant = Field(description="When.")


class BreakerOut(Told):
    """A circuit breaker."""

    scope: str = Field(description=SCOPE, examples=[EXAMPLE_SCOPE])
    kind: str = Field(description=KIND, examples=[EXAMPLE_KIND])
    fabrics: list[str] = Field(description="Names of the fabrics whose calls meet it.", examples=[["research-desk"]])
    published: bool = Field(description="False: only runs of an earlier revision meet it.")
    state: str = Field(description="closed, open, half_open, or stopped: until somebody resets it.", examples=["open"])
    held: bool = Field(description="Whether only a person lets calls pass again.")
    signal: str = Field(description="What opened it; forced: a person did; empty: it is closed.", examples=["timeout"])
    by: str = Field(description="Who moved it by hand last; empty: nobody.", examples=[""])
    reason: str = Field(description="Why.", examples=[""])
    generation: int = Field(description="Grows with each change; open and reset name it.", examples=[4])
    changed_at: Instant | None = Field(description="When it changed last; null: never.")
    cooldown_s: float = Field(description="How long it is open before a probe, seconds.", examples=[60.0])
    probe_at: Instant | None = Field(
        description="When a probe may go out, by its cooldown or its endpoint's Retry-After, whichever is later; null: neither runs."
    )
    probe_held_by: str = Field(
        description="Which attempt is the probe, run/command#attempt, the first of several; empty: none.", examples=[""]
    )
    probes: list[str] = Field(description="All attempts that are out as probes, run/command#attempt.", examples=[[]])
    half_open_max: int = Field(description="How many probes may be out at once.", examples=[1])
    trips: int = Field(description="Openings without closing between.", examples=[1])
    max_trips: int = Field(description="It stops at so many; 0: never.", examples=[3])
    trips_24h: int = Field(description="How often it opened by itself in the last 24 hours.", examples=[1])
    signals: list[SignalOut] = Field(description="What opens it; the first that does.")
    changes: list[BreakerChangeOut] = Field(description="The last ones, the newest first.")


class BreakersOut(Told):
    """The circuit breakers of the workspace."""

    breakers: list[BreakerOut] = Field(description="All of them, those that stop calls first.")


@router.get("/breakers", response=BreakersOut, url_name="api-breakers", operation_id="listBreakers")
def list_breakers(request: HttpRequest) -> BreakersOut:
    """List circuit breakers. All that stand in front of this workspace's calls; a provider's are shared by all fabrics that use it."""
    return BreakersOut(breakers=[_told(one) for one in breakers_of(actor_of(request))])


@router.post("/breakers/open", response=BreakerOut, url_name="api-breakers-open", operation_id="openBreaker")
def open_breaker(request: HttpRequest, body: Annotated[MoveIn, Body()]) -> BreakerOut:
    """Open a breaker by hand. No call passes it until somebody resets it, in every worker within a second. For the owner and operators."""
    return _told(breaker_force_open(actor=actor_of(request), **body.model_dump()))


@router.post("/breakers/reset", response=BreakerOut, url_name="api-breakers-reset", operation_id="resetBreaker")
def reset_breaker(request: HttpRequest, body: Annotated[MoveIn, Body()]) -> BreakerOut:
    """Reset a breaker. Calls pass again, its trips are forgotten, its signals are counted anew. For the owner and operators."""
    return _told(breaker_reset(actor=actor_of(request), **body.model_dump()))


def _told(one: BreakerView) -> BreakerOut:
    standing = one.standing
    return BreakerOut(
        scope=one.scope,
        kind=one.kind,
        fabrics=list(one.fabrics),
        published=one.published,
        state=standing.state.value,
        held=standing.held,
        signal=standing.signal,
        by=standing.by,
        reason=standing.reason,
        generation=one.generation,
        changed_at=instant(one.changed_at or None),
        cooldown_s=one.breaker.cooldown_s,
        probe_at=instant(one.cools_at),
        probe_held_by=one.probes[0].holder if one.probes else "",
        probes=[probe.holder for probe in one.probes],
        half_open_max=one.breaker.half_open_max,
        trips=standing.trips,
        max_trips=one.breaker.max_trips,
        trips_24h=one.trips,
        signals=[
            SignalOut(
                names=[name.value for name in each.signal.names],
                mode=each.signal.mode,
                threshold=each.signal.threshold,
                window_s=each.signal.window_s,
                count=each.count,
                calls=each.calls,
                share=each.share,
            )
            for each in one.signals
        ],
        changes=[
            BreakerChangeOut(
                generation=each.generation,
                state=each.standing.state.value,
                signal=each.standing.signal,
                by=each.standing.by,
                reason=each.standing.reason,
                at=instant(each.at),
            )
            for each in one.changes
        ],
    )
