"""What a run has spent and holds reserved, by cap, counted anew from its facts: beside the ledger of the budget gate, so that the two can disagree.

Money is micro-dollars. Budgets that runs share are no part of a journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.agent_budgets import AgentBudget
from fabric.core.policy import Budget

USD, TOKENS = "usd_micros", "tokens"
NOTHING_OWN = AgentBudget.model_construct()
"""Of an agent that its fabric does not name."""
Cap = tuple[str, str]
"""Scope (``run``, ``call``, ``stage:<name>``, ``agent:<name>``) and unit."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a call that is out, or a child that lives, may still take."""

    amounts: dict[str, int]
    scopes: tuple[str, ...]
    model: str = ""
    """Of a model call: who is asked."""


@dataclass(frozen=True, slots=True)
class Over:
    """The first cap that a call does not fit."""

    scope: str
    unit: str
    cap: int
    would_be: int


@dataclass(slots=True)
class Purse:
    """One run up to some event. Changed in place by ``noted``."""

    held: dict[str, Held] = field(default_factory=dict)
    spent: Counter[Cap] = field(default_factory=Counter)
    raised: dict[Cap, int] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    """Of a child: what its parent reserved for it, by unit."""
    policy: int | None = None
    """The most that the workspace's policy lets the run spend, micro-dollars."""
    surprises: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By model and unit: the dearest of its calls that were billed above their reservations."""

    def used(self, scope: str, unit: str) -> int:
        """Spent and reserved."""
        return self.spent[scope, unit] + sum(one.amounts[unit] for one in self.held.values() if scope in one.scopes)

    def over(self, budget: Budget, stage: str, agent: str, usd_micros: int, tokens: int) -> Over | None:
        """The first cap that a call of this worst case would pass; None: it fits them all."""
        worst = {USD: usd_micros, TOKENS: tokens}
        for scope, unit, cap in self._caps(budget, f"stage:{stage}", agent):
            would_be = worst[unit] + (0 if scope == "call" else self.used(scope, unit))
            if would_be > cap:
                return Over(scope, unit, cap, would_be)
        return None

    def _caps(self, budget: Budget, stage: str, agent: str) -> Iterator[tuple[str, str, int]]:
        own, whose = budget.agents.get(agent, NOTHING_OWN), f"agent:{agent}"
        of_stage = {str(name): one for name, one in budget.stages.items()}.get(stage.partition(":")[2], NOTHING_OWN)
        told: tuple[tuple[str, str, int | None], ...] = (
            ("run", USD, budget.run_usd_micros),
            ("call", USD, budget.call_usd_micros),
            (stage, USD, _first(of_stage.usd_micros, budget.stage_usd_micros)),
            (whose, USD, _first(own.usd_micros, budget.agent_usd_micros)),
            ("run", TOKENS, budget.run_tokens),
            (stage, TOKENS, _first(of_stage.tokens, budget.stage_tokens)),
            (whose, TOKENS, _first(own.tokens, budget.agent_tokens)),
        )
        for scope, unit, set_ in told:
            caps = [self.raised.get((scope, unit), set_), self.given.get(unit) if scope == "run" else None]
            caps.append(self.policy if (scope, unit) == ("run", USD) else None)
            known = [one for one in caps if one is not None]
            if known:
                yield scope, unit, min(known)


def _first(own: int | None, of_all: int | None) -> int | None:
    """A cap of an agent's or stage's own, 0 too, before the one that all have."""
    return of_all if own is None else own


def noted(purse: Purse, fact: ev.Fact) -> None:
    """Takes one more fact in."""
    act = TAKES.get(fact.kind)
    if act is not None:
        act(purse, fact)


def _lineage(purse: Purse, fact: ev.LineagePinned) -> None:
    purse.given = {USD: fact.cap_usd_micros}
    if fact.cap_tokens is not None:
        purse.given[TOKENS] = fact.cap_tokens


def _policy_taken_up(purse: Purse, fact: ev.PolicyTakenUp) -> None:
    purse.policy = fact.run_usd_micros


def _cap_raised(purse: Purse, fact: ev.CapRaised) -> None:
    purse.raised["run", USD] = fact.cap_usd_micros


def _budget_raised(purse: Purse, fact: ev.BudgetRaised) -> None:
    purse.raised[fact.scope, fact.unit] = fact.cap


def _issued(purse: Purse, fact: ev.CallIssued) -> None:
    _hold(purse, fact, f"agent:{fact.agent}", model=fact.target if fact.call == "model" else "")


def _model_answered(purse: Purse, fact: ev.ModelAnswered) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, fact.input_tokens + fact.output_tokens)


def _child_answered(purse: Purse, fact: ev.ChildAnswered) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, fact.tokens)


def _tool_answered(purse: Purse, fact: ev.ToolAnswered | ev.InputRequested) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, 0)


def _charged(purse: Purse, fact: ev.AttemptFailed | ev.AttemptInterrupted | ev.CallAborted) -> None:
    _settle(purse, fact.command_id, fact.charged_usd_micros, fact.charged_tokens)


def _hold(purse: Purse, fact: Any, *more: str, model: str = "") -> None:
    stage = fact.step_id.partition(".")[0]
    amounts = {USD: fact.reserved_usd_micros, TOKENS: fact.reserved_tokens}
    purse.held[fact.command_id] = Held(amounts, ("run", f"stage:{stage}", *more), model)


def _settle(purse: Purse, command_id: str, usd_micros: int, tokens: int) -> None:
    """What was over before is not settled again."""
    held = purse.held.pop(command_id, None)
    if held is None:
        return
    for unit, amount in ((USD, usd_micros), (TOKENS, tokens)):
        if held.model and amount > held.amounts[unit]:
            purse.surprises[held.model, unit] = max(purse.surprises[held.model, unit], amount)
    for scope in held.scopes:
        purse.spent[scope, USD] += usd_micros
        purse.spent[scope, TOKENS] += tokens


TAKES: Mapping[str, Callable[[Purse, Any], None]] = {
    "lineage_pinned": _lineage,
    "policy_taken_up": _policy_taken_up,
    "cap_raised": _cap_raised,
    "budget_raised": _budget_raised,
    "call_issued": _issued,
    "child_spawned": _hold,
    "model_answered": _model_answered,
    "child_answered": _child_answered,
    "tool_answered": _tool_answered,
    "input_requested": _tool_answered,
    "attempt_failed": _charged,
    "attempt_interrupted": _charged,
    "call_aborted": _charged,
}
