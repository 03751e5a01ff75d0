"""Invariants of a run's rate of spending (semantics.md 4 "cost velocity").

What was spent lately is summed here anew, from the facts alone and to the microsecond: the program's own sums may hold up to one bucket more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from fabric.core.taxonomy import FailureType
from simulator.kernel.seen import Seen, on

SECOND_US = 1_000_000
MINUTE_US, BUCKET_US = 60 * SECOND_US, 5 * SECOND_US
FIRST_CALLS = 5
TIMES, PART_OF_CAP = 10, 10


@on("usual_rates_pinned")
def usual_is_known(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes what the run is compared with. It is taken once, right after the start, and never by a child."""
    seen.rate.usual = {one.scope: one.usd_micros for one in fact.rates}
    if event.seq != (3 if after.policy else 2) or seen.cap is not None:
        return f"usual rates were taken at event {event.seq}"
    return ""


@on("call_issued")
def nothing_goes_out_too_fast(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No model call begins where the last minute cost more than the fabric allows, or than is usual."""
    if fact.call == "model" or fact.reserved_usd_micros:
        seen.rate.out[fact.command_id] = fact.agent
    if fact.call != "model":
        return ""
    if fact.attempt > 1 or seen.rate.let_go_on or not seen.compiled.spec.policy.cost_velocity.factor:
        return ""
    for scope, limit, first in _limits(seen, fact.step_id.partition(".")[0], fact.agent):
        spent, calls = seen.rate.spent(scope, event.at, MINUTE_US), len(seen.rate.costs.get(scope, ()))
        if calls >= first and spent > limit:
            return f"{scope} spent {spent} in a minute, over {limit}, and a call goes out"
    return ""


def _limits(seen: Seen, stage: str, agent: str) -> Iterator[tuple[str, float, int]]:
    """``(scope, most a minute, calls before it is judged)``."""
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


def _own(seen: Seen, scope: str, run: int) -> int:
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


@on(*ANSWERS, "attempt_failed", "attempt_interrupted", "call_aborted")
def costs_are_noted(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes what a call cost. One that was let go of, or whose process is gone, is no pace."""
    agent = seen.rate.out.pop(fact.command_id, None)
    if agent is None or event.fact.kind in ("attempt_interrupted", "call_aborted"):
        return ""
    usd = fact.cost_usd_micros if event.fact.kind in ANSWERS else fact.charged_usd_micros
    for scope in ("run", f"agent:{agent}", f"stage:{fact.command_id.partition('.')[0]}"):
        seen.rate.costs.setdefault(scope, []).append((event.at, usd))
    return ""


@on("reaction_decided")
def a_rate_that_tripped_was_too_fast(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """The minute of a trip spent the amount that it names, and that is over its limit. Then it is counted anew."""
    trips = [trip for trip in (fact.cause, *fact.causes) if trip.mechanism == "cost_velocity"]
    found = ""
    for trip in trips:
        told = trip.evidence
        if told.window == "60 s" and "budget" not in told.details and told.unit == "usd_micros":
            least, most = (seen.rate.spent(told.scope, event.at, us) for us in (MINUTE_US, MINUTE_US + BUCKET_US))
            if not least <= told.observed <= most or told.observed <= told.limit:
                found = f"{told.scope} is said to have spent {told.observed}, over {told.limit}; it spent {least}"
    if trips:
        seen.rate.costs.clear()
    return found


@on("cap_raised", "budget_raised")
def a_new_cap_is_a_new_count(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A person gave more: what was spent before is no pace."""
    seen.rate.costs.clear()
    return ""


@on("escalation_decided")
def a_person_let_it_go_on(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes that a person approved a cost overrun."""
    question = seen.run.questions.get(fact.escalation_id)
    overrun = question is not None and question.fact.failure_type is FailureType.COST_OVERRUN
    seen.rate.let_go_on = seen.rate.let_go_on or (overrun and fact.verb == "approve")
    return ""
