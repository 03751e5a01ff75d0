"""Hard pre-execution budget gate: a call goes out only if its worst case fits every cap it falls under (S0 "Retry Budget With Backoff").

Stops: spending past a cap, by any number of concurrent calls, because each is reserved at its worst case before it is issued and settled when its
result is journaled; an unknown outcome is settled at the worst case. Money is micro-dollars. Does not stop: an endpoint that bills more than
the reservation; the overrun is recorded and the next call is refused. Scopes that cross runs are not its business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.frozen import replace, value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import Budget as Config
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "budget"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool"})
OBSERVES: frozenset[str] = frozenset(
    {"call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted"}
)


@value()
class Reservation:
    """What one call in flight may still cost."""

    usd_micros: int
    tokens: int
    stage: str
    agent: str


@value()
class State:
    """The run's ledger: what was spent, what is reserved."""

    spent_usd_micros: int = 0
    spent_tokens: int = 0
    overrun_usd_micros: int = 0
    """What calls cost above their reservations, altogether."""
    reserved: Mapping[str, Reservation] = field(default_factory=dict)
    """By command id."""
    by_stage: Mapping[str, int] = field(default_factory=dict)
    by_agent: Mapping[str, int] = field(default_factory=dict)


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.budget


def observe(state: State, event: Event) -> State:
    """Reserves at the intent, settles at whatever ended the attempt."""
    fact: Any = event.fact
    if fact.kind == "call_issued":
        stage = fact.step_id.partition(".")[0]
        held = Reservation(fact.reserved_usd_micros, fact.reserved_tokens, stage, fact.agent)
        return replace(state, reserved={**state.reserved, fact.command_id: held})
    held_or_none = state.reserved.get(fact.command_id)
    if held_or_none is None:
        return state
    reserved = {key: value for key, value in state.reserved.items() if key != fact.command_id}
    cost, tokens = _actual(fact)
    return _settled(replace(state, reserved=reserved), held_or_none, cost, tokens)


def _actual(fact: Any) -> tuple[int, int]:
    if fact.kind == "model_answered":
        return fact.cost_usd_micros, fact.input_tokens + fact.output_tokens
    if fact.kind == "tool_answered":
        return 0, 0
    return fact.charged_usd_micros, fact.charged_tokens


def _settled(state: State, held: Reservation, cost: int, tokens: int) -> State:
    return replace(
        state,
        spent_usd_micros=state.spent_usd_micros + cost,
        spent_tokens=state.spent_tokens + tokens,
        overrun_usd_micros=state.overrun_usd_micros + max(0, cost - held.usd_micros),
        by_stage={**state.by_stage, held.stage: state.by_stage.get(held.stage, 0) + cost},
        by_agent={**state.by_agent, held.agent: state.by_agent.get(held.agent, 0) + cost},
    )


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses a call without a price, and one whose worst case does not fit."""
    if proposal.worst_usd_micros is None:
        message = f"model {proposal.target} has no price, so its cost cannot be bounded; give it one in the fabric"
        return Trip(NAME, Cause.PRICE_MISSING, Evidence(scope=f"model:{proposal.target}"), message)
    for scope, cap, used, unit, worst in _scopes(config, state, proposal):
        if used + worst > cap:
            message = (
                f"{scope} budget: the next call may take {_amount(worst, unit)}, "
                f"but {_amount(max(0, cap - used), unit)} of {_amount(cap, unit)} is left"
            )
            details: dict[str, Any] = {"worst_case": worst, "target": proposal.target}
            return Trip(NAME, Cause.BUDGET_GATE, Evidence(cap, used + worst, unit, scope, details=details), message)
    return PASS


def _scopes(config: Config, state: State, proposal: Proposal) -> Iterator[tuple[str, int, int, str, int]]:
    """``(scope, cap, used and reserved, unit, worst case)`` for each cap that is set."""
    worst = proposal.worst_usd_micros or 0
    held = state.reserved.values()
    yield "run", config.run_usd_micros, state.spent_usd_micros + sum(h.usd_micros for h in held), "usd_micros", worst
    if config.call_usd_micros is not None:
        yield "call", config.call_usd_micros, 0, "usd_micros", worst
    if config.stage_usd_micros is not None:
        used = state.by_stage.get(proposal.stage, 0) + sum(h.usd_micros for h in held if h.stage == proposal.stage)
        yield f"stage:{proposal.stage}", config.stage_usd_micros, used, "usd_micros", worst
    if config.agent_usd_micros is not None:
        used = state.by_agent.get(proposal.agent, 0) + sum(h.usd_micros for h in held if h.agent == proposal.agent)
        yield f"agent:{proposal.agent}", config.agent_usd_micros, used, "usd_micros", worst
    if config.run_tokens is not None:
        used = state.spent_tokens + sum(h.tokens for h in held)
        yield "run", config.run_tokens, used, "tokens", proposal.worst_tokens


def _amount(value: int, unit: str) -> str:
    return f"${value / 1_000_000:.6f}" if unit == "usd_micros" else f"{value:,} tokens"
