"""Cost velocity: stops money and tokens that are spent too fast (S0 "Cost Velocity Monitoring";
docs/specification/budgets.md).

Stops: a run that spends in a minute more than its fabric allows, or, without such a limit, ten times its usual rate.
Stops too: a plan that cannot be finished within its cap, and a run whose last hour exceeds its fabric's hourly limit.
The run, its stages and its agents are judged, with or without caps of their own. The usual rate was learned before
the run began and is in its journal (``usual_rates_pinned``). A child run is judged in its own journal, and has no
usual rate. All runs of a fabric with an hourly ceiling are judged together (``core/budgets/spend_rate.py``).
After a decision the rate is counted anew; once a person approves, that run's rate is not judged any more.
Does not stop: a healthy run that spends its cap at once, slow overspending (the budget gate does), a burst of calls
that are all out at once (their reservations do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.budgets.grants import FABRIC, SESSION, Refusal, Want
from fabric.core.budgets.spend_rate import GOOD_PART, USUAL_SHARE, Projection, SpendRate, project_overrun
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.budgets import (
    AGENT,
    RUN,
    STAGE,
    Budget,
    CapUnit,
    CostVelocity,
    amount_words,
    cap_key,
    fabrics_cap,
)
from fabric.core.spec.policies.limits import FanIn
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace, value
from fabric.core.values.spending import (
    HOUR_BUCKET_US,
    HOUR_US,
    NOTHING,
    Buckets,
    Spending,
    UsualRate,
    add_spending,
    total,
)
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.budgets.spend_rate import TooFast
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "cost_velocity"
TITLE = "Cost velocity"
STOPS = (
    "spending above what the fabric allows or usually spends in a minute, "
    "and plans that cannot be finished within a cap"
)
PAGE = "docs/specification/budgets.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = ("cost_velocity",)
UNCOUNTED = "a rate is of the moment: it is shown while money is being spent, and where it tripped"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "send"})
OBSERVES: frozenset[str] = frozenset(
    {"call_issued", "model_answered", "tool_answered", "input_requested"}
    | {"attempt_failed", "attempt_interrupted", "call_aborted"}
    | {"usual_rates_pinned", "lineage_pinned", "child_answered", "cap_raised", "budget_raised", "reaction_decided"}
    | {"review_opened", "review_decided"}
)


@value()
class Config:
    """The rule, the caps for comparison, and the number of branches that a plan needs."""

    rule: CostVelocity
    budget: Budget
    fan_in: FanIn


@value()
class State:
    """Spending in all and of late."""

    run: Spending = NOTHING
    by_stage: Mapping[str, Spending] = field(default_factory=dict)
    by_agent: Mapping[str, Spending] = field(default_factory=dict)
    by_branch: Mapping[str, int] = field(default_factory=dict)
    """Micro-dollars of each branch of a fan-out, by its step without the round."""
    hour: Buckets = ()
    out: Mapping[str, str] = field(default_factory=dict)
    """The agent of each call that is out and costs something, by command id."""
    usual: Mapping[str, UsualRate] = field(default_factory=dict)
    """The usual rate of each scope; empty: not known yet."""
    projected: bool = False
    """True: a projection was decided about. One run decides about it once."""
    asks: bool = False
    """True: a trip of this mechanism was escalated, and the review's event follows."""
    review: str = ""
    """Id of the open review about a trip of this mechanism; "": none."""
    approved: bool = False
    """True: a person let the run go on at its rate."""
    cap_usd_micros: int | None = None
    """Cap in place of the fabric's: a parent's reservation, or the cap that a person set."""
    cap_tokens: int | None = None
    raised: Mapping[str, int] = field(default_factory=dict)
    """Caps of stages, agents and tokens that a person raised, by ``budgets.cap_key``."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return Config(policy.cost_velocity, policy.budget, policy.fan_in)


def observe(state: State, event: Event) -> State:
    """Count the cost of each call once it is known, tools with a price included. A decision about the rate or a new cap
    begins a new count.
    """
    fact: Any = event.fact
    match fact.kind:
        case "usual_rates_pinned":
            return replace(state, usual={one.scope: one for one in fact.rates})
        case "lineage_pinned":
            return replace(state, cap_usd_micros=fact.cap_usd_micros, cap_tokens=fact.cap_tokens)
        case "cap_raised":
            return _anew(replace(state, cap_usd_micros=fact.cap_usd_micros))
        case "budget_raised":
            return _anew(replace(state, raised={**state.raised, cap_key(fact.scope, fact.unit): fact.cap}))
        case "child_answered":
            return replace(state, run=state.run.lump(fact.cost_usd_micros, fact.tokens))
        case "reaction_decided" | "review_opened" | "review_decided":
            return _fold_decision(state, fact)
        case "call_issued":
            costs = fact.call == "model" or fact.reserved_usd_micros
            return replace(state, out={**state.out, fact.command_id: fact.agent}) if costs else state
    agent = state.out.get(fact.command_id)
    return state if agent is None else _charge_call(state, event, agent)


def _fold_decision(state: State, fact: Any) -> State:
    """Fold a decision about a trip of this mechanism, the review that follows, or its answer."""
    if fact.kind == "reaction_decided":
        mine = [trip for trip in (fact.cause, *fact.causes) if trip.mechanism == NAME]
        if not mine:
            return state
        seen = state.projected or any(trip.evidence.window == PLAN for trip in mine)
        return _anew(replace(state, projected=seen, asks=fact.reaction == "escalate"))
    if fact.kind == "review_opened":
        return replace(state, asks=False, review=fact.review_id) if state.asks else state
    if not state.review or fact.review_id != state.review:
        return state
    return replace(state, review="", approved=state.approved or fact.verb == "approve")


def _charge_call(state: State, event: Event, agent: str) -> State:
    """Charge a call that costs and has ended. An aborted or interrupted call is charged at its worst case, which
    counts as spent but not towards the rate.
    """
    fact: Any = event.fact
    if fact.kind == "model_answered":
        usd, tokens = fact.cost_usd_micros, fact.input_tokens + fact.output_tokens
    elif fact.kind in ("tool_answered", "input_requested"):
        usd, tokens = fact.cost_usd_micros, 0
    else:
        usd, tokens = fact.charged_usd_micros, fact.charged_tokens
    guessed = fact.kind in ("attempt_interrupted", "call_aborted")

    add: Callable[..., Spending] = Spending.lump if guessed else Spending.plus
    amount = (usd, tokens) if guessed else (event.at, usd, tokens)
    branch, branches = ".".join(fact.command_id.split(".")[:3]), state.by_branch
    stage = branch.partition(".")[0]
    if stage == Stage.FAN_OUT:
        branches = {**branches, branch: branches.get(branch, 0) + usd}
    return replace(
        state,
        run=add(state.run, *amount),
        by_stage={**state.by_stage, stage: add(state.by_stage.get(stage, NOTHING), *amount)},
        by_agent={**state.by_agent, agent: add(state.by_agent.get(agent, NOTHING), *amount)},
        by_branch=branches,
        hour=add_spending(state.hour, event.at, usd, tokens, window=HOUR_US, width=HOUR_BUCKET_US),
        out={key: name for key, name in state.out.items() if key != fact.command_id},
    )


def _anew(state: State) -> State:
    return replace(
        state,
        run=state.run.anew(),
        by_stage={name: one.anew() for name, one in state.by_stage.items()},
        by_agent={name: one.anew() for name, one in state.by_agent.items()},
    )


# -- the rate --------------------------------------------------------------------------------------------------------


def paces(config: Config, state: State, now: int, stage: str = "", agent: str = "") -> Iterator[SpendRate]:
    """Yield each rate of the run, an agent or a stage that has a limit, configured or usual."""
    if not (state.usual or _has_limits(config.rule)):
        return
    for scope, spent in _list_scopes(state, stage, agent):
        if spent is None:
            continue
        configured = _read_limits(config.rule, scope)
        usual = state.usual.get(scope) if config.rule.times_usual else None
        if not (configured or usual):
            continue
        usd, tokens = spent.last_minute(now)
        for unit, observed in (("usd_micros", usd), ("tokens", tokens)):
            pace = _pace(config, state, scope, unit, observed, configured.get(unit), usual)
            if pace is not None:
                yield replace(pace, calls=spent.calls)


def _list_scopes(state: State, stage: str, agent: str) -> Iterator[tuple[str, Spending | None]]:
    """Yield ``(scope, spending)`` in the order in which scopes are judged."""
    yield RUN, state.run
    yield f"{AGENT}:{agent}", state.by_agent.get(agent)
    yield f"{STAGE}:{stage}", state.by_stage.get(stage)


def _has_limits(rule: CostVelocity) -> bool:
    return (
        rule.usd_micros_per_minute is not None
        or rule.tokens_per_minute is not None
        or rule.agent_usd_micros_per_minute is not None
        or rule.stage_usd_micros_per_minute is not None
    )


def _read_limits(rule: CostVelocity, scope: str) -> Mapping[str, int]:
    """Return the fabric's limit for a minute, by unit."""
    match scope.partition(":")[0]:
        case "agent":
            found = {"usd_micros": rule.agent_usd_micros_per_minute}
        case "stage":
            found = {"usd_micros": rule.stage_usd_micros_per_minute}
        case _:
            found = {"usd_micros": rule.usd_micros_per_minute, "tokens": rule.tokens_per_minute}
    return {unit: most for unit, most in found.items() if most is not None}


def _pace(
    config: Config, state: State, scope: str, unit: Any, observed: int, configured: int | None, usual: UsualRate | None
) -> SpendRate | None:
    """Return a rate and its limit; None: no limit applies. The usual rate in tokens counts only with a cap in
    tokens.
    """
    own = _cap(config.budget, state, scope, unit)
    cap = _cap(config.budget, state, RUN, unit) if own is None else own
    left = max(0, (cap or 0) - (state.run.tokens if unit == "tokens" else state.run.usd_micros))
    if configured is not None:
        return SpendRate(scope, unit, observed, configured, left, cap or 0, 0, "configured")
    known = 0 if usual is None else usual.tokens if unit == "tokens" else usual.usd_micros
    if not known or cap is None:
        return None
    limit = max(config.rule.times_usual * known, cap / USUAL_SHARE)
    return SpendRate(scope, unit, observed, limit, left, cap, 0, "usual", known)


def _cap(budget: Budget, state: State, scope: str, unit: CapUnit) -> int | None:
    if scope == RUN and unit == "usd_micros":
        return budget.run_usd_micros if state.cap_usd_micros is None else state.cap_usd_micros
    raised = state.raised.get(cap_key(scope, unit)) if state.raised else None
    own = fabrics_cap(budget, scope, unit) if raised is None else raised
    given = state.cap_tokens if scope == RUN else None
    return own if given is None else given if own is None else min(own, given)


def _too_fast(config: Config, state: State, proposal: Proposal, now: int) -> SpendRate | None:
    for pace in paces(config, state, now, proposal.stage, proposal.agent):
        enough = pace.against == "configured" or pace.calls >= config.rule.calls
        if enough and pace.observed > pace.limit:
            return pace
    return None


# -- the projection --------------------------------------------------------------------------------------------------


def _projection(config: Config, state: State, proposal: Proposal, view: View) -> Projection | None:
    """Return a plan that cannot be finished within a cap of the run, its stage or its agent. None: it can. A
    conversation, a child's part and a best effort have no such end.
    """
    if proposal.stage is not Stage.FAN_OUT or config.fan_in.mode == "best_effort":
        return None
    half = [
        (scope, cap, spent.usd_micros)
        for scope, spent in _list_scopes(state, proposal.stage, proposal.agent)
        if spent is not None
        and (cap := _cap(config.budget, state, scope, "usd_micros")) is not None
        and spent.usd_micros >= cap * GOOD_PART
    ]
    if not half:
        return None
    steps = [one for one in view.run.steps.values() if one.stage is Stage.FAN_OUT]
    if any(one.turn is not None or one.status == "delegated" for one in steps):
        return None
    for scope, cap, spent in half:
        mine = [one for one in steps if not scope.startswith(AGENT) or one.agent == proposal.agent]
        cost = {one.id: state.by_branch.get(one.id.rpartition(".")[0], 0) for one in mine}
        done = [cost[one.id] for one in mine if one.status == "done"]
        others = [cost[one.id] for one in mine if one.status not in ("done", "failed")]
        needed = len(others)
        if config.fan_in.k is not None:
            needed = 0 if scope.startswith(AGENT) else min(needed, config.fan_in.k - len(done))
        found = project_overrun(scope, cap, spent, done, others, needed)
        if found is not None:
            return found
    return None


# -- judging ---------------------------------------------------------------------------------------------------------

PLAN = "plan"
"""Window of a projection: the rest of the plan."""


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse the next model call of a scope that spends too fast. A cheaper model in its place is judged by the hour
    alone.
    """
    if proposal.kind == "send":
        return PASS if proposal.too_fast is None else _together(proposal.too_fast, proposal)
    if config.rule.factor and not proposal.cheaper and not state.approved:
        pace = _too_fast(config, state, proposal, view.now)
        if pace is not None:
            return _trip(pace, proposal)
        plan = None if state.projected else _projection(config, state, proposal, view)
        if plan is not None:
            return _unreachable(plan, proposal)
    ceiling = config.budget.fabric_hour_usd_micros
    hour, _ = total(state.hour, view.now, window=HOUR_US, width=HOUR_BUCKET_US)
    if ceiling is not None and hour > ceiling:
        message = f"the run's last hour cost {amount_words(hour, 'usd_micros')}, and its fabric may spend {amount_words(ceiling, 'usd_micros')} in an hour"
        return Trip(NAME, Cause.COST_VELOCITY, Evidence(ceiling, hour, "usd_micros", "run", "1 h"), message)
    over = next(_overspent(view), None)
    return PASS if over is None else _build_trip(over)


def _trip(pace: SpendRate, proposal: Proposal) -> Trip:
    details: dict[str, Any] = {"against": pace.against, "left": pace.left, "cap": pace.cap, "calls": pace.calls}
    if pace.against == "usual":
        details["usual"] = pace.usual
    details |= {"seconds_left": round(pace.seconds_left or 0.0, 1), "target": proposal.target}
    evidence = Evidence(int(pace.limit), pace.observed, pace.unit, pace.scope, "60 s", details)
    return Trip(NAME, Cause.COST_VELOCITY, evidence, pace.sentence)


def _unreachable(plan: Projection, proposal: Proposal) -> Trip:
    details: dict[str, Any] = {
        "against": "projection",
        "cap": plan.cap,
        "done": plan.done,
        "to_do": plan.to_do,
        "cheapest": plan.cheapest,
        "target": proposal.target,
    }
    evidence = Evidence(plan.left, plan.needed, "usd_micros", plan.scope, PLAN, details)
    return Trip(NAME, Cause.COST_VELOCITY, evidence, plan.sentence)


def _together(found: TooFast, proposal: Proposal) -> Trip:
    """Return the trip of runs that share a budget. The evidence copies the position of their shared row, since the
    row changes.
    """
    trip = _trip(found.pace, proposal)
    shared = {"budget": found.scope, "generation": found.generation, "asked_at": found.asked_at}
    return replace(trip, evidence=replace(trip.evidence, details={**trip.evidence.details, **shared}))


def _overspent(view: View) -> Iterator[Refusal]:
    """Yield the shared budgets that are overspent, by the refusals of this call."""
    answers = view.shares.answers if view.shares is not None else {}
    for want, refused in answers.items():
        money = isinstance(want, Want) and want.scope.partition(":")[0] in (FABRIC, SESSION)
        if money and isinstance(refused, Refusal) and refused.spent > refused.cap:
            yield refused


def _build_trip(refused: Refusal) -> Trip:
    kind = refused.scope.partition(":")[0]
    message = f"the {kind}'s runs spent {amount_words(refused.spent, 'usd_micros')}, over {amount_words(refused.cap, 'usd_micros')}"
    window = "1 h" if refused.hourly else ""
    evidence = Evidence(refused.cap, refused.spent, "usd_micros", kind, window, {"seconds_left": 0})
    return Trip(NAME, Cause.COST_VELOCITY, evidence, message)
