"""Handles a port's result: an answer, a tool's result, or a failure.

A result for a call that is no longer pending is late or a duplicate. Results of the saga's own calls, compensations and
reconciliations, are handled here too.
"""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.calls.tool_answers import tool_answered
from fabric.core.decision.work import Work
from fabric.core.events.inputs import CallFailed, CallStreamed, ModelReplied, ToolFinished
from fabric.core.handlers import clocks
from fabric.core.reactions import react as reactions
from fabric.core.reactions import unwinding
from fabric.core.reviews import requested_input
from fabric.core.sagas import mutations
from fabric.core.state.failure import Failure, call_failure, record
from fabric.core.state.run import Pending
from fabric.core.steps import agent_loop, streamed
from fabric.core.values import command_ids
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import Stage
from fabric.core.values.saga import Errand, Mutation, Outcome, awaited_errand, find_by_command, find_by_key
from fabric.core.values.taxonomy import CLASSIFY, Cause, Evidence, Trip

RAW_CHARS = 4_000
"""Most characters that are recorded of an answer that contradicts itself."""


def take_reply(work: Work, given: ModelReplied) -> None:
    """Journal a model's answer and react to its problems."""
    size = len(given.text.encode()) + sum(len(encode(call.args or call.raw_args)) for call in given.calls)
    if _too_large(work, given, size):
        return
    pending = _answers(work, given)
    if pending is None:
        return
    differs = streamed.contradiction(work, pending, given)
    if differs:
        _fail_call(work, pending, _build_malformed(given, differs))
    else:
        _react_to(work, agent_loop.take_answer(work, pending, given))


def call_streamed(work: Work, given: CallStreamed) -> None:
    """Take in a call of an answer that is still streaming in."""
    pending = work.run.pending.get(given.command_id)
    current = pending is not None and pending.epoch == work.run.epoch and not pending.failed
    if pending is not None and current and pending.issued.attempt == given.attempt:
        streamed.came(work, pending, given)


def _build_malformed(given: ModelReplied, differs: str) -> CallFailed:
    told = [{"call_id": call.call_id, "tool": call.tool, "args": call.args} for call in given.calls]
    return CallFailed(
        command_id=given.command_id,
        attempt=given.attempt,
        cause=Cause.MALFORMED_ANSWER,
        message=differs,
        raw=encode({"text": given.text, "calls": told}).decode()[:RAW_CHARS],
        billed=True,
        partial=True,
        probed=given.probed,
        **_bill(given),
    )


def _bill(given: ModelReplied) -> dict[str, Any]:
    """Return the cost of a refused answer, computed like that of an accepted one."""
    names = ("input_tokens", "output_tokens", "parts", "cost_usd_micros", "usage_problem")
    return {name: getattr(given, name) for name in names}


def take_result(work: Work, given: ToolFinished) -> None:
    """Journal a tool's result."""
    if answer_errand(work, given):
        return
    if _too_large(work, given, 0 if given.error else len(encode(given.result))):
        return
    pending = _answers(work, given)
    if pending is None or requested_input.note(work, pending, given):
        return
    mutation = find_by_command(work.run.saga, given.command_id)
    outcome = mutations.outcome_for_key(mutation, mutations.read_outcome(given))
    if given.error and outcome is Outcome.UNKNOWN and mutation is not None:
        # Its answer is no data for the model before its execution is known.
        _fail_call(
            work,
            pending,
            CallFailed(
                command_id=given.command_id,
                attempt=given.attempt,
                cause=Cause.UNKNOWN,
                message=given.error,
                probed=given.probed,
            ),
        )
        return
    _react_to(work, tool_answered(work, pending, given))
    streamed.begin_unblocked_calls(work, pending.issued.step_id)


def take_failure(work: Work, given: CallFailed) -> None:
    """Journal an attempt without an answer and react to it."""
    if answer_errand(work, given):
        return
    pending = _answers(work, given)
    if pending is not None:
        _fail_call(work, pending, given)


def _fail_call(work: Work, pending: Pending, given: CallFailed) -> None:
    issued = pending.issued
    charged = calls.build_charge(work, issued, given)
    if issued.call == "model":
        streamed.let_go(work, issued.step_id, "its answer did not come whole")
    fact = ev.AttemptFailed(
        command_id=given.command_id,
        attempt=given.attempt,
        step_id=issued.step_id,
        error_class=CLASSIFY[given.cause].error_class,
        cause=given.cause,
        message=given.message,
        status=given.status,
        retry_after_s=given.retry_after_s,
        charged_usd_micros=charged.usd_micros,
        charged_tokens=charged.tokens,
        billed=charged.billed,
        input_tokens=given.input_tokens,
        output_tokens=given.output_tokens,
        parts=given.parts,
        usage_problem=given.usage_problem,
        trip=None if given.trip is None else record(given.trip),
        breaker_wait_s=given.breaker_wait_s,
        shut=given.shut,
        partial=given.partial,
        probed=given.probed,
    )
    work.emit(fact, {"raw": given.raw} if given.raw else None)
    mutations.settle(
        work, given.command_id, mutations.read_outcome(given), reason=given.message[:500], cause=given.cause
    )
    step = work.run.steps.get(issued.step_id)
    if work.run.ending is not None:
        calls.let_go(work, work.run.pending[given.command_id], "the run is ending")
    elif step is not None and step.status == "active":
        # A call that was cut short by its stage's or run's deadline is that deadline, whichever is noticed first.
        late = clocks.overdue(work)
        if late is None and mutations.in_doubt(find_by_command(work.run.saga, given.command_id)):
            return  # It is reconciled first (``agent_loop.issue_again``).
        _react_to(work, late or call_failure(issued, fact, work.run.pending[given.command_id].said))


def _too_large(work: Work, given: ModelReplied | ToolFinished, size: int) -> bool:
    """Return True if an answer has more bytes than a run may record of one. It then counts as a failed attempt."""
    most = work.compiled_fabric.spec.policy.limits.content_bytes
    if size <= most:
        return False
    refused = CallFailed(
        command_id=given.command_id,
        attempt=given.attempt,
        cause=Cause.PAYLOAD_CAP,
        message=f"the answer has {size:,} bytes, and at most {most:,} are kept of one",
        billed=isinstance(given, ModelReplied),
        probed=given.probed,
        **(_bill(given) if isinstance(given, ModelReplied) else {}),
        outcome=mutations.read_outcome(given) if isinstance(given, ToolFinished) else Outcome.UNKNOWN,
    )
    take_failure(work, refused)
    return True


def _answers(work: Work, given: ModelReplied | ToolFinished | CallFailed) -> Pending | None:
    """Return the pending attempt that a result answers, or None. A duplicate is dropped; a late result is kept as a
    fact and ignored as data.
    """
    pending = work.run.pending.get(given.command_id)
    awaited = pending is not None and pending.issued.attempt == given.attempt and not pending.failed
    if pending is not None and awaited and pending.epoch == work.run.epoch:
        return pending
    if given.command_id in work.run.voided:
        reason = (
            "its plan was replaced"
            if command_ids.read_epoch(given.command_id) < work.run.epoch
            else "the call was abandoned"
        )
        fact = ev.LateResultIgnored(command_id=given.command_id, attempt=given.attempt, reason=reason)
        work.emit(fact, {"kind": given.kind})
        mutations.take_late_result(work, given)
        unwinding.needless(work)
    elif pending is not None and pending.failed and pending.issued.attempt == given.attempt:
        _after_all(work, pending, given)
    return None


def _after_all(work: Work, pending: Pending, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """Handle a late result of an attempt that was given up while its call still waits. For a call in doubt it is the
    answer.
    """
    if not mutations.in_doubt(find_by_command(work.run.saga, given.command_id)) or isinstance(given, ModelReplied):
        return
    if isinstance(given, ToolFinished) and mutations.read_outcome(given) is Outcome.ANSWERED:
        mutations.drop_checks(work, "its result came after all", command_id=given.command_id)
        _react_to(work, tool_answered(work, pending, given))
    else:
        mutations.take_late_result(work, given)


def _react_to(work: Work, failure: Failure | None) -> None:
    if failure is not None:
        reactions.react(work, failure)


def answer_errand(work: Work, given: ToolFinished | CallFailed) -> bool:
    """Take a result of an errand; return True if it is one, awaited or not."""
    if not command_ids.is_errand(given.command_id):
        return False
    errand = awaited_errand(work.run.saga, given.command_id, given.attempt)
    if errand is None:
        return True
    if not errand.command:
        unwinding.take_answer(work, errand, given)
        return True
    executed = mutations.take_reconciliation(work, errand, given)
    mutation = find_by_key(work.run.saga, errand.key)
    if executed is not None and mutation is not None:
        _apply_check(work, errand, mutation, given, executed=executed)
    return True


def _apply_check(
    work: Work, check: Errand, mutation: Mutation, given: ToolFinished | CallFailed, *, executed: bool
) -> None:
    """Continue after a reconciliation: the call that waited is answered, or may go out again like any failed call."""
    said = given.result if isinstance(given, ToolFinished) else {}
    pending = work.run.pending.get(check.command)
    if executed:
        if pending is not None:
            result = ToolFinished(
                command_id=check.command,
                attempt=pending.issued.attempt,
                result=said.get("result"),
                outcome=Outcome.ANSWERED,
            )
            tool_answered(work, pending, result)
            return
        result_content = {"result": said.get("result")}
        mutations.settle(
            work, mutation.command_id, Outcome.ANSWERED, reason=f"{check.tool} said so", result=result_content
        )
        return
    said_no = f"{check.tool} said that it was not executed"
    mutations.settle(work, mutation.command_id, Outcome.REJECTED, reason=said_no, of_key=True)
    if pending is not None and mutation.cause:
        _react(work, pending, mutation)


def _react(work: Work, pending: Pending, mutation: Mutation) -> None:
    issued = pending.issued
    evidence = Evidence(
        observed=issued.attempt, unit="attempts", scope=f"call:{issued.command_id}", details={"target": issued.target}
    )
    trip = Trip("tool", Cause(mutation.cause), evidence, mutation.reason)
    reactions.react(work, Failure((trip,), Stage(issued.step_id.partition(".")[0]), issued.step_id, issued))
