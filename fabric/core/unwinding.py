"""Undoing what a run did: strictly the newest first, one at a time, each compensation with its own key, deadline and retries (semantics.md 4 "Saga").

Before a bad end, and before a replan for what is not carried over. A compensation that failed as often as it may is put to a person, who has it tried
again or says that it was done by hand; what cannot be undone, or is not, is said. The run's deadlines do not count meanwhile: ``wake_at`` serves this alone.
"""

from __future__ import annotations

from typing import Any, Literal

from fabric.core import events as ev
from fabric.core import handing_up, mutations, questions
from fabric.core.commands import AbortCall
from fabric.core.fingerprint import digest
from fabric.core.flow import Stage
from fabric.core.inputs import CallFailed, DecisionMade, ModelReplied, ToolFinished
from fabric.core.run import OpenQuestion, awaits_children
from fabric.core.saga import (
    DOUBTFUL,
    EMPTY,
    UNWINDS,
    Effect,
    Errand,
    Mutation,
    Outcome,
    Status,
    Unwinding,
    Unwinds,
    by_key,
    undo_order,
)
from fabric.core.taxonomy import Cause
from fabric.core.work import US, Work

JSON = Any
CANNOT = "it cannot be undone: the tool is declared irreversible"


def begin(work: Work, purpose: Literal["ending", "replan"], stage: Stage, reason: str, told: JSON = None) -> bool:
    """Starts to undo whatever stands; False: there is nothing. Children that were told to stop may still hand something up."""
    order = undo_order(work.run.saga.mutations, replan=purpose == "replan")
    if not order and not handing_up.awaited(work):
        return False
    # A run that was ended where its journal could not be folded may still have asked what became of a call: that would wake it for ever.
    mutations.dropped(work, "what may have been done is undone")
    work.emit(ev.UnwindingStarted(purpose=purpose, order=order, stage=stage, reason=reason), told)
    return True


def move(work: Work) -> bool:
    """Goes on undoing as far as it goes without the world; True while something is left to be undone."""
    while work.run.saga is not EMPTY:
        unwinding = work.run.saga.unwinding
        if unwinding is None:
            if work.run.ending is None or not _at_end(work, work.run.ending):
                return False
        elif unwinding.current is not None:
            return _again(work, unwinding.current)
        elif awaits_children(work.run):
            return True
        elif unwinding.left:
            if _next(work, unwinding.left[0]):
                return True
        else:
            _finish(work, unwinding)
            if work.run.ending is None:
                return False
    return False


def _at_end(work: Work, ending: ev.RunEnding) -> bool:
    """Whether the run's end undoes anything; where it does not by rule, it says what stays."""
    rule = UNWINDS[ending.reaction]
    if rule is Unwinds.YES or (rule is Unwinds.UNLESS_POLICY and work.compiled.spec.policy.saga.unwind_on_cancel):
        return begin(work, "ending", work.run.stage, ending.reaction)
    order = undo_order(work.run.saga.mutations, replan=False)
    if order and rule is not Unwinds.NO:
        why = (
            "an operator terminated the run"
            if rule is Unwinds.NO_AND_SAYS_SO
            else "policy.saga.unwind_on_cancel is off"
        )
        work.emit(ev.UnwindingOmitted(reason=why, stays=tuple(_mutation(work, key).tool for key in order)))
    return False


def _finish(work: Work, unwinding: Unwinding) -> None:
    run = work.run
    stays = [m.tool for m in reversed(run.saga.mutations) if m.status in (Status.SKIPPED, Status.ABANDONED)]
    undone = sum(m.status in (Status.UNDONE, Status.BY_HAND) for m in run.saga.mutations)
    purpose: Any = unwinding.purpose
    work.emit(ev.UnwindingFinished(purpose=purpose, undone=undone, stays=tuple(stays)))


def _mutation(work: Work, key: str) -> Mutation:
    found = by_key(work.run.saga, key)
    assert found is not None
    return found


def _next(work: Work, key: str) -> bool:
    """Begins to undo one mutation, or says why not; True: a compensation is out now, or is held back.

    What may still arrive at the other side is not undone before it cannot any more: a compensation that came first would undo nothing.
    """
    mutation = _mutation(work, key)
    if mutation.effect is Effect.IRREVERSIBLE or not mutation.compensation:
        work.emit(ev.CompensationSkipped(of_key=key, tool=mutation.tool, reason=CANNOT))
        return False
    early = mutation.status in DOUBTFUL and work.ctx.now < mutation.deadline_at
    if early or _held(work):
        return True
    _issue(work, mutation, None)
    return _is_out(work)


def _is_out(work: Work) -> bool:
    """Whether a compensation is under way; none is where it turned out that nothing has to be undone."""
    return work.run.saga.unwinding is not None and work.run.saga.unwinding.current is not None


def _held(work: Work) -> bool:
    """Whether nothing may be sent now. A run that ends undoes what it did even where somebody had paused it."""
    return work.ctx.draining or (work.held and work.run.ending is None)


def _again(work: Work, current: Errand) -> bool:
    if not (current.out or current.stuck or current.not_before > work.ctx.now or _held(work)):
        _issue(work, _mutation(work, current.key), current)
    return True


def _issue(work: Work, mutation: Mutation, before: Errand | None) -> None:
    tool = mutation.compensation
    fact = ev.CompensationIssued(
        command_id=f"undo.{work.run.saga.compensations + 1}" if before is None else before.command_id,
        attempt=1 if before is None else before.attempt + 1,
        of_key=mutation.key,
        of_tool=mutation.tool,
        tool=tool,
        key=digest("compensation", mutation.key),
        deadline_at=work.ctx.now + int(mutations.timeout_s(work, tool) * US),
        args_ref="" if before is None else before.args_ref,
    )
    given = mutations.undoing(work, mutation) if before is None else None
    work.emit(fact, given)
    assert work.run.saga.unwinding is not None
    assert work.run.saga.unwinding.current is not None
    current = work.run.saga.unwinding.current
    if work.compiled.spec.in_journal(tool):
        undone = ToolFinished(command_id=current.command_id, attempt=current.attempt, result={"restored": True})
        answered(work, current, undone)  # What stands in a run's memory follows from what was not undone.
        return
    if given is not None and (why := work.compiled.under.denied.get(f"tool:{tool}")):
        _withheld(work, current, f"the workspace's policy lets nobody call it: {why}")
        return
    if given is not None and (found := work.compiled.evaluators.hits("arguments", given["args"])):
        _withheld(work, current, f"what it is called with holds what may not leave the run: {'; '.join(found[:3])}")
        return
    work.commands.append(mutations.command_of(current))


def _withheld(work: Work, current: Errand, why: str) -> None:
    """A compensation is not sent, and a person has the word. Their approval sends it: what stays done may be worse."""
    said = f"it was not sent, for {why}"
    fact = ev.CompensationFailed(
        command_id=current.command_id,
        attempt=current.attempt,
        of_key=current.key,
        cause=Cause.POLICY_DENIED,
        message=said[:500],
        not_before=0,
    )
    work.emit(fact)
    _stuck(work, current, said[:500], withheld=True)


# -- what came back ----------------------------------------------------------------------------------------------------


def answered(work: Work, current: Errand, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """Journals what became of one attempt to undo."""
    if isinstance(given, ToolFinished) and (not given.error or given.outcome is Outcome.ANSWERED):
        # A call that was done is not done again, even if its answer cannot be read.
        fact = ev.CompensationAnswered(
            command_id=given.command_id,
            attempt=given.attempt,
            of_key=current.key,
            tool=current.tool,
            sanitized=given.sanitized,
        )
        work.emit(fact, {"result": given.error or given.result})
        return
    cause = given.cause if isinstance(given, CallFailed) else Cause.TOOL_CONSTRAINT
    message = given.message if isinstance(given, CallFailed) else getattr(given, "error", "it answered nothing")
    _failed(work, current, cause, message[:500])


def _failed(work: Work, current: Errand, cause: Cause, message: str) -> None:
    last = current.failures + 1 >= work.compiled.spec.policy.saga.compensation_attempts
    at = 0 if last else work.ctx.now + int(mutations.delay_s(work, current) * US)
    work.emit(
        ev.CompensationFailed(
            command_id=current.command_id,
            attempt=current.attempt,
            of_key=current.key,
            cause=cause,
            message=message,
            not_before=at,
        )
    )
    if last and _is_out(work):
        _stuck(work, current, message)


def interrupted(work: Work, current: Errand) -> None:
    """The process that held this attempt is gone: it goes out again under its key, and counts as no failure."""
    work.emit(ev.CompensationInterrupted(command_id=current.command_id, attempt=current.attempt, of_key=current.key))


# -- stuck -------------------------------------------------------------------------------------------------------------


def _stuck(work: Work, current: Errand, message: str, *, withheld: bool = False) -> None:
    mutation = _mutation(work, current.key)
    work.emit(
        ev.CompensationStuck(
            command_id=current.command_id,
            of_key=current.key,
            tool=current.tool,
            attempts=current.attempt,
            message=message,
        )
    )
    shown = mutations.undoing(work, mutation)["args"]
    reason = f"{current.tool} could not undo {mutation.tool} in {current.attempt} attempts: {message}"
    if withheld:
        shown = {"key": shown["key"], "args": shown["args"]}  # They were looked at when the call was made.
        reason = f"{current.tool} did not undo {mutation.tool}: {message}"
    questions.open_item(
        work,
        item="compensation",
        scope=mutation.key,
        step_id="",
        reason=reason,
        shown={
            "tool": mutation.tool,
            "compensation": current.tool,
            "payload": shown,
            "approve": f"{current.tool} is called with it all the same"
            if withheld
            else f"{current.tool} is tried again",
            "respond": "it counts as undone by hand, with your words as the reason",
            "expiry": "it stays as it is, the run says so and undoes the rest",
        },
    )


def needless(work: Work) -> None:
    """Where it turned out that a mutation was not executed, nobody is asked any more what becomes of its compensation."""
    for escalation_id, question in list(work.run.questions.items()):
        if question.fact.item == "compensation" and _mutation(work, question.fact.scope).status is Status.NOT_EXECUTED:
            work.emit(ev.EscalationWithdrawn(escalation_id=escalation_id, reason="it turned out that it was not done"))


def decided(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    """What a person says about a stuck compensation: try again, or done by hand; what nobody answers stays as it is."""
    unwinding = work.run.saga.unwinding
    key = question.fact.scope
    if unwinding is None or unwinding.current is None or unwinding.current.key != key:
        return
    if given.verb == "approve":
        work.emit(ev.CompensationResumed(command_id=unwinding.current.command_id, of_key=key))
    elif given.verb == "respond":
        fact = ev.CompensationByHand(of_key=key, tool=_mutation(work, key).tool, actor=given.actor)
        work.emit(fact, {"message": given.message})
    else:
        abandon(work, key, "nobody answered in time")


def abandon(work: Work, key: str, reason: str) -> None:
    """One mutation stays as it is, and nobody tries any more."""
    work.emit(ev.CompensationAbandoned(of_key=key, tool=_mutation(work, key).tool, reason=reason))


def stop(work: Work, reason: str) -> None:
    """An operator ends the run at once: what is not undone yet stays."""
    unwinding = work.run.saga.unwinding
    if unwinding is None:
        return
    if unwinding.current is not None and unwinding.current.out:
        current = unwinding.current
        work.commands.append(AbortCall(command_id=current.command_id, attempt=current.attempt))
    for escalation_id, question in list(work.run.questions.items()):
        if question.fact.item == "compensation":
            work.emit(ev.EscalationWithdrawn(escalation_id=escalation_id, reason=reason))
    for key in unwinding.left:
        abandon(work, key, reason)


def said(work: Work) -> str:
    """What the end of the run says of its mutations, as a part of a sentence; empty: there is nothing to say."""
    if work.run.saga is EMPTY:
        return ""
    by_status: dict[Status, list[str]] = {}
    for one in work.run.saga.mutations:
        by_status.setdefault(one.status, []).append(one.tool)
    parts = []
    undone = len(by_status.get(Status.UNDONE, ())) + len(by_status.get(Status.BY_HAND, ()))
    if undone:
        parts.append(f"{undone} of its changes {'was' if undone == 1 else 'were'} undone")
    stays = by_status.get(Status.SKIPPED, []) + by_status.get(Status.ABANDONED, [])
    if stays:
        parts.append(f"what stays: {', '.join(stays)}")
    return "; ".join(parts)
