"""Handles requests about a run from outside: cancel, terminate, pause, resume, messages; and inputs that cannot be
read.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.child_runs import children
from fabric.core.conversations import turns as conversations
from fabric.core.decision.work import Work
from fabric.core.events.inputs import (
    CancelRequested,
    ContextGiven,
    InboxInput,
    InputUnreadable,
    PauseRequested,
    PersonSpoke,
    ResumeRequested,
    TerminateRequested,
)
from fabric.core.graph.state import apply_writes
from fabric.core.reactions import react as reactions
from fabric.core.reactions import unwinding
from fabric.core.reviews import reviews
from fabric.core.spec.topologies.conversation import is_conversation
from fabric.core.values.flow import RunState

TERMINATED = "terminated"
"""Reaction of a run that an operator ended at once."""


def cancel_run(work: Work, given: CancelRequested) -> None:
    """Stop issuing, abort the calls in flight, end the run as cancelled."""
    if work.run.state is RunState.CANCELLING:
        _ignore_input(work, given, "the run is being cancelled already")
        return
    if work.run.ending is not None and work.run.saga.unwinding is not None:
        reason = "the run is ending and undoes what it did; cancelling changes nothing"
        work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))
        return
    work.emit(ev.CancelAccepted(actor=given.actor, reason=given.reason))
    calls.let_go_all(work, "cancelled")
    if work.run.ending is None:  # An earlier decision to end stands: the run ends sooner, with its reason.
        reactions.end(work, RunState.CANCELLED, "cancel", given.reason or f"cancelled by {given.actor}")


def terminate_run(work: Work, given: TerminateRequested) -> None:
    """Stop issuing, abort the calls in flight, undo nothing, end the run as aborted."""
    work.emit(ev.TerminateAccepted(actor=given.actor, reason=given.reason))
    children.let_go(work, f"{given.actor} terminated its parent run", how="terminate")
    calls.let_go_all(work, "terminated")
    unwinding.stop(work, f"{given.actor} terminated the run")
    if work.run.ending is None:
        said = f": {given.reason}" if given.reason else ""
        reactions.end(work, RunState.ABORTED, TERMINATED, f"terminated by {given.actor}{said}")


def pause_run(work: Work, given: PauseRequested) -> None:
    """Pause the run and its clocks; results of calls that are out are journaled."""
    run = work.run
    if run.ending is not None:
        _ignore_input(work, given, "the run is ending")
    elif run.control.paused is not None:
        _ignore_input(work, given, "the run is paused already")
    else:
        run_left, stage_left = reviews.time_left(work)
        work.emit(
            ev.RunPaused(
                actor=given.actor, reason=given.reason, run_remaining_us=run_left, stage_remaining_us=stage_left
            )
        )
        children.hold(work, given)


def resume_run(work: Work, given: ResumeRequested) -> None:
    """Let a paused run go on, with the time it had left."""
    if work.run.control.paused is None:
        _ignore_input(work, given, "the run is not paused")
        return
    left = reviews.time_left(work)
    work.emit(ev.RunResumed(actor=given.actor))
    children.hold(work, given)
    reviews.resume_held(work, *left)


def take_message(work: Work, given: PersonSpoke) -> None:
    """Record a person's message for the next speaker of the run's conversation."""
    if reason := _explain_no_conversation(work, "message could be read in"):
        _ignore_input(work, given, reason)
    else:
        work.emit(ev.PersonSaid(actor=given.actor), {"actor": given.actor, "text": given.text})


def take_context(work: Work, given: ContextGiven) -> None:
    """Write context variables from outside. While a turn is in flight, the change joins the turn's own writes and
    stays even if the turn fails.
    """
    if reason := _explain_no_conversation(work, "variable could be of"):
        _ignore_input(work, given, reason)
        return
    change = {"set": dict(given.set), "delete": list(given.delete)}
    step = conversations.in_flight(work.run)
    fact = ev.ContextWritten(
        actor=given.actor,
        writes=len({*given.set, *given.delete}),
        in_turn=step is not None,
        after=0 if step is None else conversations.own_writes(work, step),
    )
    before = conversations.build_context(work)
    after = before if step is not None else apply_writes(before, conversations.read_writes(change))
    work.emit(fact, {**change, "context": dict(after)})


def _explain_no_conversation(work: Work, for_what: str) -> str:
    """Return why nothing reaches the run's conversation; "" if it does."""
    if not is_conversation(work.compiled_fabric.spec.topology):
        return f"the run has no conversation that a {for_what}"
    if work.run.ending is not None:
        return "the run is ending"
    closed = work.run.talk.closed
    return f"its conversation is closed ({closed}); no agent speaks any more" if closed else ""


def _ignore_input(work: Work, given: InboxInput, reason: str) -> None:
    work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))


def unreadable(work: Work, given: InputUnreadable) -> None:
    """Journal an input that cannot be read."""
    work.emit(ev.InputIgnored(input_kind="unreadable", reason=given.reason[:500]))
