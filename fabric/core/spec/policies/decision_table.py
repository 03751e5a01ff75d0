"""The decision table has 8 failure types and 3 tiers. Each cell is a ladder of rungs, and only the last is unbounded.

Data alone. A fabric's own cells are of one type with these and replace them one by one
(docs/specification/decision-table.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.taxonomy import Direct, FailureType, Tier


class Reaction(StrEnum):
    """Possible reaction of the engine to a failure."""

    HALT = "halt"
    ABORT = "abort"
    ESCALATE = "escalate"
    SURFACE = "surface"
    TERMINATE = "terminate"
    REPLAN = "replan"
    HANDOVER = "handover"
    SAFE_FALLBACK = "safe_fallback"
    ACCEPT_PARTIAL = "accept_partial"
    ROUTE = "route"
    GO_BACK = "go_back"
    RETRY_NODE = "retry_node"
    FALLBACK_MODEL = "fallback_model"
    CHEAPER_MODEL = "cheaper_model"
    WAIT_FOR_BREAKER = "wait_for_breaker"
    INJECT = "inject"
    RETRY = "retry"


GRAVITY: tuple[Reaction, ...] = (
    Reaction.HALT,
    Reaction.ABORT,
    Reaction.ESCALATE,
    Reaction.SURFACE,
    Reaction.SAFE_FALLBACK,
    Reaction.TERMINATE,
    Reaction.REPLAN,
    Reaction.HANDOVER,
    Reaction.ACCEPT_PARTIAL,
    Reaction.ROUTE,
    Reaction.GO_BACK,
    Reaction.RETRY_NODE,
    Reaction.FALLBACK_MODEL,
    Reaction.CHEAPER_MODEL,
    Reaction.WAIT_FOR_BREAKER,
    Reaction.INJECT,
    Reaction.RETRY,
)
"""The gravest first: which reaction wins when several trip at once. Safe fallback stands with surface, which it becomes
when no fallback is configured; handover stands with replan, whose work it does one level up. What a branch is given up
for, and what a node is run again for, and where a graph's rule leads on from or its retry target back, stand between a
replan and what is done about one call.
"""


class Accompaniment(StrEnum):
    """An accompaniment goes with a reaction and has no rank."""

    BLOCK = "block"
    ALERT = "alert"
    FOLLOW_UP = "follow_up"


class CountScope(StrEnum):
    """The uses of a rung are counted for one of these."""

    CALL = "call"
    NODE = "node"
    """A stage's branch in one epoch, in all its rounds."""
    STEP = "step"
    STAGE = "stage"
    UNBOUNDED = "unbounded"


COUNTED_PER: dict[Reaction, CountScope] = {
    Reaction.RETRY: CountScope.CALL,
    Reaction.WAIT_FOR_BREAKER: CountScope.CALL,
    Reaction.FALLBACK_MODEL: CountScope.CALL,
    Reaction.CHEAPER_MODEL: CountScope.CALL,
    Reaction.RETRY_NODE: CountScope.NODE,
    Reaction.ACCEPT_PARTIAL: CountScope.NODE,
    Reaction.ROUTE: CountScope.NODE,
    Reaction.GO_BACK: CountScope.NODE,
    Reaction.INJECT: CountScope.STEP,
    Reaction.TERMINATE: CountScope.STEP,
    Reaction.REPLAN: CountScope.STAGE,
    Reaction.HANDOVER: CountScope.STAGE,
    Reaction.HALT: CountScope.UNBOUNDED,
    Reaction.ABORT: CountScope.UNBOUNDED,
    Reaction.ESCALATE: CountScope.UNBOUNDED,
    Reaction.SURFACE: CountScope.UNBOUNDED,
    Reaction.SAFE_FALLBACK: CountScope.UNBOUNDED,
}


class Rung(BaseModel):
    """One bounded option: the reaction, how often, and what goes with it. ``times`` None: unbounded, only as the last
    rung.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reaction: Reaction = Field(description="Reaction to the failure.")
    times: Annotated[int, Field(ge=1, le=20)] | None = declare_limit(
        None,
        "Times",
        Unit.TIMES,
        "The rung is used at most this often. None: any number of times, for the last rung only.",
        stops="the next step follows",
        source="docs/specification/decision-table.md",
    )
    with_: tuple[Accompaniment, ...] = Field(
        default=(), alias="with", description="Further effects that go with the reaction."
    )
    role: str = Field(default="reviewer", max_length=63, description="For escalate: the role that must answer.")
    critic: bool = Field(default=False, description="For replan: the planner reads each problem that the critic found.")
    poll: bool = Field(
        default=False,
        description="For escalate: the review is only about allowing one call. For any other cause the step is skipped; without an answer, the next step follows.",
    )

    @model_validator(mode="after")
    def _asks(self) -> Rung:
        if self.poll and (self.reaction is not Reaction.ESCALATE or self.times is None):
            raise ValueError("poll goes with escalate and times: it asks a person, and a rung follows it")
        return self

    @property
    def counted_per(self) -> CountScope:
        """Returns what its uses are counted against. A review about one agent's call is that step's."""
        return CountScope.STEP if self.poll else COUNTED_PER[self.reaction]


class Ladder(BaseModel):
    """A cell. Only the last rung is unbounded, so every ladder ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rungs: Annotated[tuple[Rung, ...], Field(min_length=1, max_length=8)] = Field(
        description="Reactions in order; each is tried when those before it are spent."
    )
    deviation: str = Field(
        default="",
        max_length=500,
        title="Reason for exception",
        description="The reason why this cell may be less strict than required.",
    )

    @model_validator(mode="after")
    def _ends(self) -> Ladder:
        if any(rung.times is None for rung in self.rungs[:-1]):
            raise ValueError("only the last rung may be unbounded: give times to the ones before it")
        if self.rungs[-1].times is not None:
            raise ValueError("the last rung must be unbounded, so that the ladder always ends: leave its times out")
        if self.rungs[-1].reaction in BOUNDED_ONLY:
            raise ValueError(f"{self.rungs[-1].reaction} does not end anything, so it cannot be the last rung")
        for rung in self.rungs:
            if rung.reaction in LAYERS_ONLY:
                raise ValueError(
                    f"{rung.reaction} is no rung of a cell: {COMMANDED_BY.get(rung.reaction, 'policy.retry_layers with preset fabro')} commands it"
                )
        return self


BOUNDED_ONLY = frozenset(
    {
        Reaction.RETRY,
        Reaction.INJECT,
        Reaction.REPLAN,
        Reaction.HANDOVER,
        Reaction.FALLBACK_MODEL,
        Reaction.CHEAPER_MODEL,
        Reaction.WAIT_FOR_BREAKER,
        Reaction.RETRY_NODE,
        Reaction.ACCEPT_PARTIAL,
        Reaction.ROUTE,
        Reaction.GO_BACK,
    }
)
"""Reactions after which the run goes on: never the last rung."""
LAYERS_ONLY = frozenset({Reaction.RETRY_NODE, Reaction.ACCEPT_PARTIAL, Reaction.ROUTE, Reaction.GO_BACK})
"""Reactions that a retry layer or a graph's rules alone command (``retry_layers.py``): no author writes them into a
cell.
"""


COMMANDED_BY = {
    Reaction.ROUTE: "a rule of a graph on how a turn ended",
    Reaction.GO_BACK: "a retry target of a graph",
}
"""The commander of each of them that no layer commands."""


def _rung(reaction: Reaction, times: int | None = None, *accompany: Accompaniment, **more: Any) -> Rung:
    return Rung.model_validate({"reaction": reaction, "times": times, "with": accompany, **more})


def _ladder(*rungs: Rung) -> Ladder:
    return Ladder(rungs=rungs)


_R, _A, _F, _T = Reaction, Accompaniment, FailureType, Tier

DEFAULT_TABLE: Mapping[tuple[FailureType, Tier], Ladder] = {
    (_F.TOOL_LOOP, _T.INTERACTIVE): _ladder(_rung(_R.INJECT, 1), _rung(_R.ESCALATE, 1, poll=True), _rung(_R.TERMINATE)),
    (_F.TOOL_LOOP, _T.BATCH): _ladder(
        _rung(_R.INJECT, 1), _rung(_R.ESCALATE, 1, poll=True), _rung(_R.REPLAN, 1), _rung(_R.ABORT)
    ),
    (_F.TOOL_LOOP, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE)),
    (_F.DEADLOCK, _T.INTERACTIVE): _ladder(_rung(_R.ABORT)),
    (_F.DEADLOCK, _T.BATCH): _ladder(_rung(_R.HANDOVER, 1), _rung(_R.ABORT)),
    (_F.DEADLOCK, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE)),
    (_F.COST_OVERRUN, _T.INTERACTIVE): _ladder(_rung(_R.ABORT)),
    (_F.COST_OVERRUN, _T.BATCH): _ladder(_rung(_R.CHEAPER_MODEL, 1, _A.ALERT), _rung(_R.ABORT)),
    (_F.COST_OVERRUN, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE, None, role="finance")),
    (_F.PROVIDER, _T.INTERACTIVE): _ladder(
        _rung(_R.RETRY, 2), _rung(_R.FALLBACK_MODEL, 1), _rung(_R.WAIT_FOR_BREAKER, 3), _rung(_R.SURFACE)
    ),
    (_F.PROVIDER, _T.BATCH): _ladder(_rung(_R.RETRY, 5), _rung(_R.WAIT_FOR_BREAKER, 2), _rung(_R.ESCALATE)),
    (_F.PROVIDER, _T.HIGH_STAKES): _ladder(_rung(_R.RETRY, 2), _rung(_R.ESCALATE)),
    (_F.SCHEMA_GROUNDING, _T.INTERACTIVE): _ladder(_rung(_R.RETRY, 1), _rung(_R.SURFACE)),
    (_F.SCHEMA_GROUNDING, _T.BATCH): _ladder(_rung(_R.REPLAN, 2), _rung(_R.ABORT)),
    (_F.SCHEMA_GROUNDING, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE, None, _A.BLOCK)),
    (_F.PLAN_MALFORMED, _T.INTERACTIVE): _ladder(_rung(_R.ABORT)),
    (_F.PLAN_MALFORMED, _T.BATCH): _ladder(_rung(_R.REPLAN, 2, critic=True), _rung(_R.ABORT)),
    (_F.PLAN_MALFORMED, _T.HIGH_STAKES): _ladder(_rung(_R.ABORT, None, _A.FOLLOW_UP)),
    (_F.NO_PROGRESS, _T.INTERACTIVE): _ladder(_rung(_R.TERMINATE)),
    (_F.NO_PROGRESS, _T.BATCH): _ladder(_rung(_R.REPLAN, 1), _rung(_R.ESCALATE)),
    (_F.NO_PROGRESS, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE)),
    (_F.UNSAFE_OUTPUT, _T.INTERACTIVE): _ladder(_rung(_R.SAFE_FALLBACK, None, _A.BLOCK)),
    (_F.UNSAFE_OUTPUT, _T.BATCH): _ladder(_rung(_R.HALT, None, _A.BLOCK)),
    (_F.UNSAFE_OUTPUT, _T.HIGH_STAKES): _ladder(_rung(_R.ESCALATE, None, _A.BLOCK, role="safety")),
}
"""The default table, cell by cell as docs/specification/decision-table.md has it."""

DIRECT: Mapping[tuple[Direct, Tier], Reaction] = {
    (Direct.ESCALATE, _T.INTERACTIVE): _R.ESCALATE,
    (Direct.ESCALATE, _T.BATCH): _R.ESCALATE,
    (Direct.ESCALATE, _T.HIGH_STAKES): _R.ESCALATE,
    (Direct.ABORT, _T.INTERACTIVE): _R.ABORT,
    (Direct.ABORT, _T.BATCH): _R.ABORT,
    (Direct.ABORT, _T.HIGH_STAKES): _R.ESCALATE,
    (Direct.NEUTRAL, _T.INTERACTIVE): _R.ESCALATE,
    (Direct.NEUTRAL, _T.BATCH): _R.ESCALATE,
    (Direct.NEUTRAL, _T.HIGH_STAKES): _R.ESCALATE,
}
"""The reaction to a trip without a row (docs/specification/failures.md), total. A cancelled call is no failure; handed
in as one it becomes a person's review.
"""

Table = Mapping[tuple[FailureType, Tier], Ladder]


def table_with(overrides: Mapping[FailureType, Mapping[Tier, Ladder]]) -> Table:
    """The default table with a fabric's own cells in place."""
    own = {(failure, tier): ladder for failure, tiers in overrides.items() for tier, ladder in tiers.items()}
    return {**DEFAULT_TABLE, **own}


def table_digest(table: Table) -> str:
    """128 bits in hex over all cells: the table version that a decision event names."""
    return fingerprint({f"{failure}/{tier}": table[failure, tier].model_dump(mode="json") for failure, tier in table})
