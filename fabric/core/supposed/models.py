"""What is supposed, and what comes of it: data alone, ready to be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.flow import RunState, Stage
from fabric.core.taxonomy import Cause, FailureType, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposing:
    """Circumstances of a failure; what is left out is as a drill has it."""

    stage: Stage | None = None
    cause: Cause | None = None
    """Finer than the failure type; it has to be of that row."""
    agent: str = ""
    """Of a fan-out the worker that it befalls; empty: the first one."""
    of_call: bool = False
    """Of a cost overrun: one call would cost too much, and not the stage that is to begin."""
    breaker_open: bool = False
    """Of a provider failure: the call was refused by its circuit breaker, and not sent."""
    retry_after_s: float | None = None
    """Of a provider failure: how long whoever failed wants to be left alone."""


WaitOf = Literal["backoff", "retry_after", "breaker", "named", "failover", "node"]


@dataclass(frozen=True, slots=True)
class Wait:
    """How long the next attempt waits, seconds: drawn between these two, or just so long where they are equal."""

    low_s: float
    high_s: float
    of: WaitOf


@dataclass(frozen=True, slots=True)
class Asks:
    """A question to people, or a ticket that is left. Seconds count from when it is asked."""

    role: str
    reviewers: tuple[str, ...]
    """Names and roles that the fabric lists for a question that is theirs."""
    remind_s: float
    onward_s: float
    """After this ``onward_to`` may answer as well."""
    onward_to: tuple[str, ...]
    due_s: float
    on_expiry: str
    """``reject``, or ``nothing``."""
    approvals: int
    verbs: Mapping[str, str]
    """What may be answered, and what it does."""
    model: str = ""
    """The model that an approval may name; empty: none."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the walk."""

    what: Literal["decided", "skipped", "left"]
    """A reaction, a rung that is passed over, or a ticket that is left with the reaction before."""
    rung: int
    """From 1; of a direct reaction 1."""
    reaction: str
    failure: FailureType | None
    """The row that it is of; None: a direct reaction. Not the supposed one where a branch that ended leaves a gap."""
    use: int = 0
    """Which use of the rung it is, from 1."""
    times: int | None = None
    why: str = ""
    """Why a rung is passed over; of a reaction what failed."""
    waits: Wait | None = None
    asks: Asks | None = None
    model: str = ""
    """The model that takes over; empty: none does."""


@dataclass(frozen=True, slots=True)
class Laid:
    """One rung of the ladder that the failure goes down."""

    rung: int
    """From 1."""
    reaction: str
    times: int | None
    """None: without bound."""
    per: str
    """What its uses are counted against: ``call``, ``node``, ``step``, ``stage``, ``unbounded``."""
    layer: str
    """The retry layer that it belongs to; empty: the fabric has none."""
    accompanies: tuple[str, ...]
    role: str
    """Who must answer, where it asks; else empty."""
    critic: bool
    uses: int
    """How often the walk takes it."""
    why: str
    """Why it is passed over, where it is; empty: it is taken, or not reached."""

    @property
    def state(self) -> Literal["taken", "passed_over", "not_reached"]:
        """What becomes of it."""
        return "taken" if self.uses else "passed_over" if self.why else "not_reached"


@dataclass(frozen=True, slots=True)
class Supposed:
    """What the engine does about a failure that stays, whatever is done about it, and whoever is asked rejects it or does not answer."""

    failure: FailureType
    tier: Tier
    stage: Stage
    agent: str
    """Who meets it; empty: the stage as a whole."""
    cause: Cause
    own: bool
    """Whether the fabric has a cell of its own for it; else the default table's holds."""
    ladder: tuple[Laid, ...]
    lines: tuple[Line, ...]
    state: RunState
    """In which the run ends."""
    reason: str
    """Why it ends, in the engine's words."""
    notes: tuple[str, ...] = field(default=())
    """What the walk takes for granted."""
