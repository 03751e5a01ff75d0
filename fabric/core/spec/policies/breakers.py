"""The policy of a circuit breaker, the presets, and the breaker of a fabric that names none.

Sources: docs/specification/breakers.md; S0 "Circuit Breaker"; S3 "Circuit breaker".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fabric.core.schema.limits import REQUIRED, Unit, declare_limit, declare_setting
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.identity_cache import keep_results

WINDOW_S = 60.0
"""Counts of all workers reach back a minute, to within ten seconds (``SignalCount.windowed``)."""
COOLDOWN_MAX_S = 86_400.0
"""The longest cooldown that a policy may name, and the longest Retry-After that is heeded. An endpoint that says more
is asked again after a day.
"""
PROBES_MAX = 16
"""Largest number of probes of one breaker at a time: their permits are in its row."""
NAME_CHARS = 600
"""A name that stands in ``only``, at most: the longest is an endpoint's, with its address."""
_S3, _PAGE = "S3: circuit breaker", "docs/specification/breakers.md"
Mode = Literal["consecutive", "window", "rate", "cumulative"]


class BreakerScope(StrEnum):
    """A breaker stands in front of one of these. Each has a row of its own that all workers share."""

    AGENT = "agent"
    PROVIDER = "provider"
    TOOL = "tool"
    STAGE = "stage"
    FABRIC = "fabric"


class SignalName(StrEnum):
    """A breaker counts these. A call's result is one of them, clean, or neutral (``signals.SIGNAL_OF``)."""

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
"""Streaks of one agent's step: counted from its run's journal, within one epoch. The others are counted by all workers
together.
"""

DOMAIN: Mapping[SignalName, str] = {
    SignalName.IDENTICAL_CALL: "execution",
    SignalName.SCHEMA_INVALID: "answer",
    SignalName.INVARIANT: "outcome",
    SignalName.COST_RATE: "spending",
    SignalName.RATE_LIMIT: "endpoint",
    SignalName.SERVER_ERROR: "endpoint",
    SignalName.TIMEOUT: "endpoint",
}
"""Each signal speaks of one domain, and a clean result in that domain breaks its streak. An endpoint that gives an
answer of the wrong form did answer.
"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Signal(_Part):
    """One thing that opens a breaker."""

    names: Annotated[tuple[SignalName, ...], Field(min_length=1)] = Field(
        title="Failures counted", description="The breaker counts these failures, all of them together."
    )
    mode: Mode = Field(
        title="Counting",
        description="consecutive: failures without a success in between. window: failures in the last window_s. rate: their share of the calls in the last window_s. cumulative: failures since the breaker last closed.",
    )
    threshold: Annotated[float, Field(gt=0)] = declare_limit(
        REQUIRED,
        "Threshold",
        Unit.COUNT_OR_SHARE,
        "This many failures open the breaker; with mode rate this share of the calls, from 0 to 1.",
        stops="the breaker opens",
        source=_S3,
    )
    window_s: Annotated[float, Field(ge=WINDOW_S, le=WINDOW_S)] = declare_limit(
        WINDOW_S,
        "Window",
        Unit.SECONDS,
        "With mode window or rate, calls of this last time are counted, for all workers together.",
        stops="older calls are not counted",
        source=_S3,
    )
    min_calls: Annotated[int, Field(ge=1)] = declare_limit(
        10,
        "Calls before the share counts",
        Unit.CALLS,
        "With mode rate, the share counts only after this many calls in the window.",
        stops="the share counts from then on",
        source=_S3,
    )

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
        """Return True for a streak of one step, which the workers do not count together."""
        return self.names[0] in PER_STEP

    @property
    def key(self) -> str:
        """Return the name of its count in the shared rows."""
        return f"{self.mode}:{'+'.join(self.names)}"


class Breaker(_Part):
    """One circuit breaker of a fabric."""

    scope: BreakerScope = Field(title="Protects", description="The breaker stops calls of this kind of place.")
    only: tuple[Annotated[str, Field(min_length=1, max_length=NAME_CHARS)], ...] = Field(
        default=(),
        title="Only these",
        description="Names of agents, tools or stages that the breaker protects, or of providers (`openai`; with an own address `openai@host/v1`). Empty: all of its scope.",
    )
    signals: Annotated[tuple[Signal, ...], Field(min_length=1)] = Field(
        title="Opens on",
        description="Each of these conditions opens the breaker; the first one met is the recorded cause.",
    )
    cooldown_s: Annotated[float, Field(gt=0, le=COOLDOWN_MAX_S)] = declare_limit(
        60.0,
        "Cooldown",
        Unit.SECONDS,
        "An open breaker refuses calls for this long.",
        stops="the next call is a probe",
        source=_S3,
    )
    half_open_max: Annotated[int, Field(ge=1, le=PROBES_MAX)] = declare_limit(
        1,
        "Probes at once",
        Unit.PROBES,
        "After the cooldown at most this many calls may probe at once, over all workers.",
        stops="further calls are refused until a probe comes back",
        source=_S3,
    )
    success_threshold: Annotated[int, Field(ge=1)] = declare_limit(
        1,
        "Probes to close it",
        Unit.PROBES,
        "This many probes must succeed before the breaker closes.",
        stops="the breaker closes",
        source=_S3,
    )
    max_trips: Annotated[int, Field(ge=0)] = declare_limit(
        3,
        "Trips before it stays open",
        Unit.TRIPS,
        "The breaker may open this often without closing in between. 0: any number of times.",
        stops="the breaker stays open until a person resets it",
        source=_PAGE,
    )
    reset_on_success: bool = declare_setting(
        True, "Closing resets trips", "True: closing sets the count of trips to zero.", source=_PAGE
    )
    on_open: Literal["none", "model", "static_answer"] = declare_setting(
        "none",
        "Fallback while it is open",
        "What may stand in for a blocked call: none, another model, or the static answer. The decision table says whether it is used.",
        source=_PAGE,
    )

    @property
    def kind(self) -> str:
        """Return the name of its rows beside their scope. Equal policies share it, whatever their fabric and revision.

        The names in ``only`` are no part of it: each name has a row of its own.
        """
        return _find_kind(self)

    def stands_before(self, name: str) -> bool:
        """Return True where it stands in front of that name in its scope."""
        return not self.only or name in self.only


KIND = "circuit_breaker"


@keep_results
def _find_kind(breaker: Breaker) -> str:
    """Return a breaker's kind. The engine asks with every call."""
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
    """Return the breaker of an endpoint that does not answer (S3 "Circuit breaker"). It takes 5 failures, 60 s, 1 probe
    at a time, and closes after 3.
    """
    watched = (SignalName.TIMEOUT, SignalName.SERVER_ERROR)
    return Breaker(scope=scope, signals=(Signal(names=watched, mode="consecutive", threshold=5),), success_threshold=3)


def rate_limit(scope: BreakerScope = BreakerScope.PROVIDER) -> Breaker:
    """A provider that says 429: asked three times by all runs together, and not three times by each. It never stops for
    good, since a rate limit ends by itself.
    """
    refused = Signal(names=(SignalName.RATE_LIMIT,), mode="consecutive", threshold=3)
    return Breaker(scope=scope, signals=(refused,), max_trips=0)


def outage(scope: BreakerScope = BreakerScope.PROVIDER) -> Breaker:
    """Return the breaker of a provider that is away: 429, 5xx, no connection, no answer in time. It never stops for
    good, since no author asked for it.
    """
    away = (SignalName.RATE_LIMIT, SignalName.SERVER_ERROR, SignalName.TIMEOUT)
    signal = Signal(names=away, mode="consecutive", threshold=3)
    return Breaker(scope=scope, signals=(signal,), cooldown_s=30.0, max_trips=0)


PRESETS = {"semantic": semantic, "endpoint": endpoint, "rate_limit": rate_limit, "outage": outage}
"""By name; each takes another scope than its own."""
UNNAMED: tuple[Breaker, ...] = (outage().model_copy(update={"on_open": "model"}),)
"""The breakers of a fabric that names none. Another model is their fallback where there is one; they take no rung from
a cell.
"""
