"""Tells whether a run goes on without a person. Its visible state and its clocks go by that."""

from __future__ import annotations

from fabric.core import family as kin
from fabric.core.flow import RunState
from fabric.core.run import Run, Step, awaits_children
from fabric.core.saga import EMPTY, errand_live, errands_out


def visible_state(run: Run) -> RunState:
    """The state as people see it: a run that is held is paused, one in which nothing is live but questions is waiting.

    A pause also holds a run that unwinds before a replan. A run that ends unwinds in spite of a pause.
    """
    held = run.control.paused is not None and run.ending is None
    if held and run.state in (RunState.RUNNING, RunState.UNWINDING):
        return RunState.PAUSED
    if run.state is not RunState.RUNNING or not (run.questions or run.family.alive):
        return run.state
    return RunState.RUNNING if live(run) or kin.at_work(run.family) else RunState.WAITING


def live(run: Run) -> bool:
    """Whether something goes on without a person: a call out, a retry timer, a step that may move, something that is being undone."""
    if run.saga is not EMPTY:
        if awaits_children(run):
            return bool(run.pending)
        if errand_live(run.saga):
            return True
        if run.saga.unwinding is not None:
            return bool(run.pending)
    if run.pending or run.timers:
        return True
    asked = asked_steps(run)
    return any(step.status == "active" and not (step.id in asked and _waits(run, step)) for step in run.steps.values())


def asked_steps(run: Run) -> frozenset[str]:
    """Returns the steps that have a call about which a person is asked."""
    return frozenset(one.fact.step_id for one in run.questions.values() if one.fact.item == "pre_action")


def asked_calls(run: Run, step: Step) -> frozenset[str]:
    """The calls of a step's last answer about which a person is asked."""
    asked = [one.fact for one in run.questions.values() if one.fact.item == "pre_action"]
    return frozenset(
        step.history[-1].calls[step.index_of(one.scope)].call_id for one in asked if one.step_id == step.id
    )


def _waits(run: Run, step: Step) -> bool:
    """Whether each call of a step that waits for no other waits for a person."""
    asked = asked_calls(run, step)
    return not any(
        record.state == "open" and record.call_id not in asked and step.is_free(record)
        for record in step.history[-1].calls
    )


def resting(run: Run) -> bool:
    """Whether only somebody else can move it: it has ended, is held with nothing out, or waits for people and children alone."""
    if run.terminal:
        return True
    if run.ending is not None and run.family.alive:
        return not run.pending
    if run.control.paused is not None and run.ending is None:
        return all(pending.failed for pending in run.pending.values()) and not errands_out(run.saga)
    return bool(run.questions or run.family.alive) and not live(run)
