"""Folds events about steps and calls into a run.

The work of a step whose failed call a person approves stays: the call is made again, and not the step
(docs/specification/reviews.md). A provider that was away, or money that had run out, does not discredit the step's
earlier work. Its answers and their results stand. They also stand if a person allows a call that was found to be a
loop. Any other failure is about the step's work, so the step begins anew with a note about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve.parts import Evolve, calls_kept, extend_prompt, keep_run, rungs_kept, with_step, without_key
from fabric.core.mechanisms import find_state, loop_detector, progress
from fabric.core.state.judges import is_judge
from fabric.core.state.let_pass import Call
from fabric.core.state.run import BegunCall, CallRecord, Pending, Run, Seat, Step, Turn
from fabric.core.texts.forms import FormRequested
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import FailureType

VOIDED_MAX = 1_024
"""Most aborted calls that are remembered: the limit of calls pending at once."""


def _step_opened(run: Run, event: Event, fact: ev.StepOpened) -> Run:
    """Put the step in the place of its branch's earlier one, of which only the spending stays."""
    steps, seat, before = dict(run.steps), None, None
    for key, old in run.steps.items():
        if old.stage == fact.stage and old.branch == fact.branch:
            del steps[key]
            seat, before = old.turn, old
            run = replace(
                run,
                pending=calls_kept(run, key),
                spent_rungs=rungs_kept(run, key),
                timers=without_key(run.timers, key),
            )
    if fact.keeps:
        step = _keep_turns(before, fact)
        return replace(run, steps={**steps, step.id: step})
    step = Step(fact.step_id, fact.stage, fact.branch, run.epoch, fact.round, fact.agent, approved=fact.approved)
    step = replace(step, note_ref=event.content_ref, turn=seat)
    reached = run.stages.get(fact.stage)
    if reached is not None and reached.edited_ref and not is_judge(step):  # Its author writes a new output.
        run = replace(run, stages={**run.stages, fact.stage: replace(reached, edited_ref="")})
    steps[step.id] = extend_prompt(step, event.content_ref, event.content_bytes) if event.content_ref else step
    return replace(run, steps=steps)


def _keep_turns(before: Step | None, fact: ev.StepOpened) -> Step:
    """Return the activation whose call is made again: its turns stand, and its agent's own model goes on."""
    assert before is not None  # Only a step that failed is opened so.
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
        begun=(),
        first_call=0,
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
    timers = without_key(run.timers, fact.command_id) if fact.command_id in run.timers else run.timers
    step = run.steps.get(fact.step_id)
    if fact.call == "tool" and step is not None and step.begun:
        step = _of_begun(step, (fact.call_id, fact.target, fact.args_hash), {"args_ref": fact.args_ref}) or step
        return with_step(run, step, pending=pending, timers=timers)
    if fact.call == "tool" or fact.attempt > 1:
        return replace(run, pending=pending, timers=timers)
    step = run.steps[fact.step_id]
    step = replace(step, turns=fact.turn, tried=(), begun=(), first_call=0)
    return with_step(run, step, pending=pending, timers=timers)


def _call_streamed(run: Run, event: Event, fact: ev.CallStreamed) -> Run:
    record = CallRecord(fact.call_id, fact.tool, fact.args_hash, after=fact.after, given=fact.given)
    step = run.steps[fact.step_id]
    one = BegunCall(record, fact.index, fact.args_hash, event.content_ref)
    return with_step(run, replace(step, begun=(*step.begun, one)))


def _model_answered(run: Run, event: Event, fact: ev.ModelAnswered) -> Run:
    step = run.steps[fact.step_id]
    mine = {one.record.call_id: one for one in step.begun} if step.begun else {}
    calls = (
        tuple(
            [
                _whole(mine[call.call_id].record, call, handled=call.call_id in fact.handled)
                if call.call_id in mine
                else CallRecord(call.call_id, call.tool, call.args_hash, after=call.after, given=call.given)
                for call in fact.calls
            ]
        )
        if fact.calls
        else ()
    )
    step = extend_prompt(step, event.content_ref, event.content_bytes)
    taken = {call.call_id for call in calls} if mine else set()
    for call_id, one in mine.items():
        if one.record.result_ref and call_id in taken:
            step = extend_prompt(step, one.record.result_ref, one.result_bytes)
    turn = Turn(event.content_ref, fact.verdict, calls)
    # An answer that is refused as a whole, cut for instance, takes none of the calls that began with it.
    step = _close_wave(replace(step, history=(*step.history, turn), begun=()))
    if fact.verdict == "output":
        step = replace(step, status="done", output_ref=event.content_ref)
    elif fact.verdict == "rejected":
        step = replace(step, corrections=step.corrections + 1)
    return with_step(run, step, pending=without_key(run.pending, fact.command_id))


def _resolve_call(step: Step, call_id: str, **changes: Any) -> Step:
    """Return the step with one call of its last turn resolved."""
    turn = step.history[-1]
    calls = list(turn.calls)
    index = next(n for n, call in enumerate(calls) if call.call_id == call_id and call.state == "open")
    calls[index] = replace(calls[index], **changes)
    return _close_wave(replace(step, history=(*step.history[:-1], replace(turn, calls=tuple(calls)))))


def _whole(record: CallRecord, call: ev.ProposedCall, *, handled: bool) -> CallRecord:
    """Return a call that began before its answer was complete, as a call of that answer."""
    return replace(record, after=call.after, correction=record.correction and not handled)


def _close_wave(step: Step) -> Step:
    """Return the step after a call of its last turn was resolved. A wave that closes with an error costs a correction
    (S2).
    """
    calls = step.history[-1].calls
    if not calls:
        return step
    if all(call.state != "open" for call in calls) and any(call.correction for call in calls):
        return replace(step, corrections=step.corrections + 1)
    return step


def _of_begun(step: Step, call: tuple[str, str, str], changes: Mapping[str, Any], size: int = 0) -> Step | None:
    """Return the step with one open ``call`` (its id, tool and arguments) changed that belongs to no answer yet. None:
    the step has no such call.
    """
    for n, one in enumerate(step.begun):
        record = one.record
        if record.state == "open" and (record.call_id, record.tool, record.args_hash) == call:
            changed = replace(one, record=replace(record, **changes), result_bytes=one.result_bytes + size)
            return replace(step, begun=(*step.begun[:n], changed, *step.begun[n + 1 :]))
    return None


def _tool_answered(run: Run, event: Event, fact: ev.ToolAnswered) -> Run:
    old, pending = run.steps[fact.step_id], without_key(run.pending, fact.command_id)
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
    step = extend_prompt(old, event.content_ref, event.content_bytes)
    if not step.agent:  # The engine called it for an oracle: its result is the step's only content.
        step = replace(step, status="done", output_ref=event.content_ref)
        return with_step(run, step, pending=pending)
    return with_step(run, _resolve_call(step, fact.call_id, **came), pending=pending)


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
    return with_step(
        run, _resolve_call(extend_prompt(old, event.content_ref, event.content_bytes), fact.call_id, **refused)
    )


def _call_deduplicated(run: Run, event: Event, fact: ev.CallDeduplicated) -> Run:
    step = extend_prompt(run.steps[fact.step_id], fact.result_ref, fact.result_bytes)
    came = {"state": "done", "result_ref": fact.result_ref, "error": fact.error}
    return with_step(run, _resolve_call(step, fact.call_id, **came))


def _call_skipped(run: Run, event: Event, fact: ev.CallSkipped) -> Run:
    step = extend_prompt(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    return with_step(run, _resolve_call(step, fact.call_id, state="skipped", result_ref=event.content_ref))


def _other_arguments(run: Run, event: Event, fact: ev.CallEdited | ev.CallResolved) -> Run:
    step: Step = run.steps[fact.step_id]
    other: dict[str, Any] = {"tool": fact.tool, "args_hash": fact.args_hash, "args_ref": event.content_ref}
    early = _of_begun(step, (fact.call_id, fact.tool, fact.proposed_hash), other) if step.begun else None
    return with_step(run, early or _resolve_call(step, fact.call_id, state="open", **other))


def _call_responded(run: Run, event: Event, fact: ev.CallResponded) -> Run:
    step = extend_prompt(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    return with_step(run, _resolve_call(step, fact.call_id, state="done", result_ref=event.content_ref))


def _input_requested(run: Run, event: Event, fact: ev.InputRequested) -> Run:
    """Reopen the call, as before it went out."""
    step = run.steps[fact.step_id]
    before = step.requested_of(fact.command_id)
    answers = () if before is None else before.answers
    key = run.pending[fact.command_id].issued.key
    asked = FormRequested(fact.command_id, fact.attempt, key, fact.asked, fact.number, event.content_ref, answers)
    others = tuple(one for one in step.requested if one.command_id != fact.command_id)
    pending = without_key(run.pending, fact.command_id)
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
    return with_step(run, replace(step, begun=(), first_call=max(one.index for one in step.begun) + 1))


def _call_aborted(run: Run, event: Event, fact: ev.CallAborted) -> Run:
    timers = without_key(run.timers, fact.command_id)
    pending = without_key(run.pending, fact.command_id)
    return replace(run, pending=pending, timers=timers, voided=(*run.voided, fact.command_id)[-VOIDED_MAX:])


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
    "handed_off": keep_run,
    "input_ignored": keep_run,
}

CALLS = frozenset({FailureType.PROVIDER, FailureType.COST_OVERRUN})
"""Rows whose failures belong to a call, and not to a step."""


def keeps(run: Run, failure_type: FailureType | None, step_id: str) -> bool:
    """Return True if an approval keeps the step's work. A graph's turn begins anew, since its writes are taken
    back.
    """
    step = run.steps.get(step_id)
    if step is None or not step.history or is_judge(step) or not (failure_type in CALLS or let_go_on(run, step_id)):
        return False
    return step.turn is None or not step.turn.chooses


def let_go_on(run: Run, step_id: str) -> tuple[Call, ...]:
    """Return the calls that an approval in a step's review allows."""
    looped = find_state(run.guards, loop_detector, step_id).passing.asked
    return (*looped, *progress.reviewed_calls(find_state(run.guards, progress), step_id))


def made_now(run: Run, step_id: str) -> tuple[str, ...]:
    """Return the ids of the refused calls of a step's last answer that an approval allows."""
    passing, step = let_go_on(run, step_id), run.steps[step_id]
    last = step.history[-1].calls
    return tuple(one.call_id for one in last if one.state == "refused" and (one.tool, one.args_hash) in passing)


def answers(step: Step) -> int:
    """Return the number of answers that a step's model has given. A failed request gave none."""
    return len(step.history)
