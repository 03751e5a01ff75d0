"""The main path: ``decide(run, input, context)`` gives the facts that follow and the commands that go out once they have committed.

1. ``decide`` hands the input to its handler (one a kind, in ``HANDLERS``). Results name the command and attempt they answer: what is no longer pending
   is late or a duplicate and changes nothing.
2. A handler journals what happened. What tripped or failed comes back as a ``Failure`` and goes to ``reactions.react``: table, ladder, one reaction.
3. ``advance`` then moves the run as far as it goes without the world: opens stages, asks models, runs tools, leaves stages through their gates.
4. Nothing left but to wait: ``wake_at`` says until when.

Pure: the time, draws and contents are in the context. The same arguments give the same facts, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import agent_loop, calls, ladder, questions, reactions, stages
from fabric.core import events as ev
from fabric.core.commands import AbortCall, Command
from fabric.core.context import Context
from fabric.core.decision_table import Reaction
from fabric.core.failure import Failure, of_call
from fabric.core.flow import RunState
from fabric.core.frozen import value
from fabric.core.inputs import (
    CallFailed,
    CancelRequested,
    DecisionMade,
    Input,
    ModelReplied,
    OwnerChanged,
    RunRequested,
    TimeReached,
    ToolFinished,
)
from fabric.core.run import Pending, Run, Step
from fabric.core.taxonomy import CLASSIFY, Cause
from fabric.core.topologies import supervisor
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Emitted, Work


@value()
class Decision:
    """What one input led to. No facts: it changed nothing."""

    run: Run
    emitted: tuple[Emitted, ...]
    commands: tuple[Command, ...]


def decide(run: Run, given: Input, ctx: Context) -> Decision:
    """The facts and commands that follow from one input; the run after them. Raises MissingContent when a content was erased."""
    if absorbed(run):
        return Decision(run, (), ())
    work = Work(run, ctx, getattr(given, "input_id", ""))
    HANDLERS[type(given)](work, given)
    if work.run is not run or isinstance(given, OwnerChanged):
        work.input_id = ""
        advance(work)
    return Decision(work.run, tuple(work.emitted), _outgoing(work.commands))


def absorbed(run: Run) -> bool:
    """Terminal states absorb: nothing that arrives later changes a run that has ended."""
    return run.terminal


def _outgoing(commands: list[Command]) -> tuple[Command, ...]:
    """Without the calls that were let go of in the same decision: those never go out at all."""
    if not any(isinstance(c, AbortCall) for c in commands):
        return tuple(commands)
    gone = {(c.command_id, c.attempt) for c in commands if isinstance(c, AbortCall)}
    here = {(c.command_id, c.attempt) for c in commands if not isinstance(c, AbortCall)}
    both = gone & here
    return tuple(c for c in commands if (c.command_id, c.attempt) not in both)


def advance(work: Work) -> None:
    """Moves the run until it waits for the world, a person or a clock, or has ended."""
    while not work.run.terminal and work.run.state is not RunState.QUEUED:
        if work.run.ending is not None:
            reactions.settle(work)
            return
        before = work.run.seq
        failure = _move(work)
        if failure is not None:
            reactions.react(work, failure)
        elif work.run.seq == before:
            break
    questions.suspend_clocks(work)


def _move(work: Work) -> Failure | None:
    """One move of the current stage: a step asks its model, or the stage concludes."""
    run = work.run
    reached = run.stages.get(run.stage)
    if reached is None:
        return stages.enter(work, run.stage)
    steps = supervisor.steps_of(work, run.stage)
    waiting = {pending.issued.step_id for pending in run.pending.values()}
    for step in steps:
        if step.status == "active" and step.id not in waiting and _answered(step):
            return agent_loop.move(work, step)
    if _asked(run):
        return None
    done = supervisor.concluded(work, run.stage, steps)
    if done is None or isinstance(done, Failure):
        return done
    return stages.leave(work, run.stage, done)


def _answered(step: Step) -> bool:
    """Whether no call of the step's last turn is open any more."""
    return not step.history or all(call.state != "open" for call in step.history[-1].calls)


def _asked(run: Run) -> bool:
    """Whether a person is asked about the current stage as a whole."""
    return any(not q.fact.step_id and q.fact.stage == run.stage for q in run.questions.values())


# -- handlers: one a kind of input -------------------------------------------------------------------------------------


def _requested(work: Work, given: RunRequested) -> None:
    if work.run.state is not RunState.QUEUED:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="the run has started already"))
        return
    work.emit(
        ev.RunStarted(
            fabric=work.compiled.spec.name,
            revision=work.compiled.revision,
            tier=work.run.tier,
            deadline_at=given.deadline_at,
            seed=work.ctx.seed,
            requested_by=given.requested_by,
        ),
        given.request,
    )


def _decided(work: Work, given: DecisionMade) -> None:
    reason = questions.refused(work, given)
    if reason:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))
        return
    question = questions.decided(work, given)
    if given.verb == "reject":
        who = "nobody answered in time" if given.actor == questions.SYSTEM else f"{given.actor} rejected it"
        said = f": {given.message}" if given.message and given.actor != questions.SYSTEM else ""
        reactions.end(work, RunState.ABORTED, "reject", f"{who}{said} ({question.fact.reason})")
        return
    questions.resume_clocks(work, question)
    if question.fact.item == "post_stage":
        return
    again = questions.steps_to_rerun(work, question)
    told = given.message or f"Approved for one more try. What went wrong: {question.fact.reason}"
    if again:
        _run_again(work, question.fact, again, told)
    else:
        _plan_again(work, question.fact)


def _run_again(work: Work, fact: ev.EscalationOpened, step_ids: list[str], told: str) -> None:
    trips = ladder.respawned(work, fact.stage, step_ids)
    if trips:
        reactions.react(work, Failure(tuple(trips), fact.stage, fact.step_id))
    else:
        reactions.rerun(work, step_ids, told, approved=True)


def _plan_again(work: Work, fact: ev.EscalationOpened) -> None:
    """No step failed, the stage did: an approval starts over from the plan, as often as any replan may."""
    spent = ladder.replans_spent(work, fact.stage)
    if spent:
        reactions.end(work, RunState.ABORTED, Reaction.ABORT, f"approved once more, but {spent} ({fact.reason})")
        return
    trip = Trip("escalation", Cause.UNKNOWN, Evidence(scope=f"stage:{fact.stage}"), fact.reason)
    reactions.replan(work, fact.stage, trip)


def _cancelled(work: Work, given: CancelRequested) -> None:
    if work.run.state is RunState.CANCELLING:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="the run is being cancelled already"))
        return
    work.emit(ev.CancelAccepted(actor=given.actor, reason=given.reason))
    calls.let_go_all(work, "cancelled")
    if work.run.ending is None:  # What was decided before stands: the run ends sooner, not otherwise.
        reactions.end(work, RunState.CANCELLED, "cancel", given.reason or f"cancelled by {given.actor}")


def _replied(work: Work, given: ModelReplied) -> None:
    pending = _answers(work, given)
    if pending is not None:
        _react_to(work, agent_loop.answered(work, pending, given))


def _finished(work: Work, given: ToolFinished) -> None:
    pending = _answers(work, given)
    if pending is not None:
        agent_loop.tool_answered(work, pending, given)


def _failed(work: Work, given: CallFailed) -> None:
    pending = _answers(work, given)
    if pending is None:
        return
    issued = pending.issued
    fact = ev.AttemptFailed(
        command_id=given.command_id,
        attempt=given.attempt,
        step_id=issued.step_id,
        error_class=CLASSIFY[given.cause].error_class,
        cause=given.cause,
        message=given.message,
        status=given.status,
        retry_after_s=given.retry_after_s,
        charged_usd_micros=issued.reserved_usd_micros if given.billed else 0,
        charged_tokens=issued.reserved_tokens if given.billed else 0,
    )
    work.emit(fact, {"raw": given.raw} if given.raw else None)
    step = work.run.steps.get(issued.step_id)
    if work.run.ending is not None:
        calls.let_go(work, work.run.pending[given.command_id], "the run is ending")
    elif step is not None and step.status == "active":
        # A call that was cut short by its stage's or run's deadline is that deadline, whichever is noticed first.
        _react_to(work, _deadline(work) or of_call(issued, fact))


def _answers(work: Work, given: ModelReplied | ToolFinished | CallFailed) -> Pending | None:
    """The pending attempt that a result answers; None for a duplicate (dropped) and for a late one (kept as a fact, ignored as data)."""
    pending = work.run.pending.get(given.command_id)
    awaited = pending is not None and pending.issued.attempt == given.attempt and not pending.failed
    if pending is not None and awaited and pending.epoch == work.run.epoch:
        return pending
    if given.command_id in work.run.voided:
        reason = "its epoch was replanned" if _epoch(given.command_id) < work.run.epoch else "the call was let go"
        fact = ev.LateResultIgnored(command_id=given.command_id, attempt=given.attempt, reason=reason)
        work.emit(fact, {"kind": given.kind})
    return None


def _epoch(command_id: str) -> int:
    """The epoch that a command id names: ``stage.branch.eN.rM.tK``."""
    return int(command_id.split(".")[2][1:])


def _react_to(work: Work, failure: Failure | None) -> None:
    if failure is not None:
        reactions.react(work, failure)


def _owner_changed(work: Work, given: OwnerChanged) -> None:
    """Goes on after the previous owner: each call that was out is charged at worst case and goes out again under its key."""
    if work.run.state is RunState.QUEUED:
        return
    out = [pending for pending in work.run.pending.values() if not pending.failed]
    if not out:
        return
    work.emit(ev.OwnershipTaken(fence=given.fence, incarnation=given.incarnation))
    for pending in out:
        issued = pending.issued
        if issued.command_id not in work.run.pending:
            continue
        if work.run.ending is not None:
            calls.let_go(work, pending, "its process is gone and the run is ending")
            continue
        work.emit(
            ev.AttemptInterrupted(
                command_id=issued.command_id,
                attempt=issued.attempt,
                charged_usd_micros=issued.reserved_usd_micros,
                charged_tokens=issued.reserved_tokens,
            )
        )
        _again(work, issued.command_id)


def _again(work: Work, command_id: str) -> None:
    pending = work.run.pending[command_id]
    trips = calls.again(work, pending)
    if trips:
        step = work.run.steps[pending.issued.step_id]
        agent_loop.unanswered(work, work.run.pending[command_id], trips[0], "it may not start again")
        reactions.react(work, Failure(tuple(trips), step.stage, step.id))


def _time_reached(work: Work, given: TimeReached) -> None:
    """Whatever is due by now: deadlines first, then expired questions, reminders, retries."""
    if work.run.ending is not None or work.run.state is RunState.QUEUED:
        return
    overdue = _deadline(work)
    if overdue is not None:
        reactions.react(work, overdue)
        return
    for key, question in list(work.run.questions.items()):
        if work.ctx.now >= question.fact.due_at and key in work.run.questions and work.run.ending is None:
            _decided(work, questions.expired(work, question))
    if work.run.ending is not None or work.run.terminal:
        return
    questions.remind(work)
    for command_id, at in list(work.run.timers.items()):
        if work.ctx.now >= at and command_id in work.run.timers and work.run.ending is None:
            _again(work, command_id)


def _deadline(work: Work) -> Failure | None:
    run = work.run
    if run.suspended is not None:
        return None
    if work.ctx.now >= run.deadline_at:
        cause, at, scope = Cause.RUN_DEADLINE, run.deadline_at, "run"
    else:
        reached = run.stages.get(run.stage)
        if reached is None or reached.left or work.ctx.now < reached.deadline_at or _asked(run):
            return None
        cause, at, scope = Cause.STAGE_DEADLINE, reached.deadline_at, f"stage:{run.stage}"
    evidence = Evidence(at, work.ctx.now, "us since epoch", scope)
    return Failure((Trip("deadline", cause, evidence, f"the {scope} deadline has passed"),), run.stage)


HANDLERS: Mapping[type[Any], Callable[[Work, Any], None]] = {
    RunRequested: _requested,
    DecisionMade: _decided,
    CancelRequested: _cancelled,
    ModelReplied: _replied,
    ToolFinished: _finished,
    CallFailed: _failed,
    OwnerChanged: _owner_changed,
    TimeReached: _time_reached,
}
"""One handler a kind of input; total by test."""


def wake_at(run: Run) -> int | None:
    """The instant at which the run wants to be stepped again with ``TimeReached``; None: only the world can move it."""
    if run.terminal or run.ending is not None or run.state is RunState.QUEUED:
        return None
    instants = list(run.timers.values())
    if run.suspended is None:
        reached = run.stages.get(run.stage)
        instants.append(run.deadline_at)
        if reached is not None and not reached.left and not _asked(run):
            instants.append(reached.deadline_at)
    for question in run.questions.values():
        fact = question.fact
        instants.append(fact.due_at if question.onward else fact.onward_at if question.reminded else fact.remind_at)
    return min(instants)
