"""Steps and calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.envelope import Event
from fabric.core.evolve.parts import Evolve, calls_kept, extended, rungs_kept, unchanged, with_step, without
from fabric.core.flow import Stage
from fabric.core.forms import Requested
from fabric.core.frozen import replace
from fabric.core.judges import is_judge
from fabric.core.kept_steps import answers
from fabric.core.run import Begun, CallRecord, Pending, Run, Seat, Step, Turn

VOIDED_MAX = 1_024
"""How many calls that were let go of are remembered: as many as may be pending at once."""


def _step_opened(run: Run, event: Event, fact: ev.StepOpened) -> Run:
    """The step takes the place of its branch's one before, of which nothing is remembered but what was spent on it."""
    steps, seat, before = dict(run.steps), None, None
    for key, old in run.steps.items():
        if old.stage == fact.stage and old.branch == fact.branch:
            del steps[key]
            seat, before = old.turn, old
            run = replace(
                run,
                pending=calls_kept(run, key),
                spent_rungs=rungs_kept(run, key),
                timers=without(run.timers, key),
            )
    if fact.keeps:
        step = _kept(before, fact)
        return replace(run, steps={**steps, step.id: step})
    step = Step(fact.step_id, fact.stage, fact.branch, run.epoch, fact.round, fact.agent, approved=fact.approved)
    step = replace(step, note_ref=event.content_ref, turn=seat)
    reached = run.stages.get(fact.stage)
    if reached is not None and reached.edited_ref and not is_judge(step):  # Its author writes anew.
        run = replace(run, stages={**run.stages, fact.stage: replace(reached, edited_ref="")})
    steps[step.id] = extended(step, event.content_ref, event.content_bytes) if event.content_ref else step
    return replace(run, steps=steps)


def _kept(before: Step | None, fact: ev.StepOpened) -> Step:
    """The activation whose call is made again: all that was said and done in it stands, and its agent's own model goes on."""
    assert before is not None  # Only a step that failed is opened so.
    begun = tuple(one for one in before.begun if one.broken)
    if fact.passes:
        last = before.history[-1]
        calls = tuple(_open_again(call) if call.call_id in fact.passes else call for call in last.calls)
        before = replace(before, history=(*before.history[:-1], replace(last, calls=calls)))
    return replace(
        before,
        id=fact.step_id,
        round=fact.round,
        status="active",
        approved=fact.approved,
        turns=answers(before),
        model="",
        stands_for="",
        tried=(),
        begun=begun,
        resumed=True,
        cause=None,
    )


def _open_again(call: CallRecord) -> CallRecord:
    return replace(call, state="open", result_ref="", error=False)


def _turn_opened(run: Run, event: Event, fact: ev.TurnOpened) -> Run:
    seat = Seat(fact.agent, fact.brief, fact.hears, event.content_ref, fact.chooses, fact.choices)
    step = Step(fact.step_id, Stage.FAN_OUT, fact.branch, run.epoch, 0, fact.agent, turn=seat)
    opened_at = run.talk.opened_at or event.at
    talk = replace(run.talk, opened_at=opened_at, turn_at=event.at, due_at=fact.due_at, fired=(), waiting=())
    return with_step(run, step, talk=talk)


def _call_issued(run: Run, event: Event, fact: ev.CallIssued) -> Run:
    before = run.pending.get(fact.command_id)
    out = Pending(fact, run.epoch, at=event.at)
    out = out if before is None else replace(out, spent_us=before.spent_us, said=before.said)
    pending = {**run.pending, fact.command_id: out}
    timers = without(run.timers, fact.command_id) if fact.command_id in run.timers else run.timers
    step = run.steps.get(fact.step_id)
    if fact.call == "tool" and step is not None and step.begun:
        step = _of_begun(step, (fact.call_id, fact.target, fact.args_hash), {"args_ref": fact.args_ref}) or step
        return with_step(run, step, pending=pending, timers=timers)
    if fact.call == "tool" or fact.attempt > 1:
        return replace(run, pending=pending, timers=timers)
    step = run.steps[fact.step_id]
    # What began for an answer that broke off is made for the same request still, where that is made again.
    step = replace(step, turns=fact.turn, tried=(), begun=step.begun if step.resumed else (), resumed=False)
    return with_step(run, step, pending=pending, timers=timers)


def _call_streamed(run: Run, event: Event, fact: ev.CallStreamed) -> Run:
    record = CallRecord(fact.call_id, fact.tool, fact.args_hash, after=fact.after, given=fact.given)
    step = run.steps[fact.step_id]
    one = Begun(record, fact.index, fact.args_hash, event.content_ref)
    return with_step(run, replace(step, begun=(*step.begun, one)))


def _model_answered(run: Run, event: Event, fact: ev.ModelAnswered) -> Run:
    step = run.steps[fact.step_id]
    mine = {one.record.call_id: one for one in step.begun if not one.broken}
    calls = tuple(
        _whole(mine[call.call_id].record, call, handled=call.call_id in fact.handled)
        if call.call_id in mine
        else CallRecord(call.call_id, call.tool, call.args_hash, after=call.after, given=call.given)
        for call in fact.calls
    )
    step = extended(step, event.content_ref, event.content_bytes)
    taken = {call.call_id for call in calls}
    for call_id, one in mine.items():
        if one.record.result_ref and call_id in taken:
            step = extended(step, one.record.result_ref, one.result_bytes)
    turn = Turn(event.content_ref, fact.verdict, calls)
    # An answer that is refused as a whole, cut for instance, takes none of the calls that began with it.
    kept = tuple(replace(one, broken=True) for one in step.begun if one.broken or one.record.call_id not in taken)
    step = _closed(replace(step, history=(*step.history, turn), begun=kept))
    if fact.verdict == "output":
        step = replace(step, status="done", output_ref=event.content_ref)
    elif fact.verdict == "rejected":
        step = replace(step, corrections=step.corrections + 1)
    return with_step(run, step, pending=without(run.pending, fact.command_id))


def _resolved(step: Step, call_id: str, **changes: Any) -> Step:
    """The step with one call of its last turn resolved."""
    turn = step.history[-1]
    calls = list(turn.calls)
    index = next(n for n, call in enumerate(calls) if call.call_id == call_id and call.state == "open")
    calls[index] = replace(calls[index], **changes)
    return _closed(replace(step, history=(*step.history[:-1], replace(turn, calls=tuple(calls)))))


def _whole(record: CallRecord, call: ev.ProposedCall, *, handled: bool) -> CallRecord:
    """A call that began before its answer was whole, as it stands in that."""
    return replace(record, after=call.after, correction=record.correction and not handled)


def _closed(step: Step) -> Step:
    """The step after a call of its last turn was resolved: a wave that closes with an error costs a correction (S2)."""
    calls = step.history[-1].calls
    if all(call.state != "open" for call in calls) and any(call.correction for call in calls):
        return replace(step, corrections=step.corrections + 1)
    return step


def _of_begun(
    step: Step, call: tuple[str, str, str], changes: Mapping[str, Any], size: int = 0, *, broken: bool = False
) -> Step | None:
    """The step with one open ``call`` (its id, tool and arguments) changed that stands in no answer yet; None: it is none of those. ``broken``: of answers that
    broke off alone.
    """
    for n, one in enumerate(step.begun):
        record = one.record
        open_ = record.state == "open" and (one.broken or not broken)
        if open_ and (record.call_id, record.tool, record.args_hash) == call:
            changed = replace(one, record=replace(record, **changes), result_bytes=one.result_bytes + size)
            return replace(step, begun=(*step.begun[:n], changed, *step.begun[n + 1 :]))
    return None


def _tool_answered(run: Run, event: Event, fact: ev.ToolAnswered) -> Run:
    old, pending = run.steps[fact.step_id], without(run.pending, fact.command_id)
    came: dict[str, Any] = {"state": "done", "result_ref": event.content_ref, "error": fact.error}
    came |= {
        "correction": fact.error and not fact.handled,
        "hands_to": fact.hands_to,
        "ends": fact.ends,
        "writes": fact.writes > 0,
    }
    early = _of_begun(old, (fact.call_id, fact.tool, fact.args_hash), came, event.content_bytes) if old.begun else None
    if early is not None:
        return with_step(run, early, pending=pending)
    step = extended(old, event.content_ref, event.content_bytes)
    if not step.agent:  # The engine asked, for an oracle: what came back is all there is to the step.
        step = replace(step, status="done", output_ref=event.content_ref)
        return with_step(run, step, pending=pending)
    return with_step(run, _resolved(step, fact.call_id, **came), pending=pending)


def _call_refused(run: Run, event: Event, fact: ev.CallRefused) -> Run:
    old = run.steps[fact.step_id]
    refused: dict[str, Any] = {
        "state": "refused",
        "result_ref": event.content_ref,
        "error": True,
        "correction": fact.correction,
    }
    early = (
        _of_begun(old, (fact.call_id, fact.tool, fact.args_hash), refused, event.content_bytes) if old.begun else None
    )
    if early is not None:
        return with_step(run, early)
    return with_step(run, _resolved(extended(old, event.content_ref, event.content_bytes), fact.call_id, **refused))


def _call_deduplicated(run: Run, event: Event, fact: ev.CallDeduplicated) -> Run:
    step = extended(run.steps[fact.step_id], fact.result_ref, fact.result_bytes)
    came = {"state": "done", "result_ref": fact.result_ref, "error": fact.error, "correction": fact.correction}
    return with_step(run, _resolved(step, fact.call_id, **came))


def _call_skipped(run: Run, event: Event, fact: ev.CallSkipped) -> Run:
    step = extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    return with_step(run, _resolved(step, fact.call_id, state="skipped", result_ref=event.content_ref))


def _other_arguments(run: Run, event: Event, fact: ev.CallEdited | ev.CallResolved) -> Run:
    step: Step = run.steps[fact.step_id]
    other: dict[str, Any] = {"tool": fact.tool, "args_hash": fact.args_hash, "args_ref": event.content_ref}
    early = _of_begun(step, (fact.call_id, fact.tool, fact.proposed_hash), other) if step.begun else None
    return with_step(run, early or _resolved(step, fact.call_id, state="open", **other))


def _call_responded(run: Run, event: Event, fact: ev.CallResponded) -> Run:
    step = extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    return with_step(run, _resolved(step, fact.call_id, state="done", result_ref=event.content_ref))


def _input_requested(run: Run, event: Event, fact: ev.InputRequested) -> Run:
    """The call is as open as before it went out."""
    step = run.steps[fact.step_id]
    before = step.requested_of(fact.command_id)
    answers = () if before is None else before.answers
    key = run.pending[fact.command_id].issued.key
    asked = Requested(fact.command_id, fact.attempt, key, fact.asked, fact.number, event.content_ref, answers)
    others = tuple(one for one in step.requested if one.command_id != fact.command_id)
    pending = without(run.pending, fact.command_id)
    return with_step(run, replace(step, requested=(*others, asked)), pending=pending)


def _input_given(run: Run, event: Event, fact: ev.InputGiven) -> Run:
    step = run.steps[fact.step_id]
    requested = tuple(
        replace(one, answers=(*one.answers, event.content_ref)) if one.command_id == fact.command_id else one
        for one in step.requested
    )
    return with_step(run, replace(step, requested=requested))


def _output_accepted(run: Run, event: Event, fact: ev.OutputAccepted) -> Run:
    output_ref = fact.answer_ref or event.content_ref
    return with_step(run, replace(run.steps[fact.step_id], status="done", output_ref=output_ref))


def _failed_call(run: Run, event: Event, fact: ev.AttemptFailed | ev.AttemptInterrupted) -> Run:
    before = run.pending[fact.command_id]
    took_us = event.at - before.at if isinstance(fact, ev.AttemptFailed) else 0
    said = fact.message if isinstance(fact, ev.AttemptFailed) and fact.trip is None else before.said
    pending = replace(before, failed=True, spent_us=before.spent_us + took_us, said=said)
    run = replace(run, pending={**run.pending, fact.command_id: pending})
    step = run.steps.get(pending.issued.step_id)
    if step is None or not step.begun or pending.issued.call == "tool":
        return run
    issued = (one.issued for one in run.pending.values() if one.issued.step_id == step.id)
    out = {(one.call_id, one.target, one.args_hash) for one in issued}
    return with_step(run, replace(step, begun=tuple(_broken(one, out) for one in step.begun)))


def _broken(one: Begun, out: Collection[tuple[str, str, str]]) -> Begun:
    """A call whose answer broke off. One that had not been sent by then never is."""
    record = one.record
    sent = record.state != "open" or (record.call_id, record.tool, record.args_hash) in out
    return replace(one, broken=True, record=record if sent else replace(record, state="skipped"))


def _call_aborted(run: Run, event: Event, fact: ev.CallAborted) -> Run:
    timers = without(run.timers, fact.command_id)
    kept, pending = without(run.pending, fact.command_id), run.pending.get(fact.command_id)
    run = replace(run, pending=kept, timers=timers, voided=(*run.voided, fact.command_id)[-VOIDED_MAX:])
    step = None if pending is None else run.steps.get(pending.issued.step_id)
    if pending is None or step is None or not any(one.broken for one in step.begun):
        return run
    issued = pending.issued
    return with_step(
        run,
        _of_begun(step, (issued.call_id, issued.target, issued.args_hash), {"state": "skipped"}, broken=True) or step,
    )


def _late_result(run: Run, event: Event, fact: ev.LateResultIgnored) -> Run:
    return replace(run, voided=tuple(key for key in run.voided if key != fact.command_id))


TABLE: Mapping[str, Evolve] = {
    "step_opened": _step_opened,
    "turn_opened": _turn_opened,
    "call_issued": _call_issued,
    "call_streamed": _call_streamed,
    "model_answered": _model_answered,
    "tool_answered": _tool_answered,
    "call_refused": _call_refused,
    "call_deduplicated": _call_deduplicated,
    "call_edited": _other_arguments,
    "call_resolved": _other_arguments,
    "call_skipped": _call_skipped,
    "call_responded": _call_responded,
    "input_requested": _input_requested,
    "input_given": _input_given,
    "output_accepted": _output_accepted,
    "attempt_failed": _failed_call,
    "attempt_interrupted": _failed_call,
    "call_aborted": _call_aborted,
    "late_result_ignored": _late_result,
    "handed_off": unchanged,
    "input_ignored": unchanged,
}
