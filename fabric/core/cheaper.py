"""The rung *cheaper model*: the call again, to a configured model that costs less (semantics.md 3; S0 "Cost Velocity Monitoring").

The model that took over answers for the rest of its step: a conversation is not passed back and forth. An activation that is opened anew begins with
its agent's own model.
"""

from __future__ import annotations

from typing import Literal

from fabric.core import calls, guard, handing_out
from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.endpoints import endpoint_of
from fabric.core.failure import Failure, Unfit, record
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Step
from fabric.core.spec import Capability
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip
from fabric.core.words import words
from fabric.core.work import Work

Ruling = Literal["", "needs", "endpoint", "dearer", "guard"]
HELPS = frozenset({Cause.BUDGET_GATE, Cause.KEY_CAP, Cause.COST_VELOCITY, Cause.QUOTA})
"""Causes that another price, or another account, does away with."""


def why_not(work: Work, failure: Failure, trip: Trip) -> str | Unfit:
    """Why no cheaper model can take the call; empty: one can."""
    step = work.run.steps.get(failure.step_id)
    if step is None or step.status != "active" or not step.agent or failure.blocked:
        return "no model call is at fault"
    if failure.issued is not None and failure.issued.call != "model":
        return "no model call is at fault"
    own = calls.model_of(work, step)
    if work.compiled.spec.model(own).cheaper is None:
        return f"{own} names no cheaper model"
    if trip.cause not in HELPS:
        return f"{words(trip.cause)} would not go away with a cheaper model"
    return _unfit(work, step, failure, trip.cause)


def _unfit(work: Work, step: Step, failure: Failure, cause: Cause) -> str | Unfit:
    """Why the cheaper model cannot do it, would not cost less, or may not be asked either."""
    models = {model.name: model for model in work.compiled.spec.models}
    own = calls.model_of(work, step)
    name = models[own].cheaper
    assert name is not None  # why_not
    before, proposal = _proposals(work, step, failure, name)
    worst = proposal.computed_usd_micros

    def unfit(ruled_out: Ruling, reason: str, trip: Trip | None = None) -> Unfit:
        return Unfit(reason, _weighed(work, step, before, proposal, ruled_out, trip))

    spec = work.compiled.spec
    if spec.tools_of(spec.agent(step.agent)) and not step.final and Capability.TOOL_USE not in models[name].capable:
        return unfit("needs", f"the call needs {Capability.TOOL_USE}, which {name} lacks")
    if cause is Cause.QUOTA and endpoint_of(models[own]) == endpoint_of(models[name]):
        return unfit("endpoint", f"{name} is at the same endpoint, and {words(cause)} is the endpoint's")
    if worst is not None and before.computed_usd_micros is not None and worst >= before.computed_usd_micros:
        return unfit("dearer", f"{name} would not cost less than {own}")
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    return unfit("guard", f"{name}: {trips[0].message}", trips[0]) if trips else ""


def _proposals(work: Work, step: Step, failure: Failure, name: str) -> tuple[Proposal, Proposal]:
    """The call as it would go out to the step's own model, and to the cheaper one."""
    issued, opened = failure.issued, handing_out.opening(work.run, work.compiled.spec, step)
    turn, attempt = (step.turns + 1, 1) if issued is None else (issued.turn, issued.attempt + 1)
    before = calls.model_proposal(work, step, opened, turn=turn, attempt=attempt)
    return before, calls.model_proposal(work, step, opened, turn=turn, attempt=attempt, instead=name, cheaper=True)


def _weighed(
    work: Work, step: Step, before: Proposal, proposal: Proposal, ruled_out: Ruling = "", trip: Trip | None = None
) -> ev.Weighed:
    most = work.compiled.spec.agent(step.agent).max_output_tokens
    one = ev.Candidate(
        model=proposal.target,
        usd_micros=proposal.computed_usd_micros,
        ruled_out=ruled_out,
        trip=None if trip is None else record(trip),
    )
    return ev.Weighed(
        before=before.target,
        input_tokens=before.computed_tokens - most,
        output_tokens=most,
        usd_micros=before.computed_usd_micros,
        candidates=(one,),
    )


def change(work: Work, failure: Failure) -> None:
    """Puts the cheaper model in its place; the step's next move, or the failed call's next attempt, goes to it."""
    step = work.run.steps[failure.step_id]
    own = calls.model_of(work, step)
    name = work.compiled.spec.model(own).cheaper
    assert name is not None, "the ladder chose a rung that does not apply"
    weighed = _weighed(work, step, *_proposals(work, step, failure, name))
    work.emit(
        ev.ModelChanged(
            step_id=step.id,
            agent=step.agent,
            before=own,
            model=name,
            reason=Reaction.CHEAPER_MODEL,
            weighed=weighed,
            left_out=calls.reasoning_left_out(work, step, name),
        )
    )
