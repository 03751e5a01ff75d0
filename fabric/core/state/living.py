"""Decides whether a run goes on without a person. The run's visible state and its clocks depend on that."""

from __future__ import annotations

from fabric.core.state import family as kin
from fabric.core.state.run import Run, Step, awaits_children
from fabric.core.values.flow import RunState
from fabric.core.values.saga import EMPTY, errand_live, errands_out


def visible_state(run: Run) -> RunState:
    """Return the state that people see: "paused" for a paused run, "waiting" for one in which only reviews are live.

    A pause also stops a run that unwinds before a replan. A run that ends unwinds in spite of a pause.
    """
    held = run.control.paused is not None and run.ending is None
    if held and run.state in (RunState.RUNNING, RunState.UNWINDING):
        return RunState.PAUSED
    if run.state is not RunState.RUNNING or not (run.reviews or run.family.alive):
        return run.state
    return RunState.RUNNING if is_live(run) or kin.at_work(run.family) else RunState.WAITING


def is_live(run: Run) -> bool:
    """Return True if something goes on without a person: a call, a retry timer, a step or an undoing."""
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
    return any(
        step.status == "active" and not (step.id in asked and _waits_for_person(run, step))
        for step in run.steps.values()
    )


NO_STEPS: frozenset[str] = frozenset()


def asked_steps(run: Run) -> frozenset[str]:
    """Return the steps with a call under review."""
    if not run.reviews:
        return NO_STEPS
    return frozenset(one.fact.step_id for one in run.reviews.values() if one.fact.item == "pre_action")


def asked_calls(run: Run, step: Step) -> frozenset[str]:
    """Return the calls of a step's last answer that are under review."""
    asked = [one.fact for one in run.reviews.values() if one.fact.item == "pre_action"]
    return frozenset(
        step.history[-1].calls[step.index_of(one.scope)].call_id for one in asked if one.step_id == step.id
    )


def _waits_for_person(run: Run, step: Step) -> bool:
    """Return True if each free call of a step waits for a person."""
    asked = asked_calls(run, step)
    return not any(
        record.state == "open" and record.call_id not in asked and step.is_free(record)
        for record in step.history[-1].calls
    )


def is_resting(run: Run) -> bool:
    """Return True if only an outsider can move the run. It has ended, is paused with nothing out, or waits for people
    and children alone.
    """
    if run.terminal:
        return True
    if run.ending is not None and run.family.alive:
        return not run.pending
    if run.control.paused is not None and run.ending is None:
        return all(pending.failed for pending in run.pending.values()) and not errands_out(run.saga)
    return bool(run.reviews or run.family.alive) and not is_live(run)
