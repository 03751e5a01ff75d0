"""Begins calls that only read while their answer is still streaming in (S2; docs/specification/agent-step.md).

The answer may yet be withheld, break off or contradict itself, and a mechanism may judge it otherwise once it is whole.

1. Nothing here changes the world, asks a person, or refuses or skips a call.
2. No call begins that the step has made before. The wave decides about each call that does not begin here.
3. A call has an event of its own only if it begins, or waits for calls that have begun.
4. An attempt that fails lets go of the calls that began with it. The attempts after it begin none early.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core import events as ev
from fabric.core.calls import dependencies
from fabric.core.calls import issue as calls
from fabric.core.calls.proposed import Proposed, proposals, read
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.events.inputs import CallStreamed, ModelReplied
from fabric.core.reviews import asking_before
from fabric.core.state.run import BegunCall, Pending, Step
from fabric.core.steps import wave
from fabric.core.values.fingerprint import encode
from fabric.core.values.saga import Effect

BEGINS: dict[Effect, bool] = {
    Effect.READ_ONLY: True,
    Effect.IDEMPOTENT: False,
    Effect.MUTATING: False,
    Effect.IRREVERSIBLE: False,
}
"""True: such a call may begin before its answer is whole. An error in the rest must come before any effect. Total by
test.
"""


def came(work: Work, pending: Pending, given: CallStreamed) -> None:
    """Begin the newest call of an answer that is streaming in, if it may begin."""
    issued = pending.issued
    step = work.run.steps.get(issued.step_id)
    first = issued.call == "model" and issued.attempt == 1
    if not first or step is None or not _goes_on(work, step) or issued.final:
        return
    found = proposals(step, ((call, "") for call in given.calls))
    index, one = len(found) - 1, found[-1]
    if one.problem or any(begun.record.call_id == one.call_id for begun in step.begun):
        return  # It is wrong, or its id stands for a call already.
    allowed = work.policy_in(step.stage).limits.calls_per_turn
    one = wave.check_call(work, step, one, index, allowed)
    if one.problem or not _may_begin(work, step, one, index) or not _is_known(step, one.after):
        return
    fact = ev.CallStreamed(
        command_id=issued.command_id,
        attempt=issued.attempt,
        step_id=step.id,
        call_id=one.call_id,
        tool=one.tool,
        args_hash=one.args_hash,
        index=index,
        after=one.after,
        given=one.fact().given,
    )
    work.emit(fact, {"calls": [one.as_json()]})
    _go(work, step.id, work.run.steps[step.id].begun[-1])


def begin_unblocked_calls(work: Work, step_id: str) -> None:
    """Begin the calls that waited for a result that has come, while their answer is still streaming in."""
    step = work.run.steps.get(step_id)
    if step is None or not step.begun or not _goes_on(work, step):
        return
    out = dependencies.calls_out(work.run, step)
    for begun in step.begun:
        if begun.record.state == "open" and begun.record.call_id not in out:
            _go(work, step_id, begun)


def contradiction(work: Work, pending: Pending, reply: ModelReplied) -> str:
    """Return a sentence about the first call that differs from its stream in the whole answer; "": none does."""
    step = work.run.steps[pending.issued.step_id]
    if not step.begun:
        return ""
    found = {one.call_id: one for one in proposals(step, ((call, "") for call in reply.calls))}
    for begun in step.begun:
        one = found.get(begun.record.call_id)
        if one is None or (one.tool, one.args_hash) != (begun.record.tool, begun.proposed_hash):
            was = "is not in it" if one is None else "reads otherwise in it"
            return f"the answer contradicts itself: call {begun.record.call_id!r}, which it had streamed, {was}"
    return ""


def list_handled_failures(step: Step, proposals: Sequence[Proposed]) -> tuple[str, ...]:
    """Return the early calls that failed, and about whose error another call of the whole answer asks."""
    if not step.begun:
        return ()
    failed = [begun.record for begun in step.begun if begun.record.correction]
    return tuple(record.call_id for record in failed if any(dependencies.asks_about(one, record) for one in proposals))


def let_go(work: Work, step_id: str, reason: str) -> None:
    """Let go of the calls that began for an answer that broke off or was refused as a whole."""
    for pending in list(work.run.pending.values()):
        if pending.issued.step_id == step_id and pending.issued.call == "tool":
            calls.let_go(work, pending, reason)


# -- whether, and how --------------------------------------------------------------------------------------------------


def _goes_on(work: Work, step: Step) -> bool:
    run = work.run
    at_rest = work.held or run.ending is not None or run.saga.unwinding is not None
    return step.status == "active" and not step.final and not at_rest


def _is_known(step: Step, after: tuple[str, ...]) -> bool:
    """Return True if it waits only for calls that have begun."""
    return set(after) <= {begun.record.call_id for begun in step.begun}


def _may_begin(work: Work, step: Step, one: Proposed, index: int) -> bool:
    """Return True for a call that only reads outside, is new to the step, and needs no person so far."""
    spec, most = work.compiled_fabric.spec, work.compiled_fabric.spec.policy.limits.content_bytes
    reads = BEGINS[Effect(spec.tool(one.tool).effect)] and not spec.in_journal(one.tool)
    if not reads or _was_made(step, one) or len(encode(one.args)) > most:
        return False
    return dependencies.refers(one) or asking_before.review_reason(work, step, one, index) is None


def _was_made(step: Step, one: Proposed) -> bool:
    """Return True if the step has made this call before: the detectors judge repeats, in whole answers."""
    earlier = [record for turn in step.history for record in turn.calls]
    earlier += [begun.record for begun in step.begun if begun.record.call_id != one.call_id]
    return any((record.tool, record.args_hash) == (one.tool, one.args_hash) for record in earlier)


def _go(work: Work, step_id: str, begun: BegunCall) -> None:
    """Issue it if its references are known and no mechanism objects."""
    step, index = work.run.steps[step_id], begun.index
    again = step.requested_of(calls.build_command_id(step, step.turns, index)) is not None
    if again or not _is_answered(step, begun.record.after):
        return
    one = read(work, begun.record, work.ctx.contents.read(begun.ref)["calls"][0])
    if not one.bound and dependencies.refers(one):
        one = dependencies.bound(work, step, one)
        wrong = one.problem or wave.misfits(work, one)
        if wrong or _was_made(step, one) or asking_before.review_reason(work, step, one, index) is not None:
            return
        dependencies.journal_bound(work, step, begun.proposed_hash, one)
        step = work.run.steps[step_id]
    turn, key = step.turns, calls.key_of_tool(work, step, one.fact())
    asked = tuple((other.record.tool, other.record.args_hash) for other in step.begun)
    proposal = calls.tool_proposal(work, step, one.fact(), asked, turn, args=one.args)
    if guard.judge(proposal, work.view, work.compiled_fabric.spec.policy):
        return
    calls.run_tool(work, step, one.fact(), index, turn, key)


def _is_answered(step: Step, after: tuple[str, ...]) -> bool:
    came_back = {begun.record.call_id for begun in step.begun if begun.record.state == "done"}
    return set(after) <= came_back
