"""Declares the caps of money and tokens of a run, its stages and its agents, and its spend rates.

A cap of one run has a name: its owner (the run, a stage, an agent) and its unit (money, tokens). Amounts are
micro-dollars or tokens. A fabric sets caps in its policy (``Budget``); the journal has those that a person raised in
one run (``budget_raised``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fabric.core.schema.limits import REQUIRED, Unit, declare_limit, declare_setting
from fabric.core.schema.parts import Micros, Name, Positive, SpecGroup
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value

_PAGE = "docs/specification/budgets.md"
_VELOCITY = "S0: Cost Velocity Monitoring"
_REFUSED = "a call that may need more is refused"
_TOO_FAST = "the next model call is refused, and the decision table decides"
Rate = Annotated[int, Field(ge=1, le=10**15)]


class AgentBudget(SpecGroup):
    """The caps of one agent; a cap that it leaves out is that of every agent."""

    usd_micros: Micros | None = declare_limit(
        None,
        "Money of this agent",
        Unit.USD,
        "This agent may spend at most this amount in a run.",
        stops=_REFUSED,
        source=_PAGE,
    )
    tokens: Positive | None = declare_limit(
        None,
        "Tokens of this agent",
        Unit.TOKENS,
        "This agent may use at most this many tokens in a run, input and output together.",
        stops=_REFUSED,
        source=_PAGE,
    )

    @model_validator(mode="after")
    def _caps_something(self) -> AgentBudget:
        if self.usd_micros is None and self.tokens is None:
            raise ValueError("caps nothing: give usd_micros or tokens, or leave the agent out")
        return self


class StageBudget(SpecGroup):
    """The caps of one stage; a cap that it leaves out is that of every stage."""

    usd_micros: Micros | None = declare_limit(
        None,
        "Money of this stage",
        Unit.USD,
        "This stage may spend at most this amount in a run.",
        stops=_REFUSED,
        source=_PAGE,
    )
    tokens: Positive | None = declare_limit(
        None,
        "Tokens of this stage",
        Unit.TOKENS,
        "This stage may use at most this many tokens in a run, input and output together.",
        stops=_REFUSED,
        source=_PAGE,
    )

    @model_validator(mode="after")
    def _caps_something(self) -> StageBudget:
        if self.usd_micros is None and self.tokens is None:
            raise ValueError("caps nothing: give usd_micros or tokens, or leave the stage out")
        return self


StageBudgets = dict[Stage, StageBudget]
"""By the stage's name."""
AgentBudgets = dict[Name, AgentBudget]
"""By the agent's name."""


class Budget(SpecGroup):
    """The caps of money and tokens. The money of a run is required and has no default."""

    run_usd_micros: Micros = declare_limit(
        REQUIRED,
        "Money of a run",
        Unit.USD,
        "A run may spend at most this amount.",
        stops=_REFUSED,
        source="S0: hard pre-execution budget gate",
    )
    call_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a call",
        Unit.USD,
        "A call may cost at most this amount in the worst case, which is reserved for it.",
        stops="a call that may cost more is refused",
        source=_PAGE,
    )
    stage_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a stage",
        Unit.USD,
        "Each stage of a run may spend at most this amount.",
        stops=_REFUSED,
        source=_PAGE,
    )
    agent_usd_micros: Micros | None = declare_limit(
        None,
        "Money of an agent",
        Unit.USD,
        "Each agent may spend at most this amount in a run.",
        stops=_REFUSED,
        source=_PAGE,
    )
    fabric_hour_usd_micros: Micros | None = declare_limit(
        None,
        "Money of the fabric, an hour",
        Unit.USD,
        "All runs of the fabric together may spend at most this amount in any hour.",
        stops="a call that may need more is refused, in every run of the fabric",
        source=_PAGE,
    )
    session_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a session",
        Unit.USD,
        "All runs of one session together may spend at most this amount. It must be no less than the cap of a run.",
        stops="a call that may need more is refused, in every run of the session",
        source=_PAGE,
    )
    session_tokens: Positive | None = declare_limit(
        None,
        "Tokens of a session",
        Unit.TOKENS,
        "All runs of one session together may use at most this many tokens, input and output. It needs run_tokens, and must be no less.",
        stops="a call that may need more is refused, in every run of the session",
        source=_PAGE,
    )
    run_tokens: Positive | None = declare_limit(
        None,
        "Tokens of a run",
        Unit.TOKENS,
        "A run may use at most this many tokens, input and output together.",
        stops=_REFUSED,
        source=_PAGE,
    )
    stage_tokens: Positive | None = declare_limit(
        None,
        "Tokens of a stage",
        Unit.TOKENS,
        "Each stage of a run may use at most this many tokens, input and output together.",
        stops=_REFUSED,
        source=_PAGE,
    )
    agent_tokens: Positive | None = declare_limit(
        None,
        "Tokens of an agent",
        Unit.TOKENS,
        "Each agent may use at most this many tokens in a run, input and output together.",
        stops=_REFUSED,
        source=_PAGE,
    )
    agents: AgentBudgets = declare_setting(
        {},
        "Caps of single agents",
        "Caps of agents by name; for those agents they replace agent_usd_micros and agent_tokens.",
        source=_PAGE,
    )
    stages: StageBudgets = declare_setting(
        {},
        "Caps of single stages",
        "Caps of stages by name; for those stages they replace stage_usd_micros and stage_tokens.",
        source=_PAGE,
    )

    @model_validator(mode="after")
    def _a_session_has_room_for_a_run(self) -> Budget:
        # So a run that is a session of its own is held to it by its own cap, its children with it.
        if self.session_usd_micros is not None and self.session_usd_micros < self.run_usd_micros:
            raise ValueError("session_usd_micros is less than run_usd_micros: give one run no more than its session")
        if self.session_tokens is not None and (self.run_tokens is None or self.session_tokens < self.run_tokens):
            raise ValueError(
                "session_tokens needs run_tokens, and no less than it: give one run no more than its session"
            )
        return self


class CostVelocity(SpecGroup):
    """Spend rates that are too fast (S0 "Cost Velocity Monitoring")."""

    usd_micros_per_minute: Rate | None = declare_limit(
        None,
        "Spend rate",
        Unit.USD_A_MINUTE,
        "A run may spend at most this amount in a minute.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    agent_usd_micros_per_minute: Rate | None = declare_limit(
        None,
        "Spend rate of an agent",
        Unit.USD_A_MINUTE,
        "Each agent of a run may spend at most this amount in a minute.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    stage_usd_micros_per_minute: Rate | None = declare_limit(
        None,
        "Spend rate of a stage",
        Unit.USD_A_MINUTE,
        "Each stage of a run may spend at most this amount in a minute.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    tokens_per_minute: Rate | None = declare_limit(
        None,
        "Tokens in a minute",
        Unit.TOKENS_A_MINUTE,
        "A run may use at most this many tokens in a minute, input and output together.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    times_usual: Annotated[float, Field(ge=0.0, le=1_000.0)] = declare_limit(
        10.0,
        "Multiple of the usual rate",
        Unit.TIMES,
        "Where no rate is configured, a run may spend in a minute at most this many times the fabric's usual rate. 0: a run is not compared with the usual rate.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    calls: Annotated[int, Field(ge=1)] = declare_limit(
        5,
        "Calls before a run is compared",
        Unit.CALLS,
        "A run is compared with the usual rate only after this many of its model calls came back.",
        stops="the run's rate is compared from then on",
        source=_VELOCITY,
    )
    factor: Annotated[float, Field(ge=0.0, le=1_000.0)] = declare_limit(
        3.0,
        "Multiple of the hour's even pace",
        Unit.TIMES,
        "All runs of the fabric together may spend at most this many times the even pace of its hourly cap. 0: the program watches no spend rate.",
        stops=_TOO_FAST,
        source=_VELOCITY,
    )
    within_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = declare_limit(
        600.0,
        "Warning time of the hourly cap",
        Unit.SECONDS,
        "All runs together count as too fast only if they would spend the rest of the hourly cap within this time.",
        stops="a fast pace is allowed if the rest would last longer",
        source=_VELOCITY,
    )


CapUnit = Literal["usd_micros", "tokens"]
RUN, STAGE, AGENT = "run", "stage", "agent"
"""A cap is a run's, a stage's or an agent's: the part of a scope before its colon."""


@value()
class NamedCap:
    """One cap. ``scope``: ``run``, ``stage:<name>`` or ``agent:<name>``."""

    scope: str
    unit: CapUnit
    cap: int

    @property
    def key(self) -> str:
        """Its name among a run's caps."""
        return cap_key(self.scope, self.unit)


def cap_key(scope: str, unit: CapUnit) -> str:
    """The name of a cap among a run's caps."""
    return f"{scope} {unit}"


FIELDS: Mapping[tuple[str, str], str] = MappingProxyType(
    {(whose, unit): f"{whose}_{unit}" for whose in (RUN, STAGE, AGENT) for unit in ("usd_micros", "tokens")}
)
"""The policy's field of each cap, by whose and of what; each is one of ``policy.Budget``, by test. An agent may have
one of its own (``agents``).
"""


CAPS_KEPT = 1_024
"""Pairs of a scope and a unit that are cached. Every call of a run is judged by the same few."""


def fabrics_cap(budget: Budget, scope: str, unit: CapUnit) -> int | None:
    """The fabric's cap for a run, a stage or an agent; None: it has none. A cap by name beats the cap for all."""
    whose, name, field = _read_cap(scope, unit)
    named_ones: Mapping[Any, AgentBudget | StageBudget] = budget.agents if whose == AGENT else budget.stages
    own = named_ones.get(name) if named_ones and whose in (AGENT, STAGE) else None
    named: int | None = None if own is None else getattr(own, unit)
    if named is not None:
        return named
    given: int | None = None if field is None else getattr(budget, field)
    return given


@lru_cache(maxsize=CAPS_KEPT)
def _read_cap(scope: str, unit: CapUnit) -> tuple[str, str, str | None]:
    """Return the owner's kind and name of a scope, and the policy's field of the cap; None: there is none."""
    whose, _, name = scope.partition(":")
    return whose, name, FIELDS.get((whose, unit))


def cap_words(scope: str) -> str:
    """``stage:fan_out`` as ``stage fan_out``, ``run`` as ``the run``."""
    return "the run" if scope == RUN else scope.replace(":", " ", 1)


def amount_words(amount: int, unit: str) -> str:
    """An amount as a sentence has it."""
    if not amount:
        return "nothing"
    if unit != "usd_micros":
        return f"{amount:,} tokens"
    dollars, dot, rest = f"${amount / 1_000_000:,.6f}".partition(".")
    return dollars + dot + rest.rstrip("0").ljust(2, "0")
