"""Somebody takes hold of a run from outside: cancel, terminate, pause, resume; or sends what nobody can read."""

from __future__ import annotations

from fabric.core import calls, children, conversations, questions, reactions, unwinding
from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.graph.writes import written
from fabric.core.inputs import (
    CancelRequested,
    InboxInput,
    InputUnreadable,
    PauseRequested,
    ResumeRequested,
    TerminateRequested,
)
from fabric.core.person_inputs import ContextGiven, PersonSpoke
from fabric.core.spec_conversation import is_conversation
from fabric.core.work import Work

TERMINATED = "terminated"
"""Reaction of a run that an operator ended at once."""


def cancelled(work: Work, given: CancelRequested) -> None:
    """Stops issuing, lets go of what is in flight, ends the run as cancelled."""
    if work.run.state is RunState.CANCELLING:
        _ignored(work, given, "the run is being cancelled already")
        return
    if work.run.ending is not None and work.run.saga.unwinding is not None:
        reason = "the run is ending and undoes what it did; cancelling changes nothing"
        work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))
        return
    work.emit(ev.CancelAccepted(actor=given.actor, reason=given.reason))
    calls.let_go_all(work, "cancelled")
    if work.run.ending is None:  # What was decided before stands: the run ends sooner, not otherwise.
        reactions.end(work, RunState.CANCELLED, "cancel", given.reason or f"cancelled by {given.actor}")


def terminated(work: Work, given: TerminateRequested) -> None:
    """Stops issuing, lets go of what is in flight, undoes nothing, ends the run as aborted."""
    work.emit(ev.TerminateAccepted(actor=given.actor, reason=given.reason))
    children.let_go(work, f"{given.actor} terminated its parent run", how="terminate")
    calls.let_go_all(work, "terminated")
    unwinding.stop(work, f"{given.actor} terminated the run")
    if work.run.ending is None:
        said = f": {given.reason}" if given.reason else ""
        reactions.end(work, RunState.ABORTED, TERMINATED, f"terminated by {given.actor}{said}")


def paused(work: Work, given: PauseRequested) -> None:
    """Holds the run and its clocks; what is out comes back and is journaled."""
    run = work.run
    if run.ending is not None:
        _ignored(work, given, "the run is ending")
    elif run.control.paused is not None:
        _ignored(work, given, "the run is paused already")
    else:
        run_left, stage_left = questions.time_left(work)
        work.emit(
            ev.RunPaused(
                actor=given.actor, reason=given.reason, run_remaining_us=run_left, stage_remaining_us=stage_left
            )
        )
        children.hold(work, given)


def resumed(work: Work, given: ResumeRequested) -> None:
    """Lets a paused run go on, with the time it had left."""
    if work.run.control.paused is None:
        _ignored(work, given, "the run is not paused")
        return
    left = questions.time_left(work)
    work.emit(ev.RunResumed(actor=given.actor))
    children.hold(work, given)
    questions.resume_held(work, *left)


def spoke(work: Work, given: PersonSpoke) -> None:
    """Keeps a person's message for whoever speaks next in the run's conversation."""
    if reason := _nobody_hears(work, "message could be read in"):
        _ignored(work, given, reason)
    else:
        work.emit(ev.PersonSaid(actor=given.actor), {"actor": given.actor, "text": given.text})


def context_given(work: Work, given: ContextGiven) -> None:
    """Writes context variables from outside. While a turn is in flight the change stands beside the turn's own, whatever becomes of the turn."""
    if reason := _nobody_hears(work, "variable could be of"):
        _ignored(work, given, reason)
        return
    change = {"set": dict(given.set), "delete": list(given.delete)}
    step = conversations.in_flight(work.run)
    fact = ev.ContextWritten(
        actor=given.actor,
        writes=len({*given.set, *given.delete}),
        in_turn=step is not None,
        after=0 if step is None else conversations.own_writes(work, step),
    )
    before = conversations.context_of(work)
    after = before if step is not None else written(before, conversations.writes_of(change))
    work.emit(fact, {**change, "context": dict(after)})


def _nobody_hears(work: Work, for_what: str) -> str:
    """Why nothing reaches the run's conversation; empty: it does."""
    if not is_conversation(work.compiled.spec.topology):
        return f"the run has no conversation that a {for_what}"
    if work.run.ending is not None:
        return "the run is ending"
    closed = work.run.talk.closed
    return f"its conversation is closed ({closed}); nobody speaks any more" if closed else ""


def _ignored(work: Work, given: InboxInput, reason: str) -> None:
    work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))


def unreadable(work: Work, given: InputUnreadable) -> None:
    """Records that something came that cannot be read."""
    work.emit(ev.InputIgnored(input_kind="unreadable", reason=given.reason[:500]))
