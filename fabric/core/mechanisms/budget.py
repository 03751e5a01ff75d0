"""Lets a call go out only if its worst case fits every cap (S0 "Retry Budget With Backoff").

Stops: spending past a cap, by any number of concurrent calls, because each is reserved at its worst case before it is
issued and settled when its result is journaled; an unknown outcome is settled at the worst case. Money is
micro-dollars. An endpoint can bill above a reservation once: from then on each call of that model is reserved at its
dearest such bill. Scopes that cross runs (fabric-hour, session, workspace) are requested (``core/budgets/grants.py``)
after the run's own caps have passed.
Does not stop: that first bill, and calls that are out with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fabric.core.budgets.grants import (
    FABRIC,
    NEVER,
    SESSION,
    SESSION_TOKENS,
    WORKSPACE,
    BilledAbove,
    Refusal,
    Shares,
    find_unit,
)
from fabric.core.budgets.key_caps import KEY_DAY, KEY_MONTH, KINDS
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.budgets import AGENT, RUN, STAGE, CapUnit, amount_words, cap_key, fabrics_cap
from fabric.core.spec.policies.budgets import Budget as Config
from fabric.core.values.frozen import replace, value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "budget"
TITLE = "Budget gate"
STOPS = "calls whose worst case no longer fits under a cap"
PAGE = "docs/specification/budgets.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ("budget",)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool"})
OBSERVES: frozenset[str] = frozenset(
    {"call_issued", "model_answered", "tool_answered", "attempt_failed", "attempt_interrupted", "call_aborted"}
    | {
        "input_requested",
        "lineage_pinned",
        "cap_raised",
        "budget_raised",
        "policy_taken_up",
        "child_spawned",
        "child_answered",
        "run_ended",
    }
)


@value()
class Reservation:
    """The amount that one call in flight, or one living child, may still cost."""

    usd_micros: int
    tokens: int
    stage: str
    agent: str
    model: str = ""
    """Model that the call goes to; "" for a tool call or a child."""


@value()
class State:
    """The run's ledger: spent and reserved amounts."""

    spent_usd_micros: int = 0
    spent_tokens: int = 0
    overrun_usd_micros: int = 0
    """Sum that calls cost above their reservations."""
    reserved: Mapping[str, Reservation] = field(default_factory=dict)
    """Reservations by command id."""
    by_stage: Mapping[str, int] = field(default_factory=dict)
    by_agent: Mapping[str, int] = field(default_factory=dict)
    by_model: Mapping[str, int] = field(default_factory=dict)
    unconfirmed_usd_micros: int = 0
    """Part of the spending that no bill confirms: charged at the worst case."""
    cap_usd_micros: int | None = None
    """Micro-dollars that the parent reserved for this run; None: the run is no child."""
    cap_tokens: int | None = None
    raised_usd_micros: int | None = None
    """The run's cap as a person raised it; None: not raised."""
    policy_usd_micros: int | None = None
    """The most that the workspace's policy lets the run spend."""
    tokens_by_stage: Mapping[str, int] = field(default_factory=dict)
    tokens_by_agent: Mapping[str, int] = field(default_factory=dict)
    raised: Mapping[str, int] = field(default_factory=dict)
    """Other caps that a person raised, by ``budgets.cap_key``."""
    surprises: Mapping[str, BilledAbove] = field(default_factory=dict)
    """The dearest bill above a reservation of each model."""


def shared_caps(config: Config) -> Mapping[str, int | None]:
    """Return the caps that cross runs, by the kind of their scope."""
    return {
        FABRIC: config.fabric_hour_usd_micros,
        SESSION: config.session_usd_micros,
        SESSION_TOKENS: config.session_tokens,
    }


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.budget


def observe(state: State, event: Event) -> State:
    """Reserve the worst case at the intent, and settle it when the attempt ends."""
    fact: Any = event.fact
    if fact.kind == "lineage_pinned":
        return replace(state, cap_usd_micros=fact.cap_usd_micros, cap_tokens=fact.cap_tokens)
    if fact.kind == "cap_raised":
        return replace(state, raised_usd_micros=fact.cap_usd_micros)
    if fact.kind == "policy_taken_up":
        return replace(state, policy_usd_micros=fact.run_usd_micros)
    if fact.kind == "budget_raised":
        return replace(state, raised={**state.raised, cap_key(fact.scope, fact.unit): fact.cap})
    if fact.kind == "child_spawned":
        stage = fact.step_id.partition(".")[0]
        held = Reservation(fact.reserved_usd_micros, fact.reserved_tokens, stage, "")
        return replace(state, reserved={**state.reserved, fact.command_id: held})
    if fact.kind == "call_issued":
        stage = fact.step_id.partition(".")[0]
        model = fact.target if fact.call == "model" else ""
        held = Reservation(fact.reserved_usd_micros, fact.reserved_tokens, stage, fact.agent, model)
        return replace(state, reserved={**state.reserved, fact.command_id: held})
    if fact.kind == "run_ended":
        return close_ledger(state)
    held_or_none = state.reserved.get(fact.command_id)
    if held_or_none is None:
        return state
    reserved = {key: value for key, value in state.reserved.items() if key != fact.command_id}
    return _settle_reservation(replace(state, reserved=reserved), held_or_none, *_actual(fact))


def close_ledger(state: State) -> State:
    """Return the ledger of a run that ends: reservations that are still open are charged at their worst case."""
    for held in state.reserved.values():
        state = _settle_reservation(state, held, held.usd_micros, held.tokens, held.usd_micros)
    return replace(state, reserved={}) if state.reserved else state


def _actual(fact: Any) -> tuple[int, int, int]:
    """Return cost, tokens, and the part of the cost that no bill confirms."""
    if fact.kind == "model_answered":
        return fact.cost_usd_micros, fact.input_tokens + fact.output_tokens, 0
    if fact.kind in ("tool_answered", "input_requested"):
        return fact.cost_usd_micros, 0, 0
    if fact.kind == "child_answered":
        return fact.cost_usd_micros, fact.tokens, 0
    charged = fact.charged_usd_micros
    billed = fact.kind == "attempt_failed" and fact.billed
    return charged, fact.charged_tokens, 0 if billed else charged


def _settle_reservation(state: State, held: Reservation, cost: int, tokens: int, unconfirmed: int) -> State:
    return replace(
        state,
        unconfirmed_usd_micros=state.unconfirmed_usd_micros + unconfirmed,
        surprises=_note_surprise(state.surprises, held, cost, tokens),
        spent_usd_micros=state.spent_usd_micros + cost,
        spent_tokens=state.spent_tokens + tokens,
        overrun_usd_micros=state.overrun_usd_micros + max(0, cost - held.usd_micros),
        by_stage=_plus(state.by_stage, held.stage, cost),
        by_agent=_plus(state.by_agent, held.agent, cost) if held.agent else state.by_agent,
        by_model={**state.by_model, held.model: state.by_model.get(held.model, 0) + cost}
        if held.model
        else state.by_model,
        tokens_by_stage=_plus(state.tokens_by_stage, held.stage, tokens),
        tokens_by_agent=_plus(state.tokens_by_agent, held.agent, tokens) if held.agent else state.tokens_by_agent,
    )


def _note_surprise(
    known: Mapping[str, BilledAbove], held: Reservation, cost: int, tokens: int
) -> Mapping[str, BilledAbove]:
    found = billed_above(held.usd_micros, held.tokens, cost, tokens) if held.model else NEVER
    if found is NEVER:
        return known
    return {**known, held.model: known.get(held.model, NEVER).with_dearer(found)}


def billed_above(reserved_usd: int, reserved_tokens: int, usd: int, tokens: int) -> BilledAbove:
    """Return the bill of a call in each unit that exceeded its reservation; ``NEVER`` if none did."""
    if usd <= reserved_usd and tokens <= reserved_tokens:
        return NEVER
    money = (usd, reserved_usd) if usd > reserved_usd else (0, 0)
    counted = (tokens, reserved_tokens) if tokens > reserved_tokens else (0, 0)
    return BilledAbove(money[0], counted[0], money[1], counted[1])


def dearest(state: State, model: str, shares: Shares | None, now: int) -> BilledAbove:
    """Return the dearest recent bill of a model above a reservation, in this run or in runs that share limits. Each
    further call of the model reserves at least that.
    """
    here = state.surprises.get(model, NEVER) if state.surprises else NEVER
    known = NEVER if shares is None else shares.lately.dearest(model, now)
    return here if known is NEVER else here.with_dearer(known)


def _plus(sums: Mapping[str, int], name: str, more: int) -> Mapping[str, int]:
    return {**sums, name: sums.get(name, 0) + more}


def cap(config: Config, state: State) -> int:
    """Return the micro-dollars that the run may spend: its fabric's cap or the cap that a person set. Its parent's
    reservation and the workspace's policy lower both.
    """
    own = config.run_usd_micros if state.raised_usd_micros is None else state.raised_usd_micros
    if state.policy_usd_micros is not None:
        own = min(own, state.policy_usd_micros)
    return own if state.cap_usd_micros is None else min(own, state.cap_usd_micros)


def cap_in_force(config: Config, state: State, scope: str, unit: CapUnit) -> int | None:
    """Return the cap of the run, a stage or an agent in this run; None: no cap. A cap raised by a person replaces
    the fabric's; the parent's reservation bounds both.
    """
    if scope == RUN and unit == "usd_micros":
        return cap(config, state)
    raised = state.raised.get(cap_key(scope, unit)) if state.raised else None
    own = fabrics_cap(config, scope, unit) if raised is None else raised
    given = state.cap_tokens if scope == RUN else None
    return own if given is None else given if own is None else min(own, given)


def used_amount(state: State, scope: str, unit: CapUnit) -> int:
    """Return the amount that the run, a stage or an agent has spent and reserved."""
    kind, _, name = scope.partition(":")
    tokens = unit == "tokens"
    held = 0
    for one in state.reserved.values():
        if kind == RUN or name == (one.stage if kind == STAGE else one.agent):
            held += one.tokens if tokens else one.usd_micros
    if kind == RUN:
        spent = state.spent_tokens if tokens else state.spent_usd_micros
    elif kind == STAGE:
        spent = (state.tokens_by_stage if tokens else state.by_stage).get(name, 0)
    else:
        spent = (state.tokens_by_agent if tokens else state.by_agent).get(name, 0)
    return spent + held


def amount_left(config: Config, state: State, stage: str) -> tuple[int, int | None]:
    """Return the micro-dollars and tokens that the run has neither spent nor reserved; tokens None: no cap."""
    return min(_list_rests(config, state, stage, "usd_micros")), tokens_left(config, state, stage)


def tokens_left(config: Config, state: State, stage: str) -> int | None:
    """Return the tokens that the run has neither spent nor reserved; None: no cap."""
    return min(_list_rests(config, state, stage, "tokens"), default=None)


def _list_rests(config: Config, state: State, stage: str, unit: CapUnit) -> list[int]:
    rests = []
    for scope in (RUN, f"{STAGE}:{stage}"):
        most = cap_in_force(config, state, scope, unit)
        if most is not None:
            rests.append(most - used_amount(state, scope, unit))
    return rests


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse a call without a price, and one whose worst case does not fit."""
    if proposal.worst_usd_micros is None:
        message = f"model {proposal.target} has no price, so its cost cannot be bounded; give it one in the fabric"
        return Trip(NAME, Cause.PRICE_MISSING, Evidence(scope=f"model:{proposal.target}"), message)
    for scope, cap, used, unit, worst in _scopes(config, state, proposal):
        if used + worst > cap:
            seen = _surprise(state, proposal, view)
            details: dict[str, Any] = {
                "worst_case": worst,
                "target": proposal.target,
                **_surprise_numbers(seen, proposal, unit),
            }
            message = _message(state, scope, cap, used, unit, worst, seen)
            return Trip(NAME, Cause.BUDGET_GATE, Evidence(cap, used + worst, unit, scope, details=details), message)
    worst_usd, shares = proposal.worst_usd_micros, view.shares
    refused = shares.refusal(worst_usd, proposal.worst_tokens, proposal.keys) if shares is not None else None
    return PASS if refused is None else _not_granted(refused, proposal, _surprise(state, proposal, view))


def _surprise(state: State, proposal: Proposal, view: View) -> BilledAbove:
    """Return the dearest bill above a reservation that applies to the next call. A model call uses its model's; a
    tool call without a price uses that of any model; a tool call with a price has none.
    """
    if proposal.kind == "model":
        return dearest(state, proposal.target, view.shares, view.now)
    if proposal.worst_usd_micros:
        return NEVER
    return max(state.surprises.values(), key=lambda one: (one.usd_micros, one.tokens), default=NEVER)


def _surprise_numbers(seen: BilledAbove, proposal: Proposal, unit: str) -> dict[str, int]:
    """Return the numbers of a bill above a reservation as evidence, if it bears on this refusal."""
    if seen is NEVER:
        return {}
    if unit == "tokens":
        return {"billed": seen.tokens, "reserved": seen.reserved_tokens, "computed": proposal.computed_tokens}
    computed = proposal.computed_usd_micros or 0
    return {"billed": seen.usd_micros, "reserved": seen.reserved_usd_micros, "computed": computed}


def _message(state: State, scope: str, cap: int, used: int, unit: str, worst: int, seen: BilledAbove) -> str:
    """Return why a call does not fit a cap. The reason names the amount spent, the call's worst case, and any bill
    above a reservation.
    """
    billed, reserved = (
        (seen.tokens, seen.reserved_tokens) if unit == "tokens" else (seen.usd_micros, seen.reserved_usd_micros)
    )
    why = ""
    if billed:
        why = f": the endpoint billed {amount_words(billed, unit)} for a call for which {amount_words(reserved, unit)} had been reserved"
    advice = f"raise the cap{' or set call_usd_micros' if billed and unit == 'usd_micros' else ''}"
    gone = "spent and reserved" if any(one.usd_micros or one.tokens for one in state.reserved.values()) else "spent"
    if used > cap:
        more = why or f": {amount_words(used - cap, unit)} more than was reserved"
        return f"{scope} budget: {gone} {amount_words(used, unit)} of {amount_words(cap, unit)}{more}; {advice}"
    if billed and scope != CALL:
        return f"{scope} budget: {gone} {amount_words(used, unit)} of {amount_words(cap, unit)}, and the next call may take {amount_words(worst, unit)}{why}; {advice}"
    left = f"{amount_words(cap - used, unit)} of {amount_words(cap, unit)} is left"
    return f"{scope} budget: the next call may take {amount_words(worst, unit)}, but {left}{why}"


SHARED: Mapping[str, str] = {
    FABRIC: "the fabric's budget for an hour",
    SESSION: "the session's budget",
    SESSION_TOKENS: "the session's tokens",
    WORKSPACE: "the workspace's budget",
    KEY_DAY: "the key's budget for a day",
    KEY_MONTH: "the key's budget for a month",
}
"""Shared budgets in words, by the kind of their scope; total by test."""


def _not_granted(refused: Refusal, proposal: Proposal, seen: BilledAbove) -> Trip:
    """Refuse a call that a shared budget does not grant. The evidence copies the budget's state, since that changes.
    ``seen``: its model's recent bills above reservations.
    """
    kind, unit, used = refused.scope.partition(":")[0], find_unit(refused.scope), refused.spent + refused.granted
    worst = proposal.worst_tokens if unit == "tokens" else proposal.worst_usd_micros or 0
    details: dict[str, Any] = {"worst_case": worst, "target": proposal.target, "budget": refused.scope}
    details |= {"spent": refused.spent, "granted": refused.granted, "asked_at": refused.asked_at}
    details |= _surprise_numbers(seen, proposal, unit)
    left = refused.unasked or (
        f"{amount_words(max(0, refused.cap - used), unit)} of {amount_words(refused.cap, unit)} is left "
        f"({amount_words(refused.spent, unit)} is spent, and workers have reserved {amount_words(refused.granted, unit)})"
    )
    at = f" of {refused.scope.partition(':')[2].partition(':')[2]}" if kind in KINDS else ""
    message = f"{SHARED[kind]}{at}: the next call may take {amount_words(worst, unit)}, but {left}"
    evidence = Evidence(refused.cap, used + worst, unit, kind, "1 h" if refused.hourly else "", details)
    return Trip(NAME, Cause.KEY_CAP if kind in KINDS else Cause.BUDGET_GATE, evidence, message)


def _scopes(config: Config, state: State, proposal: Proposal) -> Iterator[tuple[str, int, int, str, int]]:
    """Yield ``(scope, cap, used and reserved, unit, worst case)`` for each cap that is set."""
    worst = {"usd_micros": proposal.worst_usd_micros or 0, "tokens": proposal.worst_tokens}
    stage, agent = proposal.stage, proposal.agent
    for scope, unit in list_scopes(stage, agent) if state.raised else _list_capped_scopes(config, stage, agent):
        if scope == CALL:
            if config.call_usd_micros is not None:
                yield CALL, config.call_usd_micros, 0, unit, worst[unit]
            continue
        most = cap_in_force(config, state, scope, unit)
        if most is not None:
            yield scope, most, used_amount(state, scope, unit), unit, worst[unit]


@keep_results
def _list_capped_scopes(config: Config, stage: str, agent: str) -> tuple[tuple[str, CapUnit], ...]:
    """Return the scopes of a call that may have a cap, as long as no person raised one."""
    return tuple(
        (scope, unit)
        for scope, unit in list_scopes(stage, agent)
        if scope in (RUN, CALL) or fabrics_cap(config, scope, unit) is not None
    )


CALL = "call"
SCOPES_KEPT = 1_024
"""Pairs of a stage and an agent whose scopes are cached. Every call of a run is judged by the same few."""


@lru_cache(maxsize=SCOPES_KEPT)
def list_scopes(stage: str, agent: str) -> tuple[tuple[str, CapUnit], ...]:
    """Return the caps of its run that a call falls under, in the order of the checks: money before tokens."""
    whose = (f"{STAGE}:{stage}", f"{AGENT}:{agent}") if agent else (f"{STAGE}:{stage}",)
    money: tuple[tuple[str, CapUnit], ...] = tuple((one, "usd_micros") for one in (RUN, CALL, *whose))
    return (*money, *((one, "tokens") for one in (RUN, *whose)))
