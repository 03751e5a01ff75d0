"""Cost velocity: money and tokens that go out too fast (S0 "Cost Velocity Monitoring"; semantics.md 4).

Stops: a run that spends in a minute more than its fabric allows, or, where the fabric says nothing, ten times its own usual. Stops too: a plan
that cannot be finished within its cap. The run, its stages and its agents are judged, with or without caps of their own. What is usual was
learned before the run began and stands in its journal (``usual_rates_pinned``). Also stops a run whose last hour exceeds what its fabric may spend in one. A child
run is judged in its own journal, and has no usual rate. All runs of a fabric with an hourly ceiling are judged together (``shared_pace.py``).
After a decision the rate is counted anew; once a person approves, no rate is judged in that run any more. Does not stop: a healthy run that spends
its cap at once, slow overspending (the budget gate does), a burst of calls that are all out at once (their reservations do).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.budget_caps import AGENT, RUN, STAGE, CapUnit, amount_words, cap_key, fabrics_cap
from fabric.core.flow import Stage
from fabric.core.frozen import replace, value
from fabric.core.grants import FABRIC, SESSION, Refusal, Want
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.pace import GOOD_PART, USUAL_SHARE, Pace, Projection, projected
from fabric.core.policy import Budget, FanIn
from fabric.core.spending import HOUR_BUCKET_US, HOUR_US, NOTHING, Buckets, Spending, UsualRate, added, total
from fabric.core.taxonomy import Cause
from fabric.core.velocity_policy import CostVelocity
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.pace import TooFast
    from fabric.core.policy import FlowPolicy

NAME = "cost_velocity"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "send"})
OBSERVES: frozenset[str] = frozenset(
    {"call_issued", "model_answered", "tool_answered", "input_requested"}
    | {"attempt_failed", "attempt_interrupted", "call_aborted"}
    | {"usual_rates_pinned", "lineage_pinned", "child_answered", "cap_raised", "budget_raised", "reaction_decided"}
    | {"escalation_opened", "escalation_decided"}
)


@value()
class Config:
    """The rule, the caps that it measures by, and how many branches a plan needs."""

    rule: CostVelocity
    budget: Budget
    fan_in: FanIn


@value()
class State:
    """What was spent, in all and lately."""

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
    """True: a projection was decided about. It is said once in a run."""
    asks: bool = False
    """True: a trip of this mechanism was put to a person, and the question follows."""
    question: str = ""
    """The question about a trip of this mechanism that is open."""
    approved: bool = False
    """True: a person let the run go on at its rate."""
    cap_usd_micros: int | None = None
    """In place of the fabric's cap: what a parent reserved for it, or what a person raised it to."""
    cap_tokens: int | None = None
    raised: Mapping[str, int] = field(default_factory=dict)
    """What a person raised caps of stages, agents and tokens to, by ``budget_caps.cap_key``."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config(policy.cost_velocity, policy.budget, policy.fan_in)


def observe(state: State, event: Event) -> State:
    """Counts what each call cost when it is known, a model's or a tool's with a price; a decision about the rate, or a new cap, begins a new count."""
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
        case "reaction_decided" | "escalation_opened" | "escalation_decided":
            return _decided(state, fact)
        case "call_issued":
            costs = fact.call == "model" or fact.reserved_usd_micros
            return replace(state, out={**state.out, fact.command_id: fact.agent}) if costs else state
    agent = state.out.get(fact.command_id)
    return state if agent is None else _ended(state, event, agent)


def _decided(state: State, fact: Any) -> State:
    """A decision about a trip of this mechanism, the question that follows, or its answer."""
    if fact.kind == "reaction_decided":
        mine = [trip for trip in (fact.cause, *fact.causes) if trip.mechanism == NAME]
        if not mine:
            return state
        seen = state.projected or any(trip.evidence.window == PLAN for trip in mine)
        return _anew(replace(state, projected=seen, asks=fact.reaction == "escalate"))
    if fact.kind == "escalation_opened":
        return replace(state, asks=False, question=fact.escalation_id) if state.asks else state
    if not state.question or fact.escalation_id != state.question:
        return state
    return replace(state, question="", approved=state.approved or fact.verb == "approve")


def _ended(state: State, event: Event, agent: str) -> State:
    """A call that costs is over. One that was let go of, or whose process is gone, is charged at its worst case: money that may be gone, and no pace."""
    fact: Any = event.fact
    if fact.kind == "model_answered":
        usd, tokens = fact.cost_usd_micros, fact.input_tokens + fact.output_tokens
    elif fact.kind in ("tool_answered", "input_requested"):
        usd, tokens = fact.cost_usd_micros, 0
    else:
        usd, tokens = fact.charged_usd_micros, fact.charged_tokens
    guessed = fact.kind in ("attempt_interrupted", "call_aborted")

    def after(spending: Spending) -> Spending:
        return spending.lump(usd, tokens) if guessed else spending.plus(event.at, usd, tokens)

    branch, branches = ".".join(fact.command_id.split(".")[:3]), state.by_branch
    stage = branch.partition(".")[0]
    if stage == Stage.FAN_OUT:
        branches = {**branches, branch: branches.get(branch, 0) + usd}
    return replace(
        state,
        run=after(state.run),
        by_stage={**state.by_stage, stage: after(state.by_stage.get(stage, NOTHING))},
        by_agent={**state.by_agent, agent: after(state.by_agent.get(agent, NOTHING))},
        by_branch=branches,
        hour=added(state.hour, event.at, usd, tokens, window=HOUR_US, width=HOUR_BUCKET_US),
        out={key: name for key, name in state.out.items() if key != fact.command_id},
    )


def _anew(state: State) -> State:
    return replace(
        state,
        run=state.run.anew(),
        by_stage={name: one.anew() for name, one in state.by_stage.items()},
        by_agent={name: one.anew() for name, one in state.by_agent.items()},
    )


# -- the rate ----------------------------------------------------------------------------------------------------------


def paces(config: Config, state: State, now: int, stage: str = "", agent: str = "") -> Iterator[Pace]:
    """The paces of the run, of an agent and of a stage that have something to be compared with: a configured rate, else the usual one."""
    for scope, spent in _judged(state, stage, agent):
        if spent is None:
            continue
        configured = _configured(config.rule, scope)
        usual = state.usual.get(scope) if config.rule.times_usual else None
        if not (configured or usual):
            continue
        usd, tokens = spent.last_minute(now)
        for unit, observed in (("usd_micros", usd), ("tokens", tokens)):
            pace = _pace(config, state, scope, unit, observed, configured.get(unit), usual)
            if pace is not None:
                yield replace(pace, calls=spent.calls)


def _judged(state: State, stage: str, agent: str) -> Iterator[tuple[str, Spending | None]]:
    """``(scope, what it spent)``, in the order in which they are judged."""
    yield RUN, state.run
    yield f"{AGENT}:{agent}", state.by_agent.get(agent)
    yield f"{STAGE}:{stage}", state.by_stage.get(stage)


def _configured(rule: CostVelocity, scope: str) -> Mapping[str, int]:
    """The fabric's limit for a minute, by unit."""
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
) -> Pace | None:
    """A pace and its comparison; None: there is nothing to compare with. Usual tokens count only beside a cap of tokens."""
    own = _cap(config.budget, state, scope, unit)
    cap = _cap(config.budget, state, RUN, unit) if own is None else own
    left = max(0, (cap or 0) - (state.run.tokens if unit == "tokens" else state.run.usd_micros))
    if configured is not None:
        return Pace(scope, unit, observed, configured, left, cap or 0, 0, "configured")
    known = 0 if usual is None else usual.tokens if unit == "tokens" else usual.usd_micros
    if not known or cap is None:
        return None
    limit = max(config.rule.times_usual * known, cap / USUAL_SHARE)
    return Pace(scope, unit, observed, limit, left, cap, 0, "usual", known)


def _cap(budget: Budget, state: State, scope: str, unit: CapUnit) -> int | None:
    if scope == RUN and unit == "usd_micros":
        return budget.run_usd_micros if state.cap_usd_micros is None else state.cap_usd_micros
    raised = state.raised.get(cap_key(scope, unit)) if state.raised else None
    own = fabrics_cap(budget, scope, unit) if raised is None else raised
    given = state.cap_tokens if scope == RUN else None
    return own if given is None else given if own is None else min(own, given)


def _too_fast(config: Config, state: State, proposal: Proposal, now: int) -> Pace | None:
    for pace in paces(config, state, now, proposal.stage, proposal.agent):
        enough = pace.against == "configured" or pace.calls >= config.rule.calls
        if enough and pace.observed > pace.limit:
            return pace
    return None


# -- the projection ----------------------------------------------------------------------------------------------------


def _projection(config: Config, state: State, proposal: Proposal, view: View) -> Projection | None:
    """A plan that cannot be finished within a cap of the run, its stage or the agent. A conversation, a child's part and a best effort have no such end."""
    if proposal.stage is not Stage.FAN_OUT or config.fan_in.mode == "best_effort":
        return None
    half = [
        (scope, cap, spent.usd_micros)
        for scope, spent in _judged(state, proposal.stage, proposal.agent)
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
        found = projected(scope, cap, spent, done, others, needed)
        if found is not None:
            return found
    return None


# -- judging -----------------------------------------------------------------------------------------------------------

PLAN = "plan"
"""The window of a projection: all that is left of the plan."""


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses the next model call of what spends too fast. A cheaper model in its place is judged by the hour alone."""
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
    return PASS if over is None else _over(over)


def _trip(pace: Pace, proposal: Proposal) -> Trip:
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
    """Of runs that spend together; where their row stood is copied into the evidence, since it moves on."""
    trip = _trip(found.pace, proposal)
    shared = {"budget": found.scope, "generation": found.generation, "asked_at": found.asked_at}
    return replace(trip, evidence=replace(trip.evidence, details={**trip.evidence.details, **shared}))


def _overspent(view: View) -> Iterator[Refusal]:
    """Budgets that runs share of which more is gone than there is, by what was answered about this very call."""
    answers = view.shares.answers if view.shares is not None else {}
    for want, refused in answers.items():
        money = isinstance(want, Want) and want.scope.partition(":")[0] in (FABRIC, SESSION)
        if money and isinstance(refused, Refusal) and refused.spent > refused.cap:
            yield refused


def _over(refused: Refusal) -> Trip:
    kind = refused.scope.partition(":")[0]
    message = f"the {kind}'s runs spent {amount_words(refused.spent, 'usd_micros')}, over {amount_words(refused.cap, 'usd_micros')}"
    window = "1 h" if refused.hourly else ""
    evidence = Evidence(refused.cap, refused.spent, "usd_micros", kind, window, {"seconds_left": 0})
    return Trip(NAME, Cause.COST_VELOCITY, evidence, message)
