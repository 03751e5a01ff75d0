"""Hard pre-execution budget gate: a call goes out only if its worst case fits every cap it falls under (S0 "Retry Budget With Backoff").

Stops: spending past a cap, by any number of concurrent calls, because each is reserved at its worst case before it is issued and settled when its
result is journaled; an unknown outcome is settled at the worst case. Money is micro-dollars. Does not stop: an endpoint that bills more than
the reservation; the overrun is recorded and the next call is refused. Scopes that cross runs (fabric-hour, session, workspace) are asked for
(``core/grants.py``), after the run's own have passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.frozen import replace, value
from fabric.core.grants import FABRIC, SESSION, WORKSPACE, Refusal
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
    | {"lineage_pinned", "cap_raised", "child_spawned", "child_answered", "run_ended"}
)


@value()
class Reservation:
    """What one call in flight, or one living child, may still cost."""

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
    cap_usd_micros: int | None = None
    """Of a child: what its parent reserved for it."""
    cap_tokens: int | None = None
    raised_usd_micros: int | None = None
    """What a person raised the run's cap to."""


def shared_caps(config: Config) -> Mapping[str, int | None]:
    """The caps that cross runs, by the kind of their scope."""
    return {FABRIC: config.fabric_hour_usd_micros, SESSION: config.session_usd_micros}


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.budget


def observe(state: State, event: Event) -> State:
    """Reserves at the intent, settles at whatever ended the attempt."""
    fact: Any = event.fact
    if fact.kind == "lineage_pinned":
        return replace(state, cap_usd_micros=fact.cap_usd_micros, cap_tokens=fact.cap_tokens)
    if fact.kind == "cap_raised":
        return replace(state, raised_usd_micros=fact.cap_usd_micros)
    if fact.kind == "child_spawned":
        stage = fact.step_id.partition(".")[0]
        held = Reservation(fact.reserved_usd_micros, fact.reserved_tokens, stage, "")
        return replace(state, reserved={**state.reserved, fact.command_id: held})
    if fact.kind == "call_issued":
        stage = fact.step_id.partition(".")[0]
        held = Reservation(fact.reserved_usd_micros, fact.reserved_tokens, stage, fact.agent)
        return replace(state, reserved={**state.reserved, fact.command_id: held})
    if fact.kind == "run_ended":  # What is still out then nobody settles: it ended where it stood.
        for held in state.reserved.values():
            state = _settled(state, held, held.usd_micros, held.tokens)
        return replace(state, reserved={}) if state.reserved else state
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
    if fact.kind == "child_answered":
        return fact.cost_usd_micros, fact.tokens
    return fact.charged_usd_micros, fact.charged_tokens


def _settled(state: State, held: Reservation, cost: int, tokens: int) -> State:
    return replace(
        state,
        spent_usd_micros=state.spent_usd_micros + cost,
        spent_tokens=state.spent_tokens + tokens,
        overrun_usd_micros=state.overrun_usd_micros + max(0, cost - held.usd_micros),
        by_stage={**state.by_stage, held.stage: state.by_stage.get(held.stage, 0) + cost},
        by_agent={**state.by_agent, held.agent: state.by_agent.get(held.agent, 0) + cost}
        if held.agent
        else state.by_agent,
    )


def cap(config: Config, state: State) -> int:
    """Micro-dollars that the run may spend: its fabric's cap or what a person raised it to, or its parent's reservation where that is less."""
    own = config.run_usd_micros if state.raised_usd_micros is None else state.raised_usd_micros
    return own if state.cap_usd_micros is None else min(own, state.cap_usd_micros)


def _token_cap(config: Config, state: State) -> int | None:
    caps = [most for most in (config.run_tokens, state.cap_tokens) if most is not None]
    return min(caps) if caps else None


def left(config: Config, state: State, stage: str) -> tuple[int, int | None]:
    """Micro-dollars and tokens that nothing in the run has been spent on or reserved for; no token cap: None."""
    held = state.reserved.values()
    usd = cap(config, state) - state.spent_usd_micros - sum(h.usd_micros for h in held)
    if config.stage_usd_micros is not None:
        used = state.by_stage.get(stage, 0) + sum(h.usd_micros for h in held if h.stage == stage)
        usd = min(usd, config.stage_usd_micros - used)
    most = _token_cap(config, state)
    tokens = None if most is None else most - state.spent_tokens - sum(h.tokens for h in held)
    return usd, tokens


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
    worst_usd, shares = proposal.worst_usd_micros, view.shares
    refused = shares.refusal(worst_usd) if shares is not None and worst_usd else None
    return PASS if refused is None else _not_granted(refused, proposal)


SHARED: Mapping[str, str] = {
    FABRIC: "what this fabric may spend in an hour",
    SESSION: "what this session may spend",
    WORKSPACE: "what this workspace may spend",
}
"""Shared budgets in words, by the kind of their scope; total by test."""


def _not_granted(refused: Refusal, proposal: Proposal) -> Trip:
    """A shared budget will not give it; where that stood is copied into the evidence, since it moves on."""
    worst = proposal.worst_usd_micros or 0
    kind, used = refused.scope.partition(":")[0], refused.spent + refused.granted
    details: dict[str, Any] = {"worst_case": worst, "target": proposal.target, "budget": refused.scope}
    details |= {"spent": refused.spent, "granted": refused.granted, "asked_at": refused.asked_at}
    message = (
        f"{SHARED[kind]}: the next call may take {_amount(worst, 'usd_micros')}, but {_amount(max(0, refused.cap - used), 'usd_micros')} of "
        f"{_amount(refused.cap, 'usd_micros')} is left (spent {_amount(refused.spent, 'usd_micros')}, held by workers "
        f"{_amount(refused.granted, 'usd_micros')})"
    )
    window = "1 h" if refused.hourly else ""
    evidence = Evidence(refused.cap, used + worst, "usd_micros", kind, window, details)
    return Trip(NAME, Cause.BUDGET_GATE, evidence, message)


def _scopes(config: Config, state: State, proposal: Proposal) -> Iterator[tuple[str, int, int, str, int]]:
    """``(scope, cap, used and reserved, unit, worst case)`` for each cap that is set."""
    worst = proposal.worst_usd_micros or 0
    held = state.reserved.values()
    yield "run", cap(config, state), state.spent_usd_micros + sum(h.usd_micros for h in held), "usd_micros", worst
    if config.call_usd_micros is not None:
        yield "call", config.call_usd_micros, 0, "usd_micros", worst
    if config.stage_usd_micros is not None:
        used = state.by_stage.get(proposal.stage, 0) + sum(h.usd_micros for h in held if h.stage == proposal.stage)
        yield f"stage:{proposal.stage}", config.stage_usd_micros, used, "usd_micros", worst
    if config.agent_usd_micros is not None:
        used = state.by_agent.get(proposal.agent, 0) + sum(h.usd_micros for h in held if h.agent == proposal.agent)
        yield f"agent:{proposal.agent}", config.agent_usd_micros, used, "usd_micros", worst
    tokens = _token_cap(config, state)
    if tokens is not None:
        used = state.spent_tokens + sum(h.tokens for h in held)
        yield "run", tokens, used, "tokens", proposal.worst_tokens


def _amount(value: int, unit: str) -> str:
    return f"${value / 1_000_000:.6f}" if unit == "usd_micros" else f"{value:,} tokens"
