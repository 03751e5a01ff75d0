"""What must be true of models that stand in for others: invariants as in ``invariants.py`` (semantics.md 2 column *failover*, 3 "no swap", 4 "Failover")."""

from __future__ import annotations

from typing import Any

from fabric.core.envelope import Event
from fabric.core.fallbacks import chain
from fabric.core.inputs import DecisionMade
from fabric.core.run import Run
from fabric.core.taxonomy import CLASSIFY, Tier
from simulator.kernel.seen import Seen, on


@on("attempt_failed")
def failures_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Why the newest attempt of each call failed, and before which models a breaker was open then, for what follows from it."""
    seen.failed[fact.command_id], seen.shut[fact.command_id] = fact.cause, fact.shut
    return ""


@on("escalation_opened")
def offers_are_kept(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Which model a question names."""
    seen.offered[fact.escalation_id] = fact.model
    return ""


@on("model_changed")
def swaps_are_allowed(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A model stands in only where the cause may fail over, never in high-stakes without a person, and only one of the chain that can do what is needed."""
    if fact.reason != "fallback_model":
        return ""
    if fact.actor:
        given = seen.given.get(event.input_id)
        if not isinstance(given, DecisionMade) or (given.verb, given.actor) != ("approve", fact.actor):
            return f"{fact.actor} approved no model"
        if not fact.model == given.model == seen.offered.get(given.escalation_id):
            return f"{fact.model} was put in place, {given.model} was approved"
    else:
        if seen.run.tier is Tier.HIGH_STAKES:
            return "no person approved it, in high-stakes"
        if seen.failed.get(fact.command_id) != fact.cause or not CLASSIFY[fact.cause].failover:
            return f"the call failed for {seen.failed.get(fact.command_id)}, and {fact.cause} is told"
        if fact.model in seen.shut[fact.command_id]:
            return f"a circuit breaker in front of {fact.model} was told to be open"
        if seen.decided is None or (seen.decided.reaction, seen.decided.step_id) != (fact.reason, fact.step_id):
            return "no decision says so"
    return _fit(seen, fact, after)


def _fit(seen: Seen, fact: Any, after: Run) -> str:
    step, spec = after.steps[fact.step_id], seen.compiled.spec
    before = seen.run.steps.get(fact.step_id, step)
    answering = before.model or spec.agent(fact.agent).model
    if fact.before != answering:
        return f"{fact.before} is told, and {answering} answered"
    named = {model.name: model.fallbacks for model in spec.models}
    if fact.model not in chain(named, before.stands_for or answering):
        return f"{fact.model} is no fallback of {before.stands_for or answering}"
    needs = spec.needs(spec.agent(fact.agent)) - ({"tool_use"} if step.final else set())
    lacking = needs - spec.model(fact.model).capable
    return f"{fact.model} lacks {', '.join(sorted(lacking))}" if lacking else ""


@on("call_issued")
def no_silent_swap(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call goes to the model that its step's events name: each swap has its own."""
    if fact.call != "model":
        return ""
    told = seen.run.steps[fact.step_id].model or seen.compiled.spec.agent(fact.agent).model
    return "" if fact.target == told else f"it goes to {fact.target}, and {told} answers for its step"
