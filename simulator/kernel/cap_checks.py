"""What must be true of a run's caps, of money and of tokens: invariants as in ``invariants.py`` (semantics.md 4 "budgets", "Human waits").

What the run, each stage and each agent spend is counted here anew, from the facts alone, and held against what the fabric says and what people raised it to.
"""

from __future__ import annotations

from typing import Any

from fabric.core.budget_caps import AGENT, RUN, STAGE, cap_key, fabrics_cap
from fabric.core.envelope import Event
from fabric.core.inputs import DecisionMade
from fabric.core.run import Run
from simulator.kernel.purse import UNITS, keys_of
from simulator.kernel.seen import Seen, on


@on("call_issued", "child_spawned")
def caps_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call goes out only where its worst case fits the caps of the run, its stage and its agent, but for what providers billed above a reservation."""
    purse, agent = seen.purse, getattr(fact, "agent", "")
    scopes = (RUN, f"{STAGE}:{fact.step_id.partition('.')[0]}", *((f"{AGENT}:{agent}",) if agent else ()))
    whose = tuple(map(keys_of, scopes))
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


@on("call_issued")
def dear_models_are_reserved_so(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A model that billed more than was reserved is reserved at that from then on."""
    dearest = seen.purse.dearest.get(fact.target, (0, 0)) if fact.call == "model" else (0, 0)
    reserved = fact.reserved_usd_micros, fact.reserved_tokens
    if any(least > given for least, given in zip(dearest, reserved, strict=True)):
        return f"{fact.target} is reserved at {reserved}, and has billed {dearest}"
    return ""


@on("attempt_failed")
def refused_answers_are_booked(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """An attempt whose bill is known is charged that, and not its reservation. What the endpoint says that it cost comes before its tokens."""
    call = seen.run.pending.get(fact.command_id)
    if not (fact.input_tokens and fact.output_tokens) or call is None:
        return ""
    price = seen.compiled.prices[call.issued.target]
    bill = price.cost(fact.input_tokens, fact.output_tokens, fact.parts)
    bill = seen.told_costs.get((fact.command_id, fact.attempt), bill)
    return "" if fact.charged_usd_micros == bill else f"{fact.charged_usd_micros} were charged, the bill is {bill}"


@on(
    *("model_answered", "tool_answered", "input_requested", "attempt_failed"),
    *("attempt_interrupted", "call_aborted", "child_answered"),
)
def caps_are_settled(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes what each call, and each child, came to."""
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


@on("cap_raised")
def money_was_raised(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Notes the run's own cap (``judgements.cap_was_named`` holds it to a person's word)."""
    seen.purse.raised[cap_key(RUN, "usd_micros")] = fact.cap_usd_micros
    return ""


@on("budget_raised")
def other_caps_were_named(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A cap goes up by the word of a person who approved, from where it stood, never down, and never in a child."""
    given, key = seen.given.get(event.input_id), cap_key(fact.scope, fact.unit)
    if not isinstance(given, DecisionMade) or given.verb != "approve" or given.actor != fact.actor:
        return "nobody approved this cap"
    if (key, fact.cap) not in {(one.key, one.cap) for one in given.caps}:
        return "nobody named this cap"
    if seen.cap is not None:
        return "a child has no cap of its own"
    before = seen.purse.raised.get(key, fabrics_cap(seen.compiled.spec.policy.budget, fact.scope, fact.unit))
    seen.purse.raised[key] = fact.cap
    if fact.before != before or fact.cap <= fact.before:
        return f"{fact.scope} was raised from {fact.before} to {fact.cap} {fact.unit}; it was {before}"
    return ""


@on("attempt_failed")
def together_too_fast(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call that is refused because its fabric or session spends too fast says numbers that are too fast; of one count, exactly one call is refused."""
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
