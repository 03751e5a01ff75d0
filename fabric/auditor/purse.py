"""The purse counts what a run has spent and reserved, by cap, apart from the ledger of the budget gate.

Money is micro-dollars. Budgets that runs share are no part of a journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core import events as ev
from fabric.core.spec.policies.budgets import AgentBudget, Budget

USD, TOKENS = "usd_micros", "tokens"
NOTHING_OWN = AgentBudget.model_construct()
"""The budget of an agent that its fabric does not name."""
Cap = tuple[str, str]
"""Scope (``run``, ``call``, ``stage:<name>``, ``agent:<name>``) and unit."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that a call which is out, or a child run that is alive, may still take."""

    amounts: dict[str, int]
    scopes: tuple[str, ...]
    model: str = ""
    """The model that is asked; empty: it is no call to a model."""


@dataclass(frozen=True, slots=True)
class CapPassed:
    """The first cap that a call would pass."""

    scope: str
    unit: str
    cap: int
    would_be: int


@dataclass(slots=True)
class Purse:
    """One run up to some event. ``note`` changes it in place."""

    held: dict[str, Reservation] = field(default_factory=dict)
    spent: Counter[Cap] = field(default_factory=Counter)
    raised: dict[Cap, int] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    """The reservation that its parent run made for it, by unit; empty: it has no parent."""
    policy: int | None = None
    """The most that the workspace's policy lets the run spend, micro-dollars."""
    surprises: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The dearest call of each model that was billed above its reservation, by model and unit."""

    def sum_used(self, scope: str, unit: str) -> int:
        """Return the sum of what is spent and reserved."""
        return self.spent[scope, unit] + sum(one.amounts[unit] for one in self.held.values() if scope in one.scopes)

    def find_passed_cap(self, budget: Budget, stage: str, agent: str, usd_micros: int, tokens: int) -> CapPassed | None:
        """Return the first cap that a call of this worst case would pass; None: it fits all."""
        worst = {USD: usd_micros, TOKENS: tokens}
        for scope, unit, cap in self._caps(budget, f"stage:{stage}", agent):
            would_be = worst[unit] + (0 if scope == "call" else self.sum_used(scope, unit))
            if would_be > cap:
                return CapPassed(scope, unit, cap, would_be)
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
    """Return the cap of an agent or stage, 0 too; else the one that all have."""
    return of_all if own is None else own


def note(purse: Purse, fact: ev.Fact) -> None:
    """Take one more fact in."""
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


def _record_call(purse: Purse, fact: ev.CallIssued) -> None:
    _hold(purse, fact, f"agent:{fact.agent}", model=fact.target if fact.call == "model" else "")


def _model_answered(purse: Purse, fact: ev.ModelAnswered) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, fact.input_tokens + fact.output_tokens)


def _child_answered(purse: Purse, fact: ev.ChildAnswered) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, fact.tokens)


def _tool_answered(purse: Purse, fact: ev.ToolAnswered | ev.InputRequested) -> None:
    _settle(purse, fact.command_id, fact.cost_usd_micros, 0)


def _record_charge(purse: Purse, fact: ev.AttemptFailed | ev.AttemptInterrupted | ev.CallAborted) -> None:
    _settle(purse, fact.command_id, fact.charged_usd_micros, fact.charged_tokens)


def _hold(purse: Purse, fact: Any, *more: str, model: str = "") -> None:
    stage = fact.step_id.partition(".")[0]
    amounts = {USD: fact.reserved_usd_micros, TOKENS: fact.reserved_tokens}
    purse.held[fact.command_id] = Reservation(amounts, ("run", f"stage:{stage}", *more), model)


def _settle(purse: Purse, command_id: str, usd_micros: int, tokens: int) -> None:
    """Settle a call once: one that was over before is not settled again."""
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
    "call_issued": _record_call,
    "child_spawned": _hold,
    "model_answered": _model_answered,
    "child_answered": _child_answered,
    "tool_answered": _tool_answered,
    "input_requested": _tool_answered,
    "attempt_failed": _record_charge,
    "attempt_interrupted": _record_charge,
    "call_aborted": _record_charge,
}
