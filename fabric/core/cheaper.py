"""The rung *cheaper model*: the call again, to a configured model that costs less (semantics.md 3; S0 "Cost Velocity Monitoring").

The model that took over answers for the rest of its step: a conversation is not passed back and forth. An activation that is opened anew begins with
its agent's own model.
"""

from __future__ import annotations

from fabric.core import calls, guard, prompt
from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.failover import endpoint_of
from fabric.core.failure import Failure
from fabric.core.run import Step
from fabric.core.spec import Capability
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip
from fabric.core.work import Work

HELPS = frozenset({Cause.BUDGET_GATE, Cause.COST_VELOCITY, Cause.QUOTA})
"""Causes that another price, or another account, does away with."""


def why_not(work: Work, failure: Failure, trip: Trip) -> str:
    """Why no cheaper model can take the call; empty: one can."""
    step = work.run.steps.get(failure.step_id)
    if step is None or step.status != "active" or not step.agent or failure.blocked:
        return "no model call is at fault"
    if failure.issued is not None and failure.issued.call != "model":
        return "no model call is at fault"
    models = {model.name: model for model in work.compiled.spec.models}
    own = calls.model_of(work, step)
    name = models[own].cheaper
    if name is None:
        return "no cheaper model is configured"
    if trip.cause not in HELPS:
        return f"{trip.cause} would not go away with a cheaper model"
    agent = work.compiled.spec.agent(step.agent)
    if agent.tools and not step.final and Capability.TOOL_USE not in models[name].capable:
        return f"the call needs {Capability.TOOL_USE}, which {name} lacks"
    if trip.cause is Cause.QUOTA and endpoint_of(models[own]) == endpoint_of(models[name]):
        return f"{name} is at the same endpoint, and {trip.cause} is the endpoint's"
    return _not_cheaper(work, step, failure, own, name)


def _not_cheaper(work: Work, step: Step, failure: Failure, own: str, name: str) -> str:
    """Why the call would not cost less, or may not go out to the other model either."""
    issued, opened = failure.issued, prompt.opening(work.run, step)
    turn, attempt = (step.turns + 1, 1) if issued is None else (issued.turn, issued.attempt + 1)
    now = calls.model_proposal(work, step, opened, turn=turn, attempt=attempt)
    proposal = calls.model_proposal(work, step, opened, turn=turn, attempt=attempt, instead=name, cheaper=True)
    worst, before = proposal.worst_usd_micros, now.worst_usd_micros
    if worst is not None and before is not None and worst >= before:
        return f"{name} would not cost less than {own}"
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    return f"{name}: {trips[0].message}" if trips else ""


def change(work: Work, failure: Failure) -> None:
    """Puts the cheaper model in its place; the step's next move, or the failed call's next attempt, goes to it."""
    step = work.run.steps[failure.step_id]
    own = calls.model_of(work, step)
    name = work.compiled.spec.model(own).cheaper
    assert name is not None, "the ladder chose a rung that does not apply"
    work.emit(ev.ModelChanged(step_id=step.id, agent=step.agent, before=own, model=name, reason=Reaction.CHEAPER_MODEL))
