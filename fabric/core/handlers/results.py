"""A port came back: with an answer, a result, or the reason why there is none. What is no longer pending is late or a duplicate."""

from __future__ import annotations

from typing import Any

from fabric.core import agent_loop, calls, command_ids, mutations, reactions, requested_input, streamed, unwinding
from fabric.core import events as ev
from fabric.core.failure import Failure, of_call, record
from fabric.core.fingerprint import encode
from fabric.core.handlers import clocks, errands
from fabric.core.inputs import CallFailed, CallStreamed, ModelReplied, ToolFinished
from fabric.core.run import Pending
from fabric.core.saga import Outcome, by_command
from fabric.core.taxonomy import CLASSIFY, Cause
from fabric.core.tool_answers import tool_answered
from fabric.core.work import Work

RAW_CHARS = 4_000
"""Of an answer that contradicts itself."""


def replied(work: Work, given: ModelReplied) -> None:
    """Journals what a model answered and reacts to what was wrong with it."""
    size = len(given.text.encode()) + sum(len(encode(call.args or call.raw_args)) for call in given.calls)
    if _too_large(work, given, size):
        return
    pending = _answers(work, given)
    if pending is None:
        return
    differs = streamed.contradiction(work, pending, given)
    if (
        differs
    ):  # What began because of it may not be taken back, and nothing is made twice: it counts as one that broke off.
        _failed(work, pending, _broken_off(given, differs))
    else:
        _react_to(work, agent_loop.answered(work, pending, given))


def call_streamed(work: Work, given: CallStreamed) -> None:
    """Takes in a call of an answer that is still coming in."""
    pending = work.run.pending.get(given.command_id)
    current = pending is not None and pending.epoch == work.run.epoch and not pending.failed
    if pending is not None and current and pending.issued.attempt == given.attempt:
        streamed.came(work, pending, given)


def _broken_off(given: ModelReplied, differs: str) -> CallFailed:
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
    """Returns the cost of a refused answer: the same as if it were not refused."""
    names = ("input_tokens", "output_tokens", "parts", "cost_usd_micros", "usage_problem")
    return {name: getattr(given, name) for name in names}


def finished(work: Work, given: ToolFinished) -> None:
    """Journals what a tool gave back."""
    if errands.answered(work, given):
        return
    if _too_large(work, given, 0 if given.error else len(encode(given.result))):
        return
    pending = _answers(work, given)
    if pending is None or requested_input.note(work, pending, given):
        return
    mutation = by_command(work.run.saga, given.command_id)
    outcome = mutations.says_of_key(mutation, mutations.outcome_of(given))
    if given.error and outcome is Outcome.UNKNOWN and mutation is not None:
        # What it says is no data for the model before it is known whether it was done.
        _failed(
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
    streamed.unblocked(work, pending.issued.step_id)


def failed(work: Work, given: CallFailed) -> None:
    """Journals an attempt without an answer and reacts to it."""
    if errands.answered(work, given):
        return
    pending = _answers(work, given)
    if pending is not None:
        _failed(work, pending, given)


def _failed(work: Work, pending: Pending, given: CallFailed) -> None:
    issued = pending.issued
    charged = calls.charge_of(work, issued, given)
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
    mutations.settle(work, given.command_id, mutations.outcome_of(given), reason=given.message[:500], cause=given.cause)
    step = work.run.steps.get(issued.step_id)
    if work.run.ending is not None:
        calls.let_go(work, work.run.pending[given.command_id], "the run is ending")
    elif step is not None and step.status == "active":
        # A call that was cut short by its stage's or run's deadline is that deadline, whichever is noticed first.
        late = clocks.overdue(work)
        if late is None and mutations.in_doubt(by_command(work.run.saga, given.command_id)):
            return  # It is asked about before anything else (``agent_loop.again``).
        _react_to(work, late or of_call(issued, fact, work.run.pending[given.command_id].said))


def _too_large(work: Work, given: ModelReplied | ToolFinished, size: int) -> bool:
    """Whether an answer has more bytes than a run keeps of one; it then counts as an attempt without an answer."""
    most = work.compiled.spec.policy.limits.content_bytes
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
        outcome=mutations.outcome_of(given) if isinstance(given, ToolFinished) else Outcome.UNKNOWN,
    )
    failed(work, refused)
    return True


def _answers(work: Work, given: ModelReplied | ToolFinished | CallFailed) -> Pending | None:
    """The pending attempt that a result answers; None for a duplicate (dropped) and for a late one (kept as a fact, ignored as data)."""
    pending = work.run.pending.get(given.command_id)
    awaited = pending is not None and pending.issued.attempt == given.attempt and not pending.failed
    if pending is not None and awaited and pending.epoch == work.run.epoch:
        return pending
    if given.command_id in work.run.voided:
        reason = (
            "its epoch was replanned"
            if command_ids.epoch_of(given.command_id) < work.run.epoch
            else "the call was let go"
        )
        fact = ev.LateResultIgnored(command_id=given.command_id, attempt=given.attempt, reason=reason)
        work.emit(fact, {"kind": given.kind})
        mutations.late(work, given)
        unwinding.needless(work)
    elif pending is not None and pending.failed and pending.issued.attempt == given.attempt:
        _after_all(work, pending, given)
    return None


def _after_all(work: Work, pending: Pending, given: ModelReplied | ToolFinished | CallFailed) -> None:
    """A result of an attempt that was given up, while its call still waits: of one that nobody knows about it is the answer."""
    if not mutations.in_doubt(by_command(work.run.saga, given.command_id)) or isinstance(given, ModelReplied):
        return
    if isinstance(given, ToolFinished) and mutations.outcome_of(given) is Outcome.ANSWERED:
        mutations.dropped(work, "its result came after all", command_id=given.command_id)
        _react_to(work, tool_answered(work, pending, given))
    else:
        mutations.late(work, given)


def _react_to(work: Work, failure: Failure | None) -> None:
    if failure is not None:
        reactions.react(work, failure)
