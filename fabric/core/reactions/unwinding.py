"""Undoes the mutations of a run, one at a time and the newest first (docs/specification/changes.md). Each compensation
has its own key, deadline and retries.

A run unwinds before a bad end, and before a replan for mutations that are not carried over. A compensation without an
attempt left goes to a review, where a person retries it or reports that it was done by hand. Mutations that stay are
reported. The run's deadlines do not count meanwhile: ``wake_at`` serves this alone.
"""

from __future__ import annotations

from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.commands import AbortCall
from fabric.core.events.inputs import CallFailed, DecisionMade, ModelReplied, ToolFinished
from fabric.core.reviews import reviews
from fabric.core.sagas import handing_up, mutations
from fabric.core.state.run import OpenReview, awaits_children
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import Stage
from fabric.core.values.saga import (
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
    find_by_key,
    undo_order,
)
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON, US

CANNOT = "it cannot be undone: the tool is declared irreversible"


def begin(work: Work, purpose: Literal["ending", "replan"], stage: Stage, reason: str, told: JSON = None) -> bool:
    """Start to undo the standing mutations; return False if there are none. Stopped children may still hand some up."""
    order = undo_order(work.run.saga.mutations, replan=purpose == "replan")
    if not order and not handing_up.is_awaited(work):
        return False
    # A run whose journal could not be folded may have a reconciliation open, which would wake it for ever.
    mutations.drop_checks(work, "possible changes are undone")
    work.emit(ev.UnwindingStarted(purpose=purpose, order=order, stage=stage, reason=reason), told)
    return True


def move(work: Work) -> bool:
    """Undo as far as possible without waiting for the world; return True while something is left to undo."""
    while work.run.saga is not EMPTY:
        unwinding = work.run.saga.unwinding
        if unwinding is None:
            if work.run.ending is None or not _at_end(work, work.run.ending):
                return False
        elif unwinding.current is not None:
            return _try_again(work, unwinding.current)
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
    """Start to undo at the run's end, if its rule says so; otherwise report the mutations that stay. Returns True if
    something is undone.
    """
    rule = UNWINDS[ending.reaction]
    if rule is Unwinds.YES or (
        rule is Unwinds.UNLESS_POLICY and work.compiled_fabric.spec.policy.saga.unwind_on_cancel
    ):
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
    found = find_by_key(work.run.saga, key)
    assert found is not None
    return found


def _next(work: Work, key: str) -> bool:
    """Begin to undo one mutation, or journal why not; return True if a compensation is out now, or is delayed.

    A mutation in doubt is not undone before its deadline: until then it may still arrive at the other side, and an
    earlier compensation would undo nothing.
    """
    mutation = _mutation(work, key)
    if mutation.effect is Effect.IRREVERSIBLE or not mutation.compensation:
        work.emit(ev.CompensationSkipped(of_key=key, tool=mutation.tool, reason=CANNOT))
        return False
    early = mutation.status in DOUBTFUL and work.ctx.now < mutation.deadline_at
    if early or _is_held(work):
        return True
    _issue(work, mutation, None)
    return _is_out(work)


def _is_out(work: Work) -> bool:
    """Return True if a compensation is out; False if its mutation turned out not to be executed."""
    return work.run.saga.unwinding is not None and work.run.saga.unwinding.current is not None


def _is_held(work: Work) -> bool:
    """Return True if nothing may be sent now. A run that ends undoes its mutations even while paused."""
    return work.ctx.draining or (work.held and work.run.ending is None)


def _try_again(work: Work, current: Errand) -> bool:
    if not (current.out or current.stuck or current.not_before > work.ctx.now or _is_held(work)):
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
    given = mutations.compensation_arguments(work, mutation) if before is None else None
    work.emit(fact, given)
    assert work.run.saga.unwinding is not None
    assert work.run.saga.unwinding.current is not None
    current = work.run.saga.unwinding.current
    if work.compiled_fabric.spec.in_journal(tool):
        undone = ToolFinished(command_id=current.command_id, attempt=current.attempt, result={"restored": True})
        take_answer(work, current, undone)  # A run's memory follows from the mutations that were not undone.
        return
    if given is not None and (why := work.compiled_fabric.under.denied.get(f"tool:{tool}")):
        _withheld(work, current, f"the workspace's policy forbids the call: {why}")
        return
    if given is not None and (found := work.compiled_fabric.evaluators.hits("arguments", given["args"])):
        _withheld(work, current, f"its arguments contain data that may not leave the run: {'; '.join(found[:3])}")
        return
    work.commands.append(mutations.build_command(current))


def _withheld(work: Work, current: Errand, why: str) -> None:
    """Open a review of a compensation that is not sent. An approval sends it, since a mutation that stays may be
    worse.
    """
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
    _open_compensation_review(work, current, said[:500], withheld=True)


# -- what came back --------------------------------------------------------------------------------------------------


def take_answer(work: Work, current: Errand, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """Journal the result of one compensation attempt."""
    if isinstance(given, ToolFinished) and (not given.error or given.outcome is Outcome.ANSWERED):
        # An executed call is not repeated, even if its answer cannot be read.
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
    _fail_attempt(work, current, cause, message[:500])


def _fail_attempt(work: Work, current: Errand, cause: Cause, message: str) -> None:
    last = current.failures + 1 >= work.compiled_fabric.spec.policy.saga.compensation_attempts
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
        _open_compensation_review(work, current, message)


def interrupt(work: Work, current: Errand) -> None:
    """Interrupt an attempt whose process is gone: it goes out again under its key, and counts as no failure."""
    work.emit(ev.CompensationInterrupted(command_id=current.command_id, attempt=current.attempt, of_key=current.key))


# -- stuck -----------------------------------------------------------------------------------------------------------


def _open_compensation_review(work: Work, current: Errand, message: str, *, withheld: bool = False) -> None:
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
    shown = mutations.compensation_arguments(work, mutation)["args"]
    reason = f"{current.tool} could not undo {mutation.tool} in {current.attempt} attempts: {message}"
    if withheld:
        shown = {"key": shown["key"], "args": shown["args"]}  # They were checked when the call was made.
        reason = f"{current.tool} did not undo {mutation.tool}: {message}"
    reviews.open_item(
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
    """Withdraw the review of a compensation whose mutation turned out not to be executed."""
    for review_id, review in list(work.run.reviews.items()):
        if review.fact.item == "compensation" and _mutation(work, review.fact.scope).status is Status.NOT_EXECUTED:
            work.emit(ev.ReviewWithdrawn(review_id=review_id, reason="it turned out that it was not done"))


def take_decision(work: Work, review: OpenReview, given: DecisionMade) -> None:
    """Carry out a person's answer about a stuck compensation: retry, or done by hand. Without an answer the mutation
    stays.
    """
    unwinding = work.run.saga.unwinding
    key = review.fact.scope
    if unwinding is None or unwinding.current is None or unwinding.current.key != key:
        return
    if given.verb == "approve":
        work.emit(ev.CompensationResumed(command_id=unwinding.current.command_id, of_key=key))
    elif given.verb == "respond":
        fact = ev.CompensationByHand(of_key=key, tool=_mutation(work, key).tool, actor=given.actor)
        work.emit(fact, {"message": given.message})
    else:
        abandon(work, key, "no one answered in time")


def abandon(work: Work, key: str, reason: str) -> None:
    """Give up on one mutation: it stays, and no further attempt is made."""
    work.emit(ev.CompensationAbandoned(of_key=key, tool=_mutation(work, key).tool, reason=reason))


def stop(work: Work, reason: str) -> None:
    """Stop undoing, since an operator ends the run at once: the remaining mutations stay."""
    unwinding = work.run.saga.unwinding
    if unwinding is None:
        return
    if unwinding.current is not None and unwinding.current.out:
        current = unwinding.current
        work.commands.append(AbortCall(command_id=current.command_id, attempt=current.attempt))
    for review_id, review in list(work.run.reviews.items()):
        if review.fact.item == "compensation":
            work.emit(ev.ReviewWithdrawn(review_id=review_id, reason=reason))
    for key in unwinding.left:
        abandon(work, key, reason)


def mutations_sentence(work: Work) -> str:
    """Return the mutations' part of the sentence about the run's end; "" if there are none."""
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
        parts.append(f"not undone: {', '.join(stays)}")
    return "; ".join(parts)
