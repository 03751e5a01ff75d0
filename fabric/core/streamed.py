"""Calls of an answer that is still coming in: what only reads begins as soon as nothing speaks against it (S2; semantics.md 6).

The answer may yet be withheld, break off or contradict itself, and a mechanism may judge it otherwise once it is whole. So nothing here changes the world,
asks a person, refuses or skips a call, and no call begins whose like the step has made before: what does not begin here is the wave's, as if nothing
had streamed. A call is journaled by itself only if it begins, or waits for nothing but calls that have.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core import asking_before, calls, dependencies, guard, wave
from fabric.core import events as ev
from fabric.core.fingerprint import encode
from fabric.core.inputs import CallStreamed, ModelReplied
from fabric.core.proposed import Proposed, proposals, read
from fabric.core.run import Begun, Pending, Step
from fabric.core.saga import Effect
from fabric.core.work import Work

BEGINS: dict[Effect, bool] = {
    Effect.READ_ONLY: True,
    Effect.IDEMPOTENT: False,
    Effect.MUTATING: False,
    Effect.IRREVERSIBLE: False,
}
"""Whether a call may begin before its answer is whole: an error in the rest of it has to come before any effect. Total by test."""


def came(work: Work, pending: Pending, given: CallStreamed) -> None:
    """Begins the newest call of an answer that is coming in, if it may."""
    issued = pending.issued
    step = work.run.steps.get(issued.step_id)
    if issued.call != "model" or step is None or not _goes_on(work, step) or issued.final:
        return
    found = proposals(step, ((call, "") for call in given.calls))
    index, one = len(found) - 1, found[-1]
    if one.problem or any(begun.record.call_id == one.call_id for begun in _coming(step)):
        return  # It is wrong, or its id stands for a call already.
    allowed = work.policy_in(step.stage).limits.calls_per_turn
    one = wave.looked_at(work, step, one, index, allowed)
    if one.problem or not _may_begin(work, step, one, index) or not _known(step, one.after):
        return
    fact = ev.CallStreamed(
        command_id=issued.command_id,
        attempt=issued.attempt,
        step_id=step.id,
        call_id=one.call_id,
        tool=one.tool,
        args_hash=one.args_hash,
        index=index + step.first_call,
        after=one.after,
        given=one.fact().given,
    )
    work.emit(fact, {"calls": [one.as_json()]})
    _go(work, step.id, work.run.steps[step.id].begun[-1])


def unblocked(work: Work, step_id: str) -> None:
    """Begins the calls that waited for one that has come back, while their answer is still coming in."""
    step = work.run.steps.get(step_id)
    if step is None or not _coming(step) or not _goes_on(work, step):
        return
    out = dependencies.out(work.run, step)
    for begun in _coming(step):
        if begun.record.state == "open" and begun.record.call_id not in out:
            _go(work, step_id, begun)


def contradiction(work: Work, pending: Pending, reply: ModelReplied) -> str:
    """How the whole answer differs from the calls that were taken from it while it came; empty: it does not."""
    step = work.run.steps[pending.issued.step_id]
    coming = _coming(step)
    if not coming:
        return ""
    found = {one.call_id: one for one in proposals(step, ((call, "") for call in reply.calls))}
    for begun in coming:
        one = found.get(begun.record.call_id)
        if one is None or (one.tool, one.args_hash) != (begun.record.tool, begun.proposed_hash):
            was = "is not in it" if one is None else "reads otherwise in it"
            return f"the answer contradicts itself: call {begun.record.call_id!r}, which it had streamed, {was}"
    return ""


def handled(step: Step, proposals: Sequence[Proposed]) -> tuple[str, ...]:
    """The calls of an answer, now that it is whole, that had come back with an error before, where others of its calls ask about that."""
    failed = [begun.record for begun in _coming(step) if begun.record.correction]
    return tuple(record.call_id for record in failed if any(dependencies.asks_about(one, record) for one in proposals))


def drop_rest(work: Work, step_id: str) -> None:
    """Lets go of what is still out for answers that broke off, now that one has come whole that does not propose it again."""
    step = work.run.steps[step_id]
    if not step.begun:
        return
    wanted = {(record.tool, record.args_hash) for record in step.history[-1].calls}
    for pending in list(work.run.pending.values()):
        issued = pending.issued
        if issued.step_id == step_id and broken(step, pending) and (issued.target, issued.args_hash) not in wanted:
            calls.let_go(work, pending, "the answer that it was part of broke off")


def broken(step: Step, pending: Pending) -> bool:
    """Whether a call is one of an answer that broke off: no model is told what it comes to, unless the next answer proposes it again."""
    issued = pending.issued
    call = (issued.call_id, issued.target, issued.args_hash)
    records = (begun.record for begun in step.begun if begun.broken)
    return any((record.call_id, record.tool, record.args_hash) == call for record in records)


# -- whether, and how --------------------------------------------------------------------------------------------------


def _goes_on(work: Work, step: Step) -> bool:
    run = work.run
    at_rest = work.held or run.ending is not None or run.saga.unwinding is not None
    return step.status == "active" and not step.final and not at_rest


def _coming(step: Step) -> list[Begun]:
    return [begun for begun in step.begun if not begun.broken]


def _known(step: Step, after: tuple[str, ...]) -> bool:
    """Whether it waits for nothing but calls that have begun."""
    return set(after) <= {begun.record.call_id for begun in _coming(step)}


def _may_begin(work: Work, step: Step, one: Proposed, index: int) -> bool:
    """Whether it only reads, somewhere outside, what the step has not asked before, and no person is asked about it as far as one can see yet."""
    spec, most = work.compiled.spec, work.compiled.spec.policy.limits.content_bytes
    reads = BEGINS[Effect(spec.tool(one.tool).effect)] and not spec.in_journal(one.tool)
    if not reads or _made_before(step, one) or len(encode(one.args)) > most:
        return False
    return dependencies.refers(one) or asking_before.why(work, step, one, index) is None


def _made_before(step: Step, one: Proposed) -> bool:
    """Whether a call like it stands in the step: to ask once more is for the detectors, who look at whole answers."""
    earlier = [record for turn in step.history for record in turn.calls]
    earlier += [begun.record for begun in step.begun if begun.broken or begun.record.call_id != one.call_id]
    return any((record.tool, record.args_hash) == (one.tool, one.args_hash) for record in earlier)


def _go(work: Work, step_id: str, begun: Begun) -> None:
    """Issues it, if what it refers to is there and no mechanism objects."""
    step = work.run.steps[step_id]
    index = begun.index - step.first_call
    again = step.requested_of(calls.command_id_of(step, step.turns, index)) is not None
    if again or not _answered(step, begun.record.after):
        return
    one = read(work, begun.record, work.ctx.contents.read(begun.ref)["calls"][0])
    if not one.bound and dependencies.refers(one):
        one = dependencies.bound(work, step, one)
        wrong = one.problem or wave.misfits(work, one)
        if wrong or _made_before(step, one) or asking_before.why(work, step, one, index) is not None:
            return
        dependencies.journal_bound(work, step, begun.proposed_hash, one)
        step = work.run.steps[step_id]
    turn, key = step.turns, calls.key_of_tool(work, step, one.fact())
    asked = tuple((other.record.tool, other.record.args_hash) for other in _coming(step))
    proposal = calls.tool_proposal(work, step, one.fact(), asked, turn, args=one.args)
    if guard.judge(proposal, work.view, work.compiled.spec.policy):
        return
    calls.run_tool(work, step, one.fact(), index, turn, key)


def _answered(step: Step, after: tuple[str, ...]) -> bool:
    came_back = {begun.record.call_id for begun in _coming(step) if begun.record.state == "done"}
    return set(after) <= came_back
