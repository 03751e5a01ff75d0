"""The policy of one circuit breaker, the presets of breakers, and the one that a fabric has unless it names others (semantics.md 4; S0 "Circuit Breaker"; S3 "Circuit breaker")."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fabric.core.fingerprint import fingerprint

WINDOW_S = 60.0
"""What all workers count together reaches back a minute, to within ten seconds (``grant_ports.Count.windowed``)."""
COOLDOWN_MAX_S = 86_400.0
"""The longest cooldown that a policy may name, and the longest Retry-After that is heeded: who says more is asked again after a day."""
PROBES_MAX = 16
"""Of one breaker at once: their permits stand in its row."""
NAME_CHARS = 600
"""A name that stands in ``only``, at most: the longest is an endpoint's, with its address."""
Mode = Literal["consecutive", "window", "rate", "cumulative"]


class BreakerScope(StrEnum):
    """What one breaker stands in front of. Each has a row of its own that all workers share."""

    AGENT = "agent"
    PROVIDER = "provider"
    TOOL = "tool"
    STAGE = "stage"
    FABRIC = "fabric"


class SignalName(StrEnum):
    """What a breaker counts. What comes of a call is one of them, or clean, or neutral: ``signals.SIGNAL_OF``."""

    IDENTICAL_CALL = "identical_call"
    """An executed tool call that equals the one before it."""
    SCHEMA_INVALID = "schema_invalid"
    """An answer that does not have the promised form."""
    INVARIANT = "invariant"
    """A gate found that an output does not keep an invariant of the fabric (``gates.invariants``)."""
    COST_RATE = "cost_rate"
    """The cost velocity reached its ceiling."""
    RATE_LIMIT = "rate_limit"
    """429."""
    SERVER_ERROR = "server_error"
    """5xx, or no connection: S3's service_unavailable and internal_error."""
    TIMEOUT = "timeout"


PER_STEP = frozenset({SignalName.IDENTICAL_CALL, SignalName.SCHEMA_INVALID, SignalName.COST_RATE})
"""Streaks of one agent's step: counted from its run's journal, within one epoch. The others are counted by all workers together."""

DOMAIN: Mapping[SignalName, str] = {
    SignalName.IDENTICAL_CALL: "execution",
    SignalName.SCHEMA_INVALID: "answer",
    SignalName.INVARIANT: "outcome",
    SignalName.COST_RATE: "spending",
    SignalName.RATE_LIMIT: "endpoint",
    SignalName.SERVER_ERROR: "endpoint",
    SignalName.TIMEOUT: "endpoint",
}
"""What a signal says something about. A streak is broken by what is clean in its own domain: an endpoint that gives an answer of the wrong form did answer."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Signal(_Part):
    """One thing that opens a breaker."""

    names: Annotated[tuple[SignalName, ...], Field(min_length=1)] = Field(
        description="What is counted; several are counted together."
    )
    mode: Mode = Field(
        description="consecutive: without a success between; window: in the last window_s; rate: share of the calls in the last "
        "window_s; cumulative: since the breaker closed last."
    )
    threshold: Annotated[float, Field(gt=0)] = Field(
        description="Opens at this count. rate: opens above this share, 0 to 1."
    )
    window_s: Annotated[float, Field(ge=WINDOW_S, le=WINDOW_S)] = Field(
        default=WINDOW_S, description="window and rate: how far back, seconds. Workers count together by the minute."
    )
    min_calls: Annotated[int, Field(ge=1)] = Field(default=10, description="rate: judged from so many calls on.")

    @model_validator(mode="after")
    def _fits_its_mode(self) -> Signal:
        if self.mode == "rate" and self.threshold >= 1:
            raise ValueError("threshold: a rate opens above a share of the calls, so give less than 1")
        if self.mode != "rate" and self.threshold != int(self.threshold):
            raise ValueError("threshold: a count is a whole number")
        if len(set(self.names)) != len(self.names):
            raise ValueError("names: each once")
        if len({DOMAIN[name] for name in self.names}) > 1:
            raise ValueError("names: only what says something about the same thing is counted together")
        if self.mode != "consecutive" and PER_STEP.intersection(self.names):
            raise ValueError("mode: what is counted within one step is a streak, so give consecutive")
        return self

    @property
    def per_step(self) -> bool:
        """Whether it is a streak of one step, and not counted by all workers together."""
        return self.names[0] in PER_STEP

    @property
    def key(self) -> str:
        """What its count is called in the shared rows."""
        return f"{self.mode}:{'+'.join(self.names)}"


class Breaker(_Part):
    """One circuit breaker of a fabric."""

    scope: BreakerScope = Field(description="What it stands in front of.")
    only: tuple[Annotated[str, Field(min_length=1, max_length=NAME_CHARS)], ...] = Field(
        default=(),
        description="Names of the agents, tools or stages that it stands in front of, or of the providers (`openai`; with an address of its own "
        "`openai@host/v1`); none: all of its scope.",
    )
    signals: Annotated[tuple[Signal, ...], Field(min_length=1)] = Field(
        description="What opens it; the first that does is its cause."
    )
    cooldown_s: Annotated[float, Field(gt=0, le=COOLDOWN_MAX_S)] = Field(
        default=60.0, description="How long it is open before a probe, seconds."
    )
    half_open_max: Annotated[int, Field(ge=1, le=PROBES_MAX)] = Field(
        default=1, description="Probes at once while it is half open, exact over all workers."
    )
    success_threshold: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Probes that must succeed before it closes."
    )
    max_trips: Annotated[int, Field(ge=0)] = Field(
        default=3, description="It stops for good at so many trips without closing between; 0: never."
    )
    reset_on_success: bool = Field(default=True, description="Whether closing forgets the trips before.")
    on_open: Literal["none", "model", "static_answer"] = Field(
        default="none",
        description="Which fallback exists while it is open; the decision table's cell says whether it may be used.",
    )

    @property
    def kind(self) -> str:
        """What its rows are called beside their scope: a breaker is shared by whoever has the same policy, of any fabric and revision.

        Which names of its scope it stands in front of is no part of that: each has a row of its own, which says nothing of the others.
        """
        return _kind_of(self)

    def before(self, name: str) -> bool:
        """Whether it stands in front of what is called so in its scope."""
        return not self.only or name in self.only


KIND = "circuit_breaker"


@lru_cache(maxsize=1_024)
def _kind_of(breaker: Breaker) -> str:
    """Asked with every call, and the same for as long as a revision lives."""
    return f"{KIND}:{fingerprint(breaker.model_dump(mode='json', exclude={'only'}))[:12]}"


def semantic(scope: BreakerScope = BreakerScope.AGENT) -> Breaker:
    """Soft failures that an endpoint's breaker cannot see (S0 "Circuit Breaker")."""
    return Breaker(
        scope=scope,
        signals=(
            Signal(names=(SignalName.IDENTICAL_CALL,), mode="consecutive", threshold=3),
            Signal(names=(SignalName.SCHEMA_INVALID,), mode="consecutive", threshold=2),
            Signal(names=(SignalName.COST_RATE,), mode="consecutive", threshold=1),
            Signal(names=(SignalName.RATE_LIMIT, SignalName.SERVER_ERROR), mode="rate", threshold=0.5),
        ),
    )


def endpoint(scope: BreakerScope = BreakerScope.PROVIDER) -> Breaker:
    """An endpoint that does not answer (S3 "Circuit breaker": 5 failures, 60 s, 1 probe at a time, closes after 3)."""
    watched = (SignalName.TIMEOUT, SignalName.SERVER_ERROR)
    return Breaker(scope=scope, signals=(Signal(names=watched, mode="consecutive", threshold=5),), success_threshold=3)


def rate_limit(scope: BreakerScope = BreakerScope.PROVIDER) -> Breaker:
    """A provider that says 429: asked three times by all runs together, and not three times by each. It never stops for good, since a rate limit ends by itself."""
    refused = Signal(names=(SignalName.RATE_LIMIT,), mode="consecutive", threshold=3)
    return Breaker(scope=scope, signals=(refused,), max_trips=0)


def outage(scope: BreakerScope = BreakerScope.PROVIDER) -> Breaker:
    """A provider that is away, whichever way it says so: 429, 5xx, no connection, no answer in time. It never stops for good, since nobody asked for it."""
    away = (SignalName.RATE_LIMIT, SignalName.SERVER_ERROR, SignalName.TIMEOUT)
    signal = Signal(names=away, mode="consecutive", threshold=3)
    return Breaker(scope=scope, signals=(signal,), cooldown_s=30.0, max_trips=0)


PRESETS = {"semantic": semantic, "endpoint": endpoint, "rate_limit": rate_limit, "outage": outage}
"""By name; each takes another scope than its own."""
UNNAMED: tuple[Breaker, ...] = (outage().model_copy(update={"on_open": "model"}),)
"""What a fabric has that names none. Another model is a fallback where there is one: what nobody asked for takes no rung from a cell."""
