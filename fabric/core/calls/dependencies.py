"""Dependencies between the calls of an answer: a call is sent with its references resolved, skipped, or refused (S2;
docs/specification/agent-step.md).

Calls without an open dependency go out together. Each result may free further calls while the rest is still out. So a
plan of calls runs as wide as its references allow, and each call is judged with the arguments that will be sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.calls.proposed import (
    Proposed,
    Reference,
    Unresolved,
    list_last_calls,
    list_references,
    names_in,
    resolve_references,
)
from fabric.core.decision.work import Work
from fabric.core.state.living import asked_calls
from fabric.core.state.run import CallRecord, Run, Step
from fabric.core.values.fingerprint import encode, fingerprint
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON


def calls_out(run: Run, step: Step) -> frozenset[str]:
    """Return the calls of a step that are sent, to be tried again, or under review."""
    return list_sent_calls(run, step) | asked_calls(run, step)


def list_sent_calls(run: Run, step: Step) -> frozenset[str]:
    """Return the calls of a step that are sent, or to be tried again."""
    found = {
        pending.issued.call_id
        for pending in run.pending.values()
        if pending.issued.step_id == step.id and pending.issued.call == "tool"
    }
    return frozenset(found)


def has_ready_call(work: Work, step: Step) -> bool:
    """Return True if a waiting step has a further call to send or review. A result that the call refers to has come
    back.
    """
    if not step.agent or not step.history:
        return False
    last = step.history[-1]
    if all(record.state != "open" for record in last.calls):
        return False
    gone = calls_out(work.run, step)
    if not gone:
        return False  # The model itself is out, or nothing is: the step moves by itself.
    return any(record.state == "open" and record.call_id not in gone and step.is_free(record) for record in last.calls)


def refers(one: Proposed) -> bool:
    """Return True if a call's arguments have unresolved references."""
    return bool(list_references(one.args))


def find_record(step: Step, name: str) -> CallRecord | None:
    """Return the latest call that an id stands for, whether the id is ours or the endpoint's. An answer that is
    coming in counts too.
    """
    coming = next((one.record for one in step.begun if name in list_names(one.record)), None)
    if coming is not None:
        return coming
    found = (record for turn in reversed(step.history) for record in turn.calls if name in list_names(record))
    return next(found, None)


def list_names(record: CallRecord) -> tuple[str, ...]:
    """Return the ids that a model may refer to a call by."""
    return (record.call_id, record.given) if record.given else (record.call_id,)


def find_known_id(step: Step, call_id: str) -> str:
    """Return the id under which the model knows a call, if it differs; "" otherwise."""
    record = find_record(step, call_id)
    return "" if record is None else record.given


def settle_references(work: Work, step: Step, one: Proposed) -> Proposed | None:
    """Return the call with its references resolved or with its problem; None if it is skipped, which is journaled."""
    if one.bound or one.problem or not isinstance(one.args, dict):
        return one
    wanted = list_references(one.args)
    left_out = next((ref.call_id for ref in wanted if _is_skipped(step, ref.call_id)), None)
    if left_out is not None:
        _skip(work, step, one, f"it refers to {left_out!r}, which was not made")
        return None
    holds, problem = _holds(work, step, one.when) if one.when else (True, "")
    if not (holds or problem):
        _skip(work, step, one, f"its condition does not hold: {one.when}")
        return None
    used = [ref.call_id for ref in wanted if ref.part == "result"] + list(names_in(one.when) if problem else ())
    failed = next((call_id for call_id in used if _has_failed(step, call_id)), None)
    if failed is not None:
        problem = f"it refers to {failed!r}, which brought no result"
        return replace(one, problem=problem, cause=Cause.DEPENDENCY_FAILED)
    if problem:
        return replace(one, problem=f"when: {problem}")
    if not wanted:
        return one
    told = bound(work, step, one)
    if not told.problem:
        journal_bound(work, step, one.args_hash, told)
    return told


def is_handled(work: Work, step: Step, call_id: str) -> bool:
    """Return True if a call of the last answer handles another call's error, by its condition or a reference. Such
    an error is data that the plan goes on with.

    No call of an answer that is still streaming in handles an error yet.
    """
    calls = step.history[-1].calls if step.history else ()
    record = next((record for record in calls if record.call_id == call_id), None)
    if record is None or not any(one.after for one in calls):
        return False
    return any(asks_about(one, record) for one in list_last_calls(work, step))


def asks_about(one: Proposed, record: CallRecord) -> bool:
    """Return True if a call handles another's error."""
    names = list_names(record)
    refers_to_it = (ref.call_id in names and ref.part == "error" for ref in _references(one))
    return any(name in names for name in names_in(one.when)) or any(refers_to_it)


def _references(one: Proposed) -> list[Reference]:
    """Return the references in a call's arguments; none if they cannot be read."""
    try:
        return list_references(one.args)
    except Unresolved:
        return []


def _has_failed(step: Step, call_id: str) -> bool:
    record = find_record(step, call_id)
    return record is None or record.error


def _is_skipped(step: Step, call_id: str) -> bool:
    record = find_record(step, call_id)
    return record is not None and record.state == "skipped"


def _answer(work: Work, step: Step, call_id: str) -> Mapping[str, JSON]:
    record = find_record(step, call_id)
    if record is None or not record.result_ref:
        return {}
    found = work.ctx.contents.read(record.result_ref)
    return found if isinstance(found, dict) else {"result": found}


def _holds(work: Work, step: Step, condition: str) -> tuple[bool, str]:
    """Return the truth of a condition over the calls that it names, or the reason why it cannot be evaluated."""
    when = work.compiled_fabric.evaluators.when
    if when is None:
        return False, "conditions are for agents that plan their calls"
    answers = {name: _answer(work, step, name) for name in names_in(condition)}
    told = {name: {"result": one.get("result"), "error": one.get("error")} for name, one in answers.items()}
    return when(condition, {"calls": told})


def _skip(work: Work, step: Step, one: Proposed, why: str) -> None:
    work.emit(
        ev.CallSkipped(step_id=step.id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash), {"skipped": why}
    )


def bound(work: Work, step: Step, one: Proposed) -> Proposed:
    """Return the call with its references resolved, or with their problem."""
    try:
        args = resolve_references(one.args, lambda call_id: _answer(work, step, call_id))
    except Unresolved as error:
        return replace(one, problem=str(error))
    size, most = len(encode(args)), work.compiled_fabric.spec.policy.limits.content_bytes
    if size > most:
        return replace(one, problem=f"with what it refers to it has {size:,} bytes, and at most {most:,} are sent")
    return replace(one, args=args, args_hash=fingerprint(args), bound=True)


def journal_bound(work: Work, step: Step, proposed_hash: str, one: Proposed) -> None:
    """Journal the call's resolved references, before it is judged. ``proposed_hash``: of its arguments as they were
    proposed.
    """
    fact = ev.CallResolved(
        step_id=step.id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash, proposed_hash=proposed_hash
    )
    work.emit(fact, {"calls": [{"call_id": one.call_id, "tool": one.tool, "args": one.args}]})
