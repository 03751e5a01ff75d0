"""What a call waits for, and what it is once that is known: made with what it refers to, skipped, or refused (S2; semantics.md 6).

Calls of one answer that wait for nothing go out together; each that comes back may let others go, while the rest is still out. So a plan of calls runs as
wide as its references allow, and each is judged with the arguments that it will be sent with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.fingerprint import encode, fingerprint
from fabric.core.frozen import replace
from fabric.core.living import asked_calls
from fabric.core.proposed import Proposed, of_last_answer
from fabric.core.references import Reference, Unresolved, named_in, references_of, resolved
from fabric.core.run import CallRecord, Run, Step
from fabric.core.taxonomy import Cause
from fabric.core.work import Work

JSON = Any


def out(run: Run, step: Step) -> frozenset[str]:
    """The calls of a step that are with the world or with a person: sent, to be tried again, or asked about."""
    return sent(run, step) | asked_calls(run, step)


def sent(run: Run, step: Step) -> frozenset[str]:
    """The calls of a step that are with the world: sent, or to be tried again."""
    found = {
        pending.issued.call_id
        for pending in run.pending.values()
        if pending.issued.step_id == step.id and pending.issued.call == "tool"
    }
    return frozenset(found)


def twin(step: Step, one: Proposed) -> CallRecord | None:
    """The same call, made for an answer to the same request that broke off, whose result is there or on its way."""
    alike = (begun for begun in step.begun if (begun.record.tool, begun.record.args_hash) == (one.tool, one.args_hash))
    return next((begun.record for begun in alike if begun.broken and begun.record.state in ("open", "done")), None)


def ready(work: Work, step: Step) -> bool:
    """Whether a step whose calls are out may have one more that goes, or that a person is asked about: what it referred to has come back."""
    if not step.agent or not step.history:
        return False
    last = step.history[-1]
    if all(record.state != "open" for record in last.calls):
        return False
    gone = out(work.run, step)
    if not gone:
        return False  # The model itself is out, or nothing is: the step moves by itself.
    kept = {(one.record.tool, one.record.args_hash) for one in step.begun if one.record.state == "open"}
    return any(
        record.state == "open"
        and record.call_id not in gone
        and step.is_free(record)
        and (record.tool, record.args_hash) not in kept
        for record in last.calls
    )


def refers(one: Proposed) -> bool:
    """Whether something in a call's arguments is still to be looked up."""
    return bool(references_of(one.args))


def record_of(step: Step, name: str) -> CallRecord | None:
    """The latest call that an id stands for, whether the id is ours or the endpoint's. An answer that is coming in counts too."""
    coming = next((one.record for one in step.begun if not one.broken and name in names_of(one.record)), None)
    if coming is not None:
        return coming
    found = (record for turn in reversed(step.history) for record in turn.calls if name in names_of(record))
    return next(found, None)


def names_of(record: CallRecord) -> tuple[str, ...]:
    """The ids that a model may refer to a call by."""
    return (record.call_id, record.given) if record.given else (record.call_id,)


def known_by(step: Step, call_id: str) -> str:
    """The id that its model knows a call by, where that is another one; empty: it is the same."""
    record = record_of(step, call_id)
    return "" if record is None else record.given


def settled(work: Work, step: Step, one: Proposed) -> Proposed | None:
    """The call with what it refers to, with what is wrong with it, or None: it is skipped, which is journaled."""
    if one.bound or one.problem or not isinstance(one.args, dict):
        return one
    wanted = references_of(one.args)
    left_out = next((ref.call_id for ref in wanted if _skipped(step, ref.call_id)), None)
    if left_out is not None:
        _skip(work, step, one, f"it refers to {left_out!r}, which was not made")
        return None
    holds, problem = _holds(work, step, one.when) if one.when else (True, "")
    if not (holds or problem):
        _skip(work, step, one, f"its condition does not hold: {one.when}")
        return None
    used = [ref.call_id for ref in wanted if ref.part == "result"] + list(named_in(one.when) if problem else ())
    failed = next((call_id for call_id in used if _failed(step, call_id)), None)
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


def handled(work: Work, step: Step, call_id: str) -> bool:
    """Returns whether a call of the last answer asks about another's error: by its condition, or by what it refers to. Such an error is data that the plan goes on with.

    Nobody asks yet about a call of an answer that is still streaming in.
    """
    calls = step.history[-1].calls if step.history else ()
    record = next((record for record in calls if record.call_id == call_id), None)
    if record is None or not any(one.after for one in calls):
        return False
    return any(asks_about(one, record) for one in of_last_answer(work, step))


def asks_about(one: Proposed, record: CallRecord) -> bool:
    """Whether a call asks about another's error."""
    names = names_of(record)
    refers_to_it = (ref.call_id in names and ref.part == "error" for ref in _references(one))
    return any(name in names for name in named_in(one.when)) or any(refers_to_it)


def _references(one: Proposed) -> list[Reference]:
    """What a call's arguments refer to, where that can be read at all."""
    try:
        return references_of(one.args)
    except Unresolved:
        return []


def _failed(step: Step, call_id: str) -> bool:
    record = record_of(step, call_id)
    return record is None or record.error


def _skipped(step: Step, call_id: str) -> bool:
    record = record_of(step, call_id)
    return record is not None and record.state == "skipped"


def _answer(work: Work, step: Step, call_id: str) -> Mapping[str, JSON]:
    record = record_of(step, call_id)
    if record is None or not record.result_ref:
        return {}
    found = work.ctx.contents.read(record.result_ref)
    return found if isinstance(found, dict) else {"result": found}


def _holds(work: Work, step: Step, condition: str) -> tuple[bool, str]:
    """Whether a condition holds over the calls that it names, or why nobody can say."""
    when = work.compiled.evaluators.when
    if when is None:
        return False, "conditions are for agents that plan their calls"
    answers = {name: _answer(work, step, name) for name in named_in(condition)}
    told = {name: {"result": one.get("result"), "error": one.get("error")} for name, one in answers.items()}
    return when(condition, {"calls": told})


def _skip(work: Work, step: Step, one: Proposed, why: str) -> None:
    work.emit(
        ev.CallSkipped(step_id=step.id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash), {"skipped": why}
    )


def bound(work: Work, step: Step, one: Proposed) -> Proposed:
    """The call with its references looked up, or with what is wrong with them."""
    try:
        args = resolved(one.args, lambda call_id: _answer(work, step, call_id))
    except Unresolved as error:
        return replace(one, problem=str(error))
    size, most = len(encode(args)), work.compiled.spec.policy.limits.content_bytes
    if size > most:
        return replace(one, problem=f"with what it refers to it has {size:,} bytes, and at most {most:,} are sent")
    return replace(one, args=args, args_hash=fingerprint(args), bound=True)


def journal_bound(work: Work, step: Step, proposed_hash: str, one: Proposed) -> None:
    """Journals what its references came to, before it is judged. ``proposed_hash``: of its arguments as they were proposed."""
    fact = ev.CallResolved(
        step_id=step.id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash, proposed_hash=proposed_hash
    )
    work.emit(fact, {"calls": [{"call_id": one.call_id, "tool": one.tool, "args": one.args}]})
