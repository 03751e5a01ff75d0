"""How events change a run: ``evolve(run, event) -> run``. The fold of the journal is the run.

``evolve`` reads an event's header and nothing else: no clock, no content, no rules. One function a kind, in one table, total by test.
Mechanisms keep their own state in ``Run.guards``; what each observes is its own business (``mechanisms``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from fabric.core import events as ev
from fabric.core.envelope import Event
from fabric.core.fingerprint import digest
from fabric.core.flow import RunState, Stage, StageOutcome
from fabric.core.frozen import replace, stamp
from fabric.core.mechanisms import observe
from fabric.core.run import CallRecord, OpenQuestion, Pending, Run, StageRun, Step, Turn, rung_key, step_id

K = TypeVar("K")
V = TypeVar("V")
Evolve = Callable[[Run, Event, Any], Run]
_EVOLVE: dict[str, Evolve] = {}


def _on(kind: str) -> Callable[[Evolve], Evolve]:
    def register(function: Evolve) -> Evolve:
        _EVOLVE[kind] = function
        return function

    return register


def evolve(run: Run, event: Event) -> Run:
    """The run after ``event``. KeyError for a kind without a row, which the totality test rules out."""
    fact = event.fact
    changed = _EVOLVE[fact.kind](run, event, fact)
    guards = observe(run.guards, event)
    if changed is run:
        return replace(run, seq=event.seq, guards=guards)
    stamp(changed, "seq", event.seq)
    stamp(changed, "guards", guards)
    return changed


def fold(run: Run, events: Iterable[Event]) -> Run:
    """The run after all of ``events``."""
    for event in events:
        run = evolve(run, event)
    return run


def _with_step(run: Run, step: Step, **changes: Any) -> Run:
    return replace(run, steps={**run.steps, step.id: step}, **changes)


def _extended(step: Step, ref: str, size: int, **changes: Any) -> Step:
    """The step with one more content in its prompt."""
    return replace(step, prompt=digest(step.prompt, ref), prompt_bytes=step.prompt_bytes + size, **changes)


def _without(mapping: Mapping[K, V], key: K) -> dict[K, V]:
    return {k: v for k, v in mapping.items() if k != key}


def _calls_kept(run: Run, gone: str) -> dict[str, Pending]:
    """Pending calls without the failed ones of a step that goes no further."""
    return {k: p for k, p in run.pending.items() if not (p.issued.step_id == gone and p.failed)}


@_on("run_started")
def _run_started(run: Run, event: Event, fact: ev.RunStarted) -> Run:
    return replace(
        run,
        state=RunState.RUNNING,
        tier=fact.tier,
        revision=fact.revision,
        depth=fact.depth,
        seed=fact.seed,
        deadline_at=fact.deadline_at,
        started_at=event.at,
        request_ref=event.content_ref,
    )


@_on("stage_entered")
def _stage_entered(run: Run, event: Event, fact: ev.StageEntered) -> Run:
    steps = dict(run.steps)
    for branch, agent in enumerate(fact.agents):
        key = step_id(fact.stage, branch, fact.epoch, 0)
        steps[key] = Step(key, fact.stage, branch, fact.epoch, 0, agent)
    stage = StageRun(fact.stage, fact.epoch, fact.deadline_at, fact.agents)
    return replace(run, stage=fact.stage, stages={**run.stages, fact.stage: stage}, steps=steps)


@_on("stage_left")
def _stage_left(run: Run, event: Event, fact: ev.StageLeft) -> Run:
    stage = replace(run.stages[fact.stage], output_ref=fact.output_ref or event.content_ref, left=True)
    withheld = run.withheld
    if withheld and fact.outcome is StageOutcome.PASSED:
        withheld = tuple(name for name in withheld if name != f"stage:{fact.stage}")
    return replace(run, stages={**run.stages, fact.stage: stage}, approved_stage=None, withheld=withheld)


@_on("replanned")
def _replanned(run: Run, event: Event, fact: ev.Replanned) -> Run:
    return replace(
        run,
        epoch=fact.epoch,
        replans={**run.replans, fact.stage: run.replans.get(fact.stage, 0) + 1},
        feedback=(*run.feedback, event.content_ref),
        stage=Stage.PLAN,
        stages={},
        steps={},
        pending={},
        timers={},
        truncated=False,
        withheld=(),
        approved_stage=None,
    )


@_on("run_ending")
def _run_ending(run: Run, event: Event, fact: ev.RunEnding) -> Run:
    alive = {key: pending for key, pending in run.pending.items() if not pending.failed}
    state = RunState.CANCELLING if fact.state is RunState.CANCELLED else RunState.UNWINDING
    return replace(run, state=state, ending=fact, timers={}, pending=alive)


@_on("run_ended")
def _run_ended(run: Run, event: Event, fact: ev.RunEnded) -> Run:
    return replace(
        run,
        state=fact.state,
        ended_at=event.at,
        reason=fact.reason,
        recovered=fact.recovered,
        truncated=fact.truncated,
        outcome_ref=fact.outcome_ref or event.content_ref,
        pending={},
        timers={},
        questions={},
        suspended=None,
    )


@_on("step_opened")
def _step_opened(run: Run, event: Event, fact: ev.StepOpened) -> Run:
    steps = dict(run.steps)
    for key, old in run.steps.items():
        if old.stage == fact.stage and old.branch == fact.branch:
            steps[key] = replace(old, status="void")
            run = replace(run, pending=_calls_kept(run, key))
    step = Step(fact.step_id, fact.stage, fact.branch, run.epoch, fact.round, fact.agent, approved=fact.approved)
    step = replace(step, note_ref=event.content_ref)
    steps[step.id] = _extended(step, event.content_ref, event.content_bytes) if event.content_ref else step
    return replace(run, steps=steps)


@_on("call_issued")
def _call_issued(run: Run, event: Event, fact: ev.CallIssued) -> Run:
    pending = {**run.pending, fact.command_id: Pending(fact, run.epoch)}
    timers = _without(run.timers, fact.command_id) if fact.command_id in run.timers else run.timers
    if fact.call == "tool" or fact.attempt > 1:
        return replace(run, pending=pending, timers=timers)
    return _with_step(run, replace(run.steps[fact.step_id], turns=fact.turn), pending=pending, timers=timers)


@_on("model_answered")
def _model_answered(run: Run, event: Event, fact: ev.ModelAnswered) -> Run:
    calls = tuple(CallRecord(call.call_id, call.tool, call.args_hash) for call in fact.calls)
    step = run.steps[fact.step_id]
    turn = Turn(event.content_ref, fact.verdict, calls)
    step = _extended(step, event.content_ref, event.content_bytes, history=(*step.history, turn))
    if fact.verdict == "output":
        step = replace(step, status="done", output_ref=event.content_ref)
    elif fact.verdict == "rejected":
        step = replace(step, corrections=step.corrections + 1)
    return _with_step(run, step, pending=_without(run.pending, fact.command_id))


def _resolved(step: Step, call_id: str, **changes: Any) -> Step:
    """The step with one call of its last turn resolved; a wave that closes with an error costs a correction (S2)."""
    turn = step.history[-1]
    calls = list(turn.calls)
    index = next(n for n, call in enumerate(calls) if call.call_id == call_id and call.state == "open")
    calls[index] = replace(calls[index], **changes)
    corrections = step.corrections
    if all(call.state != "open" for call in calls) and any(call.correction for call in calls):
        corrections += 1
    return replace(step, history=(*step.history[:-1], replace(turn, calls=tuple(calls))), corrections=corrections)


@_on("tool_answered")
def _tool_answered(run: Run, event: Event, fact: ev.ToolAnswered) -> Run:
    step = _extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    step = _resolved(
        step, fact.call_id, state="done", result_ref=event.content_ref, error=fact.error, correction=fact.error
    )
    return _with_step(run, step, pending=_without(run.pending, fact.command_id))


@_on("call_refused")
def _call_refused(run: Run, event: Event, fact: ev.CallRefused) -> Run:
    step = _extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    refused = {"state": "refused", "result_ref": event.content_ref, "error": True, "correction": fact.correction}
    return _with_step(run, _resolved(step, fact.call_id, **refused))


@_on("call_deduplicated")
def _call_deduplicated(run: Run, event: Event, fact: ev.CallDeduplicated) -> Run:
    step = _extended(run.steps[fact.step_id], fact.result_ref, fact.result_bytes)
    return _with_step(run, _resolved(step, fact.call_id, state="done", result_ref=fact.result_ref))


@_on("output_accepted")
def _output_accepted(run: Run, event: Event, fact: ev.OutputAccepted) -> Run:
    return _with_step(run, replace(run.steps[fact.step_id], status="done", output_ref=fact.answer_ref))


def _failed_call(run: Run, event: Event, fact: ev.AttemptFailed | ev.AttemptInterrupted) -> Run:
    pending = replace(run.pending[fact.command_id], failed=True)
    return replace(run, pending={**run.pending, fact.command_id: pending})


_on("attempt_failed")(_failed_call)
_on("attempt_interrupted")(_failed_call)


@_on("call_aborted")
def _call_aborted(run: Run, event: Event, fact: ev.CallAborted) -> Run:
    timers = _without(run.timers, fact.command_id)
    kept = _without(run.pending, fact.command_id)
    return replace(run, pending=kept, timers=timers, voided=(*run.voided, fact.command_id))


@_on("late_result_ignored")
def _late_result(run: Run, event: Event, fact: ev.LateResultIgnored) -> Run:
    return replace(run, voided=tuple(key for key in run.voided if key != fact.command_id))


@_on("reaction_decided")
def _reaction_decided(run: Run, event: Event, fact: ev.ReactionDecided) -> Run:
    key = rung_key(fact.failure_type or "direct", fact.rung, fact.scope)
    withheld = (*run.withheld, fact.step_id or fact.scope) if "block" in fact.accompanies else run.withheld
    spent = {**run.spent_rungs, key: run.spent_rungs.get(key, 0) + 1}
    return replace(run, spent_rungs=spent, recovered=True, withheld=withheld)


@_on("retry_scheduled")
def _retry_scheduled(run: Run, event: Event, fact: ev.RetryScheduled) -> Run:
    return replace(run, timers={**run.timers, fact.command_id: fact.not_before})


@_on("message_injected")
def _message_injected(run: Run, event: Event, fact: ev.MessageInjected) -> Run:
    step = _extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    last = step.history[-1]
    noted = replace(last, notes=(*last.notes, event.content_ref))
    return _with_step(run, replace(step, history=(*step.history[:-1], noted)))


@_on("tools_stripped")
def _tools_stripped(run: Run, event: Event, fact: ev.ToolsStripped) -> Run:
    return _with_step(run, replace(run.steps[fact.step_id], final=True, message=fact.reason), truncated=True)


@_on("step_failed")
def _step_failed(run: Run, event: Event, fact: ev.StepFailed) -> Run:
    step = replace(run.steps[fact.step_id], status="failed", cause=fact.cause, message=fact.message)
    return _with_step(run, step, pending=_calls_kept(run, fact.step_id))


@_on("escalation_opened")
def _escalation_opened(run: Run, event: Event, fact: ev.EscalationOpened) -> Run:
    run = replace(run, questions={**run.questions, fact.escalation_id: OpenQuestion(fact)})
    if fact.item == "failure":
        run = replace(run, rounds={**run.rounds, fact.scope: run.rounds.get(fact.scope, 0) + 1})
    if not fact.step_id:
        return run
    return _with_step(run, replace(run.steps[fact.step_id], status="parked"), pending=_calls_kept(run, fact.step_id))


@_on("escalation_reminded")
def _escalation_reminded(run: Run, event: Event, fact: ev.EscalationReminded) -> Run:
    question = run.questions[fact.escalation_id]
    question = replace(question, reminded=True, onward=question.onward or fact.step == "onward")
    return replace(run, questions={**run.questions, fact.escalation_id: question})


@_on("escalation_decided")
def _escalation_decided(run: Run, event: Event, fact: ev.EscalationDecided) -> Run:
    question = run.questions[fact.escalation_id].fact
    approved = question.stage if question.item == "post_stage" and fact.verb == "approve" else run.approved_stage
    return replace(run, questions=_without(run.questions, fact.escalation_id), approved_stage=approved)


@_on("escalation_withdrawn")
def _escalation_withdrawn(run: Run, event: Event, fact: ev.EscalationWithdrawn) -> Run:
    return replace(run, questions=_without(run.questions, fact.escalation_id))


@_on("deadlines_suspended")
def _deadlines_suspended(run: Run, event: Event, fact: ev.DeadlinesSuspended) -> Run:
    return replace(run, suspended=fact)


@_on("deadlines_reissued")
def _deadlines_reissued(run: Run, event: Event, fact: ev.DeadlinesReissued) -> Run:
    stages = dict(run.stages)
    if run.stage in stages:
        stages[run.stage] = replace(stages[run.stage], deadline_at=fact.stage_deadline_at)
    return replace(run, suspended=None, deadline_at=fact.run_deadline_at, stages=stages)


def _unchanged(run: Run, event: Event, fact: Any) -> Run:
    """A fact for people and auditors; no decision depends on it (mechanisms may still observe it)."""
    return run


for _kind in ("ownership_taken", "input_ignored", "rung_skipped", "cancel_accepted", "handed_off"):
    _on(_kind)(_unchanged)

EVOLVE: Mapping[str, Evolve] = _EVOLVE
"""The table: one function a kind."""
