"""Cost velocity: money and tokens that go out too fast (S0 "Cost Velocity Monitoring"; semantics.md 4).

Stops: a run that would spend its cap in minutes, long before the cap itself stops it. It trips after 5 model calls, where the last minute's
spending exceeds 3 times the even pace (cap over deadline), and would spend what is left within 10 minutes. It also trips where a run's last hour
exceeds what its fabric may spend in one. Run, agent and stage are judged by their own caps, in micro-dollars and tokens; of what runs share, by what a refusal says of it. Counted is
what came back; a child run is judged in its own journal. The rate of a fabric and of a session is counted by all workers together (``shared_pace.py``) and asked about when a call is about to go out. After a decision the rate is counted anew. Does not stop: slow overspending
(the budget gate does), a burst of calls that are all out at once (their reservations do).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from fabric.core.budget_caps import AGENT, RUN, STAGE, CapUnit, cap_key, fabrics_cap
from fabric.core.frozen import replace, value
from fabric.core.grants import FABRIC, SESSION, Refusal, Want
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.pace import Pace, too_fast
from fabric.core.policy import Budget, CostVelocity, Deadlines
from fabric.core.spending import HOUR_BUCKET_US, HOUR_US, NOTHING, US, Buckets, Spending, added, total
from fabric.core.taxonomy import Cause, Tier
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.pace import TooFast
    from fabric.core.policy import FlowPolicy

NAME = "cost_velocity"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "send"})
OBSERVES: frozenset[str] = frozenset(
    {"call_issued", "model_answered", "attempt_failed", "attempt_interrupted", "call_aborted"}
    | {"run_started", "lineage_pinned", "child_answered", "cap_raised", "budget_raised", "reaction_decided"}
)


@value()
class Config:
    """The rule, and the caps and deadlines that it measures by."""

    rule: CostVelocity
    budget: Budget
    deadlines: Mapping[Tier, Deadlines]


@value()
class State:
    """What was spent, in all and lately."""

    run: Spending = NOTHING
    by_stage: Mapping[str, Spending] = field(default_factory=dict)
    by_agent: Mapping[str, Spending] = field(default_factory=dict)
    hour: Buckets = ()
    out: Mapping[str, str] = field(default_factory=dict)
    """The agent of each model call that is out, by command id."""
    time_us: int = 0
    """From the run's start to the deadline that it was given."""
    cap_usd_micros: int | None = None
    """In place of the fabric's cap: what a parent reserved for it, or what a person raised it to."""
    cap_tokens: int | None = None
    raised: Mapping[str, int] = field(default_factory=dict)
    """What a person raised caps of stages, agents and tokens to, by ``budget_caps.cap_key``."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return Config(policy.cost_velocity, policy.budget, {tier: policy.deadlines_of(tier) for tier in Tier})


def observe(state: State, event: Event) -> State:
    """Counts what each model call cost when it is known; a decision about the rate begins a new count."""
    fact: Any = event.fact
    match fact.kind:
        case "run_started":
            return replace(state, time_us=fact.deadline_at - event.at)
        case "lineage_pinned":
            return replace(state, cap_usd_micros=fact.cap_usd_micros, cap_tokens=fact.cap_tokens)
        case "cap_raised":
            return replace(state, cap_usd_micros=fact.cap_usd_micros)
        case "budget_raised":
            return replace(state, raised={**state.raised, cap_key(fact.scope, fact.unit): fact.cap})
        case "child_answered":
            return replace(state, run=state.run.lump(fact.cost_usd_micros, fact.tokens))
        case "reaction_decided":
            return _anew(state) if NAME in {trip.mechanism for trip in (fact.cause, *fact.causes)} else state
        case "call_issued":
            return replace(state, out={**state.out, fact.command_id: fact.agent}) if fact.call == "model" else state
    agent = state.out.get(fact.command_id)
    return state if agent is None else _ended(state, event, agent)


def _ended(state: State, event: Event, agent: str) -> State:
    """A model call is over. One that was let go of, or whose process is gone, is charged at its worst case: money that may be gone, and no pace."""
    fact: Any = event.fact
    if fact.kind == "model_answered":
        usd, tokens = fact.cost_usd_micros, fact.input_tokens + fact.output_tokens
    else:
        usd, tokens = fact.charged_usd_micros, fact.charged_tokens
    guessed = fact.kind in ("attempt_interrupted", "call_aborted")

    def after(spending: Spending) -> Spending:
        return spending.lump(usd, tokens) if guessed else spending.plus(event.at, usd, tokens)

    stage = fact.command_id.partition(".")[0]
    return replace(
        state,
        run=after(state.run),
        by_stage={**state.by_stage, stage: after(state.by_stage.get(stage, NOTHING))},
        by_agent={**state.by_agent, agent: after(state.by_agent.get(agent, NOTHING))},
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


def paces(config: Config, state: State, now: int, tier: Tier, stage: str = "", agent: str = "") -> Iterator[Pace]:
    """The run's pace, and those of a stage and an agent, each where it has a cap of its own."""
    budget, run_s = config.budget, state.time_us / US
    stage_s = config.deadlines[tier].stage_s
    for scope, spent, unit, seconds in _judged(state, stage, agent, run_s, stage_s):
        most = _cap(budget, state, scope, unit) if spent is not None and seconds > 0 else None
        if spent is None or most is None:
            continue
        tokens = unit == "tokens"
        observed = spent.last_minute(now)[tokens]
        left = max(0, most - (spent.tokens if tokens else spent.usd_micros))
        yield Pace(scope, unit, observed, config.rule.factor * most * 60 / seconds, left, most, spent.calls)


def _judged(
    state: State, stage: str, agent: str, run_s: float, stage_s: float
) -> Iterator[tuple[str, Spending | None, CapUnit, float]]:
    """``(scope, what it spent, unit, the seconds that its cap is for)``, in the order in which they are judged."""
    units: tuple[CapUnit, ...] = ("usd_micros", "tokens")
    for scope, spent, seconds in (
        (RUN, state.run, run_s),
        (f"{AGENT}:{agent}", state.by_agent.get(agent), run_s),
        (f"{STAGE}:{stage}", state.by_stage.get(stage), stage_s),
    ):
        for unit in units:
            yield scope, spent, unit, seconds


def _cap(budget: Budget, state: State, scope: str, unit: CapUnit) -> int | None:
    if scope == RUN and unit == "usd_micros":
        return budget.run_usd_micros if state.cap_usd_micros is None else state.cap_usd_micros
    raised = state.raised.get(cap_key(scope, unit)) if state.raised else None
    own = fabrics_cap(budget, scope, unit) if raised is None else raised
    given = state.cap_tokens if scope == RUN else None
    return own if given is None else given if own is None else min(own, given)


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses the next model call of what spends too fast. A cheaper model in its place is judged by the hour alone."""
    if proposal.kind == "send":
        return PASS if proposal.too_fast is None else _together(proposal.too_fast, proposal)
    if not proposal.cheaper:
        for pace in paces(config, state, view.now, view.run.tier, proposal.stage, proposal.agent):
            if too_fast(config.rule, pace):
                return _trip(pace, proposal)
    ceiling = config.budget.fabric_hour_usd_micros
    hour, _ = total(state.hour, view.now, window=HOUR_US, width=HOUR_BUCKET_US)
    if ceiling is not None and hour > ceiling:
        message = f"the run's last hour cost {_amount(hour, 'usd_micros')}, and its fabric may spend {_amount(ceiling, 'usd_micros')} in an hour"
        return Trip(NAME, Cause.COST_VELOCITY, Evidence(ceiling, hour, "usd_micros", "run", "1 h"), message)
    over = next(_overspent(view), None)
    return PASS if over is None else _over(over)


def _trip(pace: Pace, proposal: Proposal) -> Trip:
    lasts = pace.seconds_left or 0.0
    evidence = Evidence(
        int(pace.limit),
        pace.observed,
        pace.unit,
        pace.scope,
        "60 s",
        {
            "left": pace.left,
            "cap": pace.cap,
            "calls": pace.calls,
            "seconds_left": round(lasts, 1),
            "target": proposal.target,
        },
    )
    message = (
        f"{pace.scope} spends too fast: {_amount(pace.observed, pace.unit)} in the last minute, over {_amount(int(pace.limit), pace.unit)}; "
        f"the {_amount(pace.left, pace.unit)} left would last {lasts:.0f} s"
    )
    return Trip(NAME, Cause.COST_VELOCITY, evidence, message)


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
    message = (
        f"the {kind}'s runs spent {_amount(refused.spent, 'usd_micros')}, over {_amount(refused.cap, 'usd_micros')}"
    )
    window = "1 h" if refused.hourly else ""
    evidence = Evidence(refused.cap, refused.spent, "usd_micros", kind, window, {"seconds_left": 0})
    return Trip(NAME, Cause.COST_VELOCITY, evidence, message)


def _amount(amount: int, unit: str) -> str:
    return f"${amount / US:.6f}" if unit == "usd_micros" else f"{amount:,} tokens"
