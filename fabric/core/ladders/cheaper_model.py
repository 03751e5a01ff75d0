"""The rung *cheaper model*: makes the call again, to a configured model that costs less
(docs/specification/decision-table.md; S0 "Cost Velocity Monitoring").

The new model answers for the rest of its step: a conversation is not passed back and forth. A new activation begins
with its agent's own model.
"""

from __future__ import annotations

from typing import Literal

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.child_runs import children as handing_out
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.mechanisms.contract import Proposal
from fabric.core.spec.endpoints import find_endpoint
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.tree import Capability
from fabric.core.state.failure import Failure, Unfit, record
from fabric.core.state.run import Step
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.words import words

Ruling = Literal["", "needs", "endpoint", "dearer", "guard"]
HELPS = frozenset({Cause.BUDGET_GATE, Cause.KEY_CAP, Cause.COST_VELOCITY, Cause.QUOTA})
"""Causes that another price, or another account, does away with."""


def why_not(work: Work, failure: Failure, trip: Trip) -> str | Unfit:
    """Return why no cheaper model can take the call; "" if one can."""
    step = work.run.steps.get(failure.step_id)
    if step is None or step.status != "active" or not step.agent or failure.blocked:
        return "no model call is at fault"
    if failure.issued is not None and failure.issued.call != "model":
        return "no model call is at fault"
    own = calls.find_model(work, step)
    if work.compiled_fabric.spec.model(own).cheaper is None:
        return f"{own} names no cheaper model"
    if trip.cause not in HELPS:
        return f"{words(trip.cause)} would not go away with a cheaper model"
    return _unfit(work, step, failure, trip.cause)


def _unfit(work: Work, step: Step, failure: Failure, cause: Cause) -> str | Unfit:
    """Return why the cheaper model is unfit, would not cost less, or may not be called; "" if it may."""
    models = {model.name: model for model in work.compiled_fabric.spec.models}
    own = calls.find_model(work, step)
    name = models[own].cheaper
    assert name is not None  # why_not
    before, proposal = _proposals(work, step, failure, name)
    worst = proposal.computed_usd_micros

    def unfit(ruled_out: Ruling, reason: str, trip: Trip | None = None) -> Unfit:
        return Unfit(reason, _model_choice(work, step, before, proposal, ruled_out, trip))

    spec = work.compiled_fabric.spec
    if spec.tools_of(spec.agent(step.agent)) and not step.final and Capability.TOOL_USE not in models[name].capable:
        return unfit("needs", f"the call needs {Capability.TOOL_USE}, which {name} lacks")
    if cause is Cause.QUOTA and find_endpoint(models[own]) == find_endpoint(models[name]):
        return unfit("endpoint", f"{name} is at the same endpoint, and {words(cause)} is the endpoint's")
    if worst is not None and before.computed_usd_micros is not None and worst >= before.computed_usd_micros:
        return unfit("dearer", f"{name} would not cost less than {own}")
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)
    return unfit("guard", f"{name}: {trips[0].message}", trips[0]) if trips else ""


def _proposals(work: Work, step: Step, failure: Failure, name: str) -> tuple[Proposal, Proposal]:
    """Return the proposals of the call to the step's own model, and to the cheaper one."""
    issued, opened = failure.issued, handing_out.open_messages(work.run, work.compiled_fabric.spec, step)
    turn, attempt = (step.turns + 1, 1) if issued is None else (issued.turn, issued.attempt + 1)
    before = calls.model_proposal(work, step, opened, turn=turn, attempt=attempt)
    return before, calls.model_proposal(work, step, opened, turn=turn, attempt=attempt, instead=name, cheaper=True)


def _model_choice(
    work: Work, step: Step, before: Proposal, proposal: Proposal, ruled_out: Ruling = "", trip: Trip | None = None
) -> ev.Weighed:
    most = work.compiled_fabric.spec.agent(step.agent).max_output_tokens
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
    """Put the cheaper model in its place; the step's next move, or the failed call's next attempt, goes to it."""
    step = work.run.steps[failure.step_id]
    own = calls.find_model(work, step)
    name = work.compiled_fabric.spec.model(own).cheaper
    assert name is not None, "the ladder chose a rung that does not apply"
    weighed = _model_choice(work, step, *_proposals(work, step, failure, name))
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
