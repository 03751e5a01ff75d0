"""Calls that change the world: their keys, intents, outcomes, and the reconciliation of unknown outcomes.

A mutation is never sent again blindly. After an attempt with an unknown outcome, whatever ended it, ``resolve`` calls
the tool's reconcile tool, or opens a review.
"""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.decision.work import Work
from fabric.core.events.commands import AbortCall, CallTool
from fabric.core.events.inputs import CallFailed, ModelReplied, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.state.failure import Failure
from fabric.core.state.run import Pending, Step
from fabric.core.values.command_ids import unit
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import Stage
from fabric.core.values.saga import (
    DOUBTFUL,
    MUTATES,
    ON_UNKNOWN,
    STATUS,
    Effect,
    Errand,
    Mutation,
    Outcome,
    Then,
    build_key,
    find_by_command,
    find_by_key,
    find_check,
    read_scope,
)
from fabric.core.values.taxonomy import Cause, Evidence, Trip
from fabric.core.values.units import JSON, US

NAME = "saga"


def read_outcome(given: ToolFinished | CallFailed) -> Outcome:
    """Return a port's outcome of a call; an error without an outcome means that it was not executed."""
    if given.outcome is not None:
        return given.outcome
    return Outcome.REJECTED if isinstance(given, ToolFinished) and given.error else Outcome.ANSWERED


def outcome_for_key(mutation: Mutation | None, outcome: Outcome) -> Outcome:
    """Return the outcome for a key. A rejection proves nothing while an earlier attempt under the key is in doubt:
    returns UNKNOWN then.
    """
    if mutation is not None and mutation.doubted and outcome is Outcome.REJECTED:
        return Outcome.UNKNOWN
    return outcome


# -- keys and intents --------------------------------------------------------------------------------------------------


def key(work: Work, step: Step, tool: ToolSpec, call_id: str, args_hash: str) -> str:
    """Return the key of a call of the step's last answer. Equal calls of one activation differ by their number;
    those of two activations share a key.
    """
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
    """Return the first key that no other call of the step has taken. An equal call with a shorter review takes its
    number earlier.
    """
    while True:
        scope = read_scope(step.id, carry_over=tool.carry_over)
        key = build_key(work.run.id, scope, tool.name, args_hash, ordinal)
        made = find_by_key(work.run.saga, key)
        own = made is not None and made.command_id.startswith(f"{step.id}.t")
        if made is None or not own or made.call_id == call_id:
            return key
        ordinal += 1


def find_mutation(work: Work, mutation_key: str) -> Mutation | None:
    """Return the earlier mutation under a key, of this activation of the step or an earlier one; None: none."""
    return find_by_key(work.run.saga, mutation_key)


def in_doubt(mutation: Mutation | None) -> bool:
    """Return True if it is unknown whether the mutation was executed."""
    return mutation is not None and mutation.status in DOUBTFUL


def reconcilable(tool: ToolSpec, mutation: Mutation) -> bool:
    """Return True if a tool can still reconcile the mutation."""
    return ON_UNKNOWN[mutation.effect] is Then.RECONCILE and tool.reconcile is not None and not mutation.asked


def intend(work: Work, issued: ev.CallIssued) -> None:
    """Journal the compensation before the call's own intent."""
    tool = work.compiled_fabric.spec.tool(issued.target)
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
    """Journal a mutation's outcome; nothing for another call, or if it was known before.

    ``of_key``: the outcome is of all attempts under its key, not of the last one alone.
    """
    mutation = find_by_command(work.run.saga, command_id)
    if mutation is None or mutation.status not in DOUBTFUL:
        return
    if not of_key:
        outcome = outcome_for_key(mutation, outcome)
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


def take_late_result(work: Work, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """Take in a result of a call that the run no longer waits for. Its data is ignored, but it settles the
    mutation's outcome.
    """
    mutation = find_by_command(work.run.saga, given.command_id)
    if isinstance(given, ModelReplied) or mutation is None:
        return
    match read_outcome(given):
        case Outcome.ANSWERED | Outcome.LATE:
            result = {"result": given.result} if isinstance(given, ToolFinished) else None
            settle(work, given.command_id, Outcome.LATE, reason="its result came late", result=result)
        case Outcome.REJECTED if given.attempt == mutation.attempt:  # It proves nothing about a later attempt.
            settle(work, given.command_id, Outcome.REJECTED, reason="it turned out late that it was not done")


def let_go(work: Work, command_id: str, reason: str) -> None:
    """Settle an aborted call in flight as unknown."""
    settle(work, command_id, Outcome.UNKNOWN, reason=reason)


def interrupted_call(work: Work, command_id: str, *, sent: bool) -> None:
    """Settle a call whose process is gone or stops: unknown if it was sent, rejected if it never was."""
    if sent:
        settle(work, command_id, Outcome.UNKNOWN, reason="the process that had it out is gone")
    else:
        settle(work, command_id, Outcome.REJECTED, reason="its process stopped before it was sent")


def drop_checks(work: Work, reason: str, step_id: str | None = None, *, command_id: str | None = None) -> None:
    """End the reconciliations of a step, of a call, or of the whole run, whose result is no longer needed."""
    for check in work.run.saga.checks:
        if step_id in (None, check.step_id) and command_id in (None, check.command):
            if check.out:
                work.commands.append(AbortCall(command_id=check.command_id, attempt=check.attempt))
            _end_check(work, check, "unknown", reason)


def _end_check(work: Work, check: Errand, found: Any, reason: str) -> None:
    work.emit(ev.ReconciliationEnded(command_id=check.command_id, of_key=check.key, found=found, reason=reason))


# -- an unknown outcome ------------------------------------------------------------------------------------------------


def waits_for_check(work: Work, command_id: str) -> bool:
    """Return True if a call waits for a reconciliation."""
    return bool(work.run.saga.checks) and find_check(work.run.saga, command_id) is not None


def resolve(work: Work, pending: Pending) -> Failure | None:
    """Resolve a failed or interrupted call with an unknown outcome. Start its reconciliation, or return the failure
    that opens a review.
    """
    issued = pending.issued
    mutation = find_by_command(work.run.saga, issued.command_id)
    assert mutation is not None
    tool = work.compiled_fabric.spec.tool(mutation.tool)
    if reconcilable(tool, mutation) and not _why_not_asked(work, tool.reconcile):
        ask(work, mutation, issued.command_id, issued.step_id)
        return None
    stage = Stage(issued.step_id.partition(".")[0])
    return Failure((unknown_trip(mutation),), stage, issued.step_id, issued)


def unknown_trip(mutation: Mutation) -> Trip:
    """Return the trip of a mutation with an unknown outcome."""
    evidence = Evidence(scope=f"tool:{mutation.tool}", details={"effect": str(mutation.effect), "key": mutation.key})
    why = f" ({mutation.reason})" if mutation.reason else ""
    message = (
        f"it is unknown whether {mutation.tool} was executed{why}, so it is not sent again without a person's decision"
    )
    return Trip(NAME, Cause.OUTCOME_UNKNOWN, evidence, message, "It is not known whether this call was executed.")


def ask(work: Work, mutation: Mutation, of_command: str, step_id: str) -> None:
    """Call the reconcile tool about a mutation."""
    before = find_check(work.run.saga, of_command)
    tool = work.compiled_fabric.spec.tool(mutation.tool).reconcile
    assert tool is not None
    attempt = 1 if before is None else before.attempt + 1
    stage = work.run.stages[work.run.stage]
    deadline = min(work.ctx.now + int(timeout_s(work, tool) * US), stage.deadline_at, work.run.deadline_at)
    content = None if before is not None else {"args": {"key": mutation.key, "args": find_args(work, mutation)}}
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
    check = find_check(work.run.saga, of_command)
    assert check is not None
    work.commands.append(build_command(check))


def _question(mutation: Mutation, of_command: str) -> tuple[str, str]:
    """Return the command id and the key of a reconciliation. A call may wait for another call's outcome under its
    key, and later be in doubt itself.

    Those are two reconciliations. A service that remembers its answers by key must not answer the second with the
    first's.
    """
    whose = "" if mutation.command_id == of_command else f".{digest(mutation.command_id)[:8]}"
    return f"{of_command}.q{mutation.attempt}{whose}", digest(
        "reconcile", mutation.key, mutation.command_id, mutation.attempt
    )


def ask_again(work: Work, check: Errand) -> None:
    """Issue the next attempt of a reconciliation, or end it if the workspace's policy denies its tool by now."""
    mutation = find_mutation(work, check.key)
    assert mutation is not None
    if why := _why_not_asked(work, work.compiled_fabric.spec.tool(mutation.tool).reconcile):
        _end_check(work, check, "unknown", f"{check.tool} was not asked again: {why}"[:500])
        return
    ask(work, mutation, check.command, check.step_id)


def _why_not_asked(work: Work, tool: str | None) -> str:
    """Return why a reconcile tool may not be called; "" if it may."""
    if tool is None:
        return "the workspace's policy declares it irreversible"
    return work.compiled_fabric.under.denied.get(f"tool:{tool}", "")


def build_command(errand: Errand) -> CallTool:
    """Return the command of an errand."""
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
    """Return the seconds that one attempt of an errand may take: the tool's own value, else the tier's."""
    own = work.compiled_fabric.spec.tool(tool).timeout_s
    return own or work.policy_in(work.run.stage).deadlines_of(work.run.tier).call_s


def find_args(work: Work, mutation: Mutation) -> JSON:
    """Return the arguments of the mutation's call: from the answer that proposed it, or from a child's hand-up."""
    known = work.ctx.contents.read(mutation.args_ref)
    if mutation.child_id:
        return known["args"]
    return next(one["args"] for one in known["calls"] if one["call_id"] == mutation.call_id)


def find_result(work: Work, mutation: Mutation) -> JSON:
    """Return the mutation's answer; None if it is unknown."""
    return work.ctx.contents.read(mutation.result_ref).get("result") if mutation.result_ref else None


def compensation_arguments(work: Work, mutation: Mutation) -> JSON:
    """Return the arguments of a compensation: the key, the call's arguments, and its result if known."""
    return {"args": {"key": mutation.key, "args": find_args(work, mutation), "result": find_result(work, mutation)}}


# -- reconciliation answers --------------------------------------------------------------------------------------------


def take_reconciliation(work: Work, check: Errand, given: ToolFinished | CallFailed) -> bool | None:
    """Journal a reconcile tool's answer and return whether the mutation was executed; None: unknown."""
    said = given.result if isinstance(given, ToolFinished) and not given.error else None
    executed = said.get("executed") if isinstance(said, dict) else None
    mutation = find_mutation(work, check.key)
    if executed is False and mutation is not None and work.ctx.now < mutation.deadline_at:
        _too_early(work, check, mutation.deadline_at)
        return None
    if isinstance(executed, bool):
        _end_check(work, check, "executed" if executed else "not_executed", f"{check.tool} said so")
        return executed
    _not_said(work, check, given)
    return None


def _too_early(work: Work, check: Errand, at: int) -> None:
    """Journal that "not executed" came before the call's deadline. That settles nothing: the call may still arrive,
    sent by a process that is out of contact.
    """
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
    policy = work.compiled_fabric.spec.policy.saga
    if isinstance(given, CallFailed):
        cause, message = given.cause, given.message
    else:
        cause = Cause.MALFORMED_ANSWER
        message = given.error or f'{check.tool} did not answer {{"executed": true or false, "result": ...}}'
    if check.failures + 1 >= policy.reconcile_attempts:
        _end_check(work, check, "unknown", f"{check.tool} was asked {check.attempt} times: {message}"[:500])
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


def interrupt_check(work: Work, check: Errand) -> None:
    """Call the reconcile tool again at once after its process is gone; that counts as no failure."""
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
    """Return the seconds until an errand's next attempt: full jitter under the cap.

    It is drawn from ``U(0, base * factor^n)``, n = 0 first.
    """
    policy = work.compiled_fabric.spec.policy.saga
    drawn = unit(work.ctx.seed, "errand", f"{errand.command_id}#{errand.attempt}")
    return min(policy.retry_cap_s, drawn * policy.retry_base_s * policy.retry_factor**errand.failures)
