"""Checks a run's budget in the simulator: caps and rates (docs/specification/budgets.md). Has planted bugs and draws
for the swarm too.

Spending of the run, each stage and each agent is counted anew from the facts alone. It is compared with the fabric's
caps, and the caps that people raised. Recent spending is summed to the microsecond: the program's own sums may contain
up to one bucket more. Planted bugs are about bills that differ from the reservation. Draws limit the rate of some
fabrics, in worlds that know the usual rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from fabric.core import events as ev
from fabric.core.budgets.charges import NOTHING, Charge
from fabric.core.budgets.grants import NEVER
from fabric.core.calls import issue as calls
from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import CallFailed, DecisionMade, ModelReplied
from fabric.core.mechanisms import budget, cost_velocity
from fabric.core.spec.policies.budgets import AGENT, RUN, STAGE, cap_key, fabrics_cap
from fabric.core.state.run import Run
from fabric.core.values.spending import Spending
from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON, US
from fabric.runtime.spending.usual_rates import RUNS_NEEDED, Minutes, add_run
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.facts.spending import UNITS, build_keys


@register_check("call_issued", "child_spawned")
def caps_are_kept(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call goes out only if its worst case fits the caps of the run, its stage and its agent.

    Bills of providers above a reservation are excepted.
    """
    purse, agent = seen.purse, getattr(fact, "agent", "")
    scopes = (RUN, f"{STAGE}:{fact.step_id.partition('.')[0]}", *((f"{AGENT}:{agent}",) if agent else ()))
    whose = tuple(map(build_keys, scopes))
    purse.reserve(fact.command_id, (fact.reserved_usd_micros, fact.reserved_tokens), whose)
    if fact.kind == "call_issued" and fact.call == "tool" and not fact.reserved_usd_micros:
        return ""  # It costs nothing.
    if fact.kind == "call_issued" and fact.call == "model":
        purse.models[fact.command_id] = fact.target
    for scope, keys in zip(scopes, whose, strict=True):
        for unit, key in zip(UNITS, keys, strict=True):
            cap = purse.raised.get(key, fabrics_cap(seen.compiled.spec.policy.budget, scope, unit))
            if cap is not None and purse.used[key] > cap + purse.over[key]:
                return f"{scope} has spent and reserved {purse.used[key]} {unit}, the cap is {cap}"
    return ""


@register_check("call_issued")
def dear_models_are_reserved_so(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """After a bill above its reservation, a model's calls are reserved at that bill."""
    dearest = seen.purse.dearest.get(fact.target, (0, 0)) if fact.call == "model" else (0, 0)
    reserved = fact.reserved_usd_micros, fact.reserved_tokens
    if any(least > given for least, given in zip(dearest, reserved, strict=True)):
        return f"{fact.target} is reserved at {reserved}, and has billed {dearest}"
    return ""


@register_check("attempt_failed")
def refused_answers_are_booked(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """An attempt with a known bill is charged the bill, not its reservation. The endpoint's cost goes before its
    tokens.
    """
    call = seen.run.pending.get(fact.command_id)
    if not (fact.input_tokens and fact.output_tokens) or call is None:
        return ""
    price = seen.compiled.prices[call.issued.target]
    bill = price.cost(fact.input_tokens, fact.output_tokens, fact.parts)
    bill = seen.told_costs.get((fact.command_id, fact.attempt), bill)
    return "" if fact.charged_usd_micros == bill else f"{fact.charged_usd_micros} were charged, the bill is {bill}"


@register_check(
    *("model_answered", "tool_answered", "input_requested", "attempt_failed"),
    *("attempt_interrupted", "call_aborted", "child_answered"),
)
def caps_are_settled(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the cost of each call, and of each child."""
    match fact.kind:
        case "model_answered":
            amounts = fact.cost_usd_micros, fact.input_tokens + fact.output_tokens
        case "child_answered":
            amounts = fact.cost_usd_micros, fact.tokens
        case "tool_answered" | "input_requested":
            amounts = fact.cost_usd_micros, 0
        case _:
            amounts = fact.charged_usd_micros, fact.charged_tokens
    seen.purse.settle(fact.command_id, amounts)
    return ""


@register_check("cap_raised")
def money_was_raised(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the run's own cap; ``cap_was_named`` checks that a person named it."""
    seen.purse.raised[cap_key(RUN, "usd_micros")] = fact.cap_usd_micros
    return ""


@register_check("budget_raised")
def other_caps_were_named(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A cap rises only by a person's approval, from its present value, and never in a child."""
    given, key = seen.given.get(event.input_id), cap_key(fact.scope, fact.unit)
    if not isinstance(given, DecisionMade) or given.verb != "approve" or given.actor != fact.actor:
        return "no person approved this cap"
    if (key, fact.cap) not in {(one.key, one.cap) for one in given.caps}:
        return "no person named this cap"
    if seen.cap is not None:
        return "a child has no cap of its own"
    before = seen.purse.raised.get(key, fabrics_cap(seen.compiled.spec.policy.budget, fact.scope, fact.unit))
    seen.purse.raised[key] = fact.cap
    if fact.before != before or fact.cap <= fact.before:
        return f"{fact.scope} was raised from {fact.before} to {fact.cap} {fact.unit}; it was {before}"
    return ""


@register_check("attempt_failed")
def together_too_fast(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A refusal for the joint speed of a fabric or session has numbers above the limit.

    Exactly one call is refused for one count.
    """
    if fact.trip is None or fact.trip.mechanism != "cost_velocity":
        return ""
    rule, evidence = seen.compiled.spec.policy.cost_velocity, fact.trip.evidence
    told = evidence.details
    if told["calls"] < rule.calls or evidence.observed <= evidence.limit:
        return f"{evidence.observed} in {told['calls']} calls is not too fast: {evidence.limit} are allowed"
    if told["left"] * 60 > evidence.observed * rule.within_s:
        return f"what is left, {told['left']}, would last longer than {rule.within_s:g} s"
    count = (told["budget"], told["generation"])
    if any(count in one.paced for one in seen.family.values()):
        return f"the count {count} refused a call before"
    seen.paced.add(count)
    return ""


MINUTE_US, BUCKET_US = 60 * US, 5 * US
FIRST_CALLS = 5
TIMES, PART_OF_CAP = 10, 10


@register_check("usual_rates_pinned")
def usual_is_known(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the usual rates. A run takes them once, right after its start, and a child never does."""
    seen.rate.usual = {one.scope: one.usd_micros for one in fact.rates}
    if event.seq != (3 if after.policy else 2) or seen.cap is not None:
        return f"usual rates were taken at event {event.seq}"
    return ""


@register_check("call_issued")
def nothing_goes_out_too_fast(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A model call begins only if the last minute's cost is within the fabric's limit and the usual rate."""
    if fact.call == "model" or fact.reserved_usd_micros:
        seen.rate.out[fact.command_id] = fact.agent
    if fact.call != "model":
        return ""
    if fact.attempt > 1 or seen.rate.let_go_on or not seen.compiled.spec.policy.cost_velocity.factor:
        return ""
    for scope, limit, first in _limits(seen, fact.step_id.partition(".")[0], fact.agent):
        spent, calls = seen.rate.sum_spent(scope, event.at, MINUTE_US), len(seen.rate.costs.get(scope, ()))
        if calls >= first and spent > limit:
            return f"{scope} spent {spent} in a minute, over {limit}, and a call goes out"
    return ""


def _limits(seen: WatchedRun, stage: str, agent: str) -> Iterator[tuple[str, float, int]]:
    """Yield ``(scope, most a minute, calls before it is judged)``."""
    rule, budget = seen.compiled.spec.policy.cost_velocity, seen.compiled.spec.policy.budget
    run = seen.raised or (budget.run_usd_micros if seen.cap is None else seen.cap)
    for scope, configured, cap in (
        ("run", rule.usd_micros_per_minute, run),
        (f"agent:{agent}", rule.agent_usd_micros_per_minute, _own(seen, f"agent:{agent}", run)),
        (f"stage:{stage}", rule.stage_usd_micros_per_minute, _own(seen, f"stage:{stage}", run)),
    ):
        usual = seen.rate.usual.get(scope, 0)
        if configured is not None:
            yield scope, configured, 0
        elif usual:
            yield scope, max(TIMES * usual, cap / PART_OF_CAP), FIRST_CALLS


def _own(seen: WatchedRun, scope: str, run: int) -> int:
    whose, _, name = scope.partition(":")
    budget = seen.compiled.spec.policy.budget
    of: Mapping[Any, Any] = budget.agents if whose == "agent" else budget.stages
    own = of.get(name)
    cap = budget.agent_usd_micros if whose == "agent" else budget.stage_usd_micros
    if own is not None and own.usd_micros is not None:
        cap = own.usd_micros
    raised: int | None = seen.purse.raised.get(f"{scope} usd_micros", cap)
    return run if raised is None else raised


ANSWERS = ("model_answered", "tool_answered", "input_requested")


@register_check(*ANSWERS, "attempt_failed", "attempt_interrupted", "call_aborted")
def costs_are_noted(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the cost of a call. A dropped call, or one of a dead process, does not count for the rate."""
    agent = seen.rate.out.pop(fact.command_id, None)
    if agent is None or event.fact.kind in ("attempt_interrupted", "call_aborted"):
        return ""
    usd = fact.cost_usd_micros if event.fact.kind in ANSWERS else fact.charged_usd_micros
    for scope in ("run", f"agent:{agent}", f"stage:{fact.command_id.partition('.')[0]}"):
        seen.rate.costs.setdefault(scope, []).append((event.at, usd))
    return ""


@register_check("reaction_decided")
def a_rate_that_tripped_was_too_fast(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A trip names the last minute's cost, and it exceeds the limit. Counting then starts anew."""
    trips = [trip for trip in (fact.cause, *fact.causes) if trip.mechanism == "cost_velocity"]
    found = ""
    for trip in trips:
        told = trip.evidence
        if told.window == "60 s" and "budget" not in told.details and told.unit == "usd_micros":
            least, most = (seen.rate.sum_spent(told.scope, event.at, us) for us in (MINUTE_US, MINUTE_US + BUCKET_US))
            if not least <= told.observed <= most or told.observed <= told.limit:
                found = f"{told.scope} is said to have spent {told.observed}, over {told.limit}; it spent {least}"
    if trips:
        seen.rate.costs.clear()
    return found


@register_check("cap_raised", "budget_raised")
def a_new_cap_is_a_new_count(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Forget earlier spending, because a person raised the cap."""
    seen.rate.costs.clear()
    return ""


@register_check("review_decided")
def a_person_let_it_go_on(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record that a person approved a cost overrun."""
    review = seen.run.reviews.get(fact.review_id)
    overrun = review is not None and review.fact.failure_type is FailureType.COST_OVERRUN
    seen.rate.let_go_on = seen.rate.let_go_on or (overrun and fact.verb == "approve")
    return ""


def _refused_at_reservation() -> AbstractContextManager[None]:
    """The engine charges a refused answer as if its cost were unknown."""
    known = calls.build_charge

    def charge_reservation(work: Work, issued: ev.CallIssued, given: ModelReplied | CallFailed) -> Charge:
        if isinstance(given, ModelReplied):
            return known(work, issued, given)
        return Charge(issued.reserved_usd_micros, issued.reserved_tokens) if given.billed else NOTHING

    return planting.attribute(calls, "build_charge", charge_reservation)


def _rate_of_all() -> AbstractContextManager[None]:
    """The engine counts all spending as spending of the last minute."""
    return planting.attribute(Spending, "last_minute", lambda spent, _now: (spent.usd_micros, spent.tokens))


MONEY_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "dearest_call_forgotten": lambda: planting.attribute(budget, "dearest", lambda *_: NEVER),
    "refused_answer_at_reservation": _refused_at_reservation,
    "spends_at_any_rate": lambda: planting.attribute(cost_velocity, "_too_fast", lambda *_: None),
    "rate_counts_everything": _rate_of_all,
}
"""Plants by name."""

SAYS = 0.08
"""Share of fabrics that limit a rate, for each scope."""
KNOWS = 0.2
"""Share of worlds that know the usual spending of their fabric, which is small."""
SCOPES = ("run", "stage:plan", "stage:fan_out", "agent:worker-0", "agent:planner")


def draw_rates(policy: JSON, rng: Random) -> None:
    """Give some fabrics a reachable limit for a minute of the run, of an agent or of a stage."""
    names = ("usd_micros_per_minute", "agent_usd_micros_per_minute", "stage_usd_micros_per_minute")
    rule = {name: rng.choice((300, 1_000, 5_000)) for name in names if rng.random() < SAYS}
    if rule:
        policy["cost_velocity"] = rule


def usual(seed: int) -> str:
    """Return the guard row of a world's fabric; empty if it has learned nothing."""
    rng = Random(f"usual {seed}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= KNOWS:
        return ""
    minutes: Minutes = {scope: (rng.choice((1, 50, 500)), 0) for scope in SCOPES if rng.random() < 0.7}
    state = ""
    for _ in range(RUNS_NEEDED):
        state = add_run(state, minutes)
    return state
