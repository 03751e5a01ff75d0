"""Caps of one run by name: whose (the run, a stage, an agent), of what (money, tokens), and how they are said.

Amounts are micro-dollars or tokens. Which caps a fabric sets is its policy's (``policy.Budget``); what a person made of them in one run is the
journal's (``budget_raised``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from fabric.core.frozen import value

if TYPE_CHECKING:
    from fabric.core.agent_budgets import AgentBudget, StageBudget
    from fabric.core.policy import Budget

CapUnit = Literal["usd_micros", "tokens"]
RUN, STAGE, AGENT = "run", "stage", "agent"
"""Whose a cap may be: what stands before a scope's colon."""


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
"""The policy's field of each cap, by whose and of what; each is one of ``policy.Budget``, by test. An agent may have one of its own (``agents``)."""


def fabrics_cap(budget: Budget, scope: str, unit: CapUnit) -> int | None:
    """The fabric's cap for a run, a stage or an agent; None: it has none. A cap by name beats the cap for all."""
    whose, _, name = scope.partition(":")
    named_ones: Mapping[Any, AgentBudget | StageBudget] = budget.agents if whose == AGENT else budget.stages
    own = named_ones.get(name) if named_ones and whose in (AGENT, STAGE) else None
    named: int | None = None if own is None else getattr(own, unit)
    if named is not None:
        return named
    field = FIELDS.get((whose, unit))
    given: int | None = None if field is None else getattr(budget, field)
    return given


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
