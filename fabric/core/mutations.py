"""Calls that change the world: their keys, their intents, what became of them, and what is done about one of which nobody knows.

A mutation is never sent again blindly. After an attempt whose outcome is unknown, whatever ended it, ``resolve`` asks the tool's reconcile tool, or a person.
"""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.commands import AbortCall, CallTool
from fabric.core.draw import unit
from fabric.core.failure import Failure
from fabric.core.fingerprint import digest
from fabric.core.flow import Stage
from fabric.core.inputs import CallFailed, ModelReplied, ToolFinished
from fabric.core.mutation_keys import mutation_key
from fabric.core.run import Pending, Step
from fabric.core.saga import (
    DOUBTFUL,
    MUTATES,
    ON_UNKNOWN,
    STATUS,
    Effect,
    Errand,
    Mutation,
    Outcome,
    Then,
    by_command,
    by_key,
    check_of,
)
from fabric.core.spec_tools import ToolSpec
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import US, Work

JSON = Any
NAME = "saga"


def outcome_of(given: ToolFinished | CallFailed) -> Outcome:
    """What a port says about whether a call was done; an error without a word on that means no."""
    if given.outcome is not None:
        return given.outcome
    return Outcome.REJECTED if isinstance(given, ToolFinished) and given.error else Outcome.ANSWERED


def says_of_key(mutation: Mutation | None, outcome: Outcome) -> Outcome:
    """What an attempt's outcome says about its key: that it was refused says nothing of an attempt before it that nobody knows about."""
    if mutation is not None and mutation.doubted and outcome is Outcome.REJECTED:
        return Outcome.UNKNOWN
    return outcome


# -- keys and intents --------------------------------------------------------------------------------------------------


def key(work: Work, step: Step, tool: ToolSpec, call_id: str, args_hash: str) -> str:
    """The key of a call of the step's last answer: equal calls of one activation are told apart by their number, those of two are not."""
    earlier: dict[str, None] = {}
    last = len(step.history) - 1
    for number, turn in enumerate(step.history):
        for record in turn.calls:
            if number == last and record.call_id == call_id:
                return _key(work, step, tool, call_id, args_hash, len(earlier))
            if (record.tool, record.args_hash) == (tool.name, args_hash) and record.state != "refused":
                earlier[record.call_id] = None
    raise AssertionError(f"step {step.id} proposed no call {call_id!r} last")


def _key(work: Work, step: Step, tool: ToolSpec, call_id: str, args_hash: str, ordinal: int) -> str:
    """Returns the first key that no other call of the step has taken. An equal call that people are asked about for less long takes its number earlier."""
    while True:
        key = mutation_key(work.run, step, tool.name, args_hash, ordinal, carry_over=tool.carry_over)
        made = by_key(work.run.saga, key)
        own = made is not None and made.command_id.startswith(f"{step.id}.t")
        if made is None or not own or made.call_id == call_id:
            return key
        ordinal += 1


def known(work: Work, mutation_key: str) -> Mutation | None:
    """What was done under a key before, in this activation of the step or an earlier one."""
    return by_key(work.run.saga, mutation_key)


def in_doubt(mutation: Mutation | None) -> bool:
    """Whether nobody knows if it was executed."""
    return mutation is not None and mutation.status in DOUBTFUL


def reconcilable(tool: ToolSpec, mutation: Mutation) -> bool:
    """Whether a tool can still be asked what became of a mutation."""
    return ON_UNKNOWN[mutation.effect] is Then.RECONCILE and tool.reconcile is not None and not mutation.asked


def intend(work: Work, issued: ev.CallIssued) -> None:
    """Journals the way back before the call's own intent."""
    tool = work.compiled.spec.tool(issued.target)
    if tool.effect not in MUTATES:
        return
    work.emit(
        ev.MutationIntended(
            command_id=issued.command_id,
            attempt=issued.attempt,
            key=issued.key,
            step_id=issued.step_id,
            call_id=issued.call_id,
            tool=issued.target,
            effect=Effect(tool.effect),
            compensation=tool.compensation or "",
            carry_over=tool.carry_over,
            args_ref=issued.args_ref,
            deadline_at=issued.deadline_at,
        )
    )


# -- what became of them -----------------------------------------------------------------------------------------------


def settle(
    work: Work,
    command_id: str,
    outcome: Outcome,
    *,
    reason: str = "",
    cause: Cause | None = None,
    result_ref: str = "",
    result: JSON = None,
    of_key: bool = False,
) -> None:
    """Journals what is known of a mutation now; nothing for a call that is none, or of which it was known before.

    ``of_key``: the outcome is of all attempts under its key, not of the last one alone.
    """
    mutation = by_command(work.run.saga, command_id)
    if mutation is None or mutation.status not in DOUBTFUL:
        return
    if not of_key:
        outcome = says_of_key(mutation, outcome)
    status = STATUS[mutation.effect, outcome]
    if status is mutation.status and outcome is Outcome.UNKNOWN:
        return
    work.emit(
        ev.MutationSettled(
            command_id=command_id,
            attempt=mutation.attempt,
            key=mutation.key,
            tool=mutation.tool,
            outcome=outcome,
            status=status,
            reason=reason,
            cause=cause,
            result_ref=result_ref,
        ),
        result,
    )


def late(work: Work, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """A result of a call that nobody waits for any more: as data it is ignored, but it says what became of the mutation."""
    mutation = by_command(work.run.saga, given.command_id)
    if isinstance(given, ModelReplied) or mutation is None:
        return
    match outcome_of(given):
        case Outcome.ANSWERED | Outcome.LATE:
            result = {"result": given.result} if isinstance(given, ToolFinished) else None
            settle(work, given.command_id, Outcome.LATE, reason="its result came late", result=result)
        case Outcome.REJECTED if given.attempt == mutation.attempt:  # It says nothing of a later attempt.
            settle(work, given.command_id, Outcome.REJECTED, reason="it turned out late that it was not done")


def let_go(work: Work, command_id: str, reason: str) -> None:
    """A call in flight is let go of: whether it was done nobody knows."""
    settle(work, command_id, Outcome.UNKNOWN, reason=reason)


def interrupted_call(work: Work, command_id: str, *, sent: bool) -> None:
    """The process that held a call is gone, or stops; it knows what it never sent."""
    if sent:
        settle(work, command_id, Outcome.UNKNOWN, reason="the process that had it out is gone")
    else:
        settle(work, command_id, Outcome.REJECTED, reason="its process stopped before it was sent")


def dropped(work: Work, reason: str, step_id: str | None = None, *, command_id: str | None = None) -> None:
    """Ends the reconciliations of a step, of a call, or of the whole run: nobody waits for what they would say."""
    for check in work.run.saga.checks:
        if step_id in (None, check.step_id) and command_id in (None, check.command):
            if check.out:
                work.commands.append(AbortCall(command_id=check.command_id, attempt=check.attempt))
            _ended(work, check, "unknown", reason)


def _ended(work: Work, check: Errand, found: Any, reason: str) -> None:
    work.emit(ev.ReconciliationEnded(command_id=check.command_id, of_key=check.key, found=found, reason=reason))


# -- an outcome that nobody knows --------------------------------------------------------------------------------------


def waits(work: Work, command_id: str) -> bool:
    """Whether a call waits for a reconciliation."""
    return bool(work.run.saga.checks) and check_of(work.run.saga, command_id) is not None


def resolve(work: Work, pending: Pending) -> Failure | None:
    """What is done about a failed or interrupted call whose outcome is unknown: it is asked about, here or of a person."""
    issued = pending.issued
    mutation = by_command(work.run.saga, issued.command_id)
    assert mutation is not None
    tool = work.compiled.spec.tool(mutation.tool)
    if reconcilable(tool, mutation) and not _why_not_asked(work, tool.reconcile):
        ask(work, mutation, issued.command_id, issued.step_id)
        return None
    stage = Stage(issued.step_id.partition(".")[0])
    return Failure((unknown_trip(mutation),), stage, issued.step_id, issued)


def unknown_trip(mutation: Mutation) -> Trip:
    """The trip of a mutation whose outcome nobody knows."""
    evidence = Evidence(scope=f"tool:{mutation.tool}", details={"effect": str(mutation.effect), "key": mutation.key})
    why = f" ({mutation.reason})" if mutation.reason else ""
    message = f"nobody knows whether {mutation.tool} was executed{why}, so it is not sent again without a person's word"
    return Trip(NAME, Cause.OUTCOME_UNKNOWN, evidence, message, "It is not known whether this call was executed.")


def ask(work: Work, mutation: Mutation, of_command: str, step_id: str) -> None:
    """Asks the reconcile tool whether a mutation was executed."""
    before = check_of(work.run.saga, of_command)
    tool = work.compiled.spec.tool(mutation.tool).reconcile
    assert tool is not None
    attempt = 1 if before is None else before.attempt + 1
    stage = work.run.stages[work.run.stage]
    deadline = min(work.ctx.now + int(timeout_s(work, tool) * US), stage.deadline_at, work.run.deadline_at)
    content = None if before is not None else {"args": {"key": mutation.key, "args": args_of(work, mutation)}}
    command_id, key = _question(mutation, of_command) if before is None else (before.command_id, before.own_key)
    fact = ev.ReconciliationIssued(
        command_id=command_id,
        attempt=attempt,
        of_command=of_command,
        step_id=step_id,
        of_key=mutation.key,
        tool=tool,
        key=key,
        deadline_at=deadline,
        args_ref="" if before is None else before.args_ref,
    )
    work.emit(fact, content)
    check = check_of(work.run.saga, of_command)
    assert check is not None
    work.commands.append(command_of(check))


def _question(mutation: Mutation, of_command: str) -> tuple[str, str]:
    """Its command id, and its own key. A call may wait for what became of another one under the same key, and be doubtful itself later.

    Those are two questions. A service that remembers its answer under a key must not answer the second as the first.
    """
    whose = "" if mutation.command_id == of_command else f".{digest(mutation.command_id)[:8]}"
    return f"{of_command}.q{mutation.attempt}{whose}", digest(
        "reconcile", mutation.key, mutation.command_id, mutation.attempt
    )


def ask_again(work: Work, check: Errand) -> None:
    """The next attempt of a reconciliation; its end where the workspace's policy has taken its tool away since."""
    mutation = known(work, check.key)
    assert mutation is not None
    if why := _why_not_asked(work, work.compiled.spec.tool(mutation.tool).reconcile):
        _ended(work, check, "unknown", f"{check.tool} was not asked again: {why}"[:500])
        return
    ask(work, mutation, check.command, check.step_id)


def _why_not_asked(work: Work, tool: str | None) -> str:
    """Why a reconcile tool may not be called; empty: it may."""
    if tool is None:
        return "the workspace's policy declares it irreversible"
    return work.compiled.under.denied.get(f"tool:{tool}", "")


def command_of(errand: Errand) -> CallTool:
    """The command that an errand stands for."""
    return CallTool(
        command_id=errand.command_id,
        attempt=errand.attempt,
        step_id=errand.step_id,
        agent="",
        tool=errand.tool,
        args_ref=errand.args_ref,
        call_id="",
        idempotency_key=errand.own_key,
        deadline_at=errand.deadline_at,
    )


def timeout_s(work: Work, tool: str) -> float:
    """Seconds that one attempt of an errand may take: the tool's own value, else the tier's."""
    own = work.compiled.spec.tool(tool).timeout_s
    return own or work.policy_in(work.run.stage).deadlines_of(work.run.tier).call_s


def args_of(work: Work, mutation: Mutation) -> JSON:
    """The arguments that the mutation was called with: from the answer that proposed it, or from what a child handed up."""
    known = work.ctx.contents.read(mutation.args_ref)
    if mutation.child_id:
        return known["args"]
    return next(one["args"] for one in known["calls"] if one["call_id"] == mutation.call_id)


def result_of(work: Work, mutation: Mutation) -> JSON:
    """What it answered; None where that is not known."""
    return work.ctx.contents.read(mutation.result_ref).get("result") if mutation.result_ref else None


def undoing(work: Work, mutation: Mutation) -> JSON:
    """What a compensation is called with: the key, the arguments, and the result where one is known."""
    return {"args": {"key": mutation.key, "args": args_of(work, mutation), "result": result_of(work, mutation)}}


# -- reconciliation answers --------------------------------------------------------------------------------------------


def reconciled(work: Work, check: Errand, given: ToolFinished | CallFailed) -> bool | None:
    """Journals what a reconcile tool said: whether the mutation was executed; None: it did not say."""
    said = given.result if isinstance(given, ToolFinished) and not given.error else None
    executed = said.get("executed") if isinstance(said, dict) else None
    mutation = known(work, check.key)
    if executed is False and mutation is not None and work.ctx.now < mutation.deadline_at:
        _too_early(work, check, mutation.deadline_at)
        return None
    if isinstance(executed, bool):
        _ended(work, check, "executed" if executed else "not_executed", f"{check.tool} said so")
        return executed
    _not_said(work, check, given)
    return None


def _too_early(work: Work, check: Errand, at: int) -> None:
    """Not yet is no answer: the call may still be on its way, sent by a process that nobody hears of any more."""
    work.emit(
        ev.ReconciliationFailed(
            command_id=check.command_id,
            attempt=check.attempt,
            cause=Cause.UNKNOWN,
            message="it was not executed yet, and may still arrive before its deadline",
            not_before=at,
            interrupted=True,
        )
    )


def _not_said(work: Work, check: Errand, given: ToolFinished | CallFailed) -> None:
    policy = work.compiled.spec.policy.saga
    if isinstance(given, CallFailed):
        cause, message = given.cause, given.message
    else:
        cause = Cause.MALFORMED_ANSWER
        message = given.error or f'{check.tool} did not answer {{"executed": true or false, "result": ...}}'
    if check.failures + 1 >= policy.reconcile_attempts:
        _ended(work, check, "unknown", f"{check.tool} was asked {check.attempt} times: {message}"[:500])
        return
    delay = int(delay_s(work, check) * US)
    work.emit(
        ev.ReconciliationFailed(
            command_id=check.command_id,
            attempt=check.attempt,
            cause=cause,
            message=message[:500],
            not_before=work.ctx.now + delay,
        )
    )


def interrupted(work: Work, check: Errand) -> None:
    """The process that asked is gone: it is asked again at once, and counts as no failure."""
    work.emit(
        ev.ReconciliationFailed(
            command_id=check.command_id,
            attempt=check.attempt,
            cause=Cause.DROPPED_STREAM,
            message="the process that asked is gone",
            not_before=work.ctx.now,
            interrupted=True,
        )
    )


def delay_s(work: Work, errand: Errand) -> float:
    """Seconds until an errand's next attempt: full jitter ``U(0, base * factor^n)`` under the cap, n = 0 first."""
    policy = work.compiled.spec.policy.saga
    drawn = unit(work.ctx.seed, "errand", f"{errand.command_id}#{errand.attempt}")
    return min(policy.retry_cap_s, drawn * policy.retry_base_s * policy.retry_factor**errand.failures)
