"""Reactions, questions to people, clocks."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.envelope import Event
from fabric.core.evolve import saga
from fabric.core.evolve.conversation import going, halted
from fabric.core.evolve.parts import Evolve, calls_kept, extended, unchanged, with_step, without
from fabric.core.frozen import replace
from fabric.core.let_pass import NEXT_RUNG
from fabric.core.mechanisms import circuit_breaker
from fabric.core.run import OpenQuestion, Run, rung_key
from fabric.core.stops import agent_stopped

GOES_ON = ("child", "pre_action")
"""Kinds of question that park no step: a child does it, or it has other calls to make."""


def uses_of(fact: ev.ReactionDecided) -> int:
    """Uses that a decision takes of its rung: one, and none where it waits for another call's probe."""
    waits = fact.reaction == Reaction.WAIT_FOR_BREAKER
    return 0 if waits and circuit_breaker.probe_is_out(fact.cause.mechanism, fact.cause.evidence) else 1


def _reaction_decided(run: Run, event: Event, fact: ev.ReactionDecided) -> Run:
    key = rung_key(fact.failure_type or "direct", fact.rung, fact.scope)
    withheld = (*run.withheld, fact.step_id or fact.scope) if "block" in fact.accompanies else run.withheld
    spent = {**run.spent_rungs, key: run.spent_rungs.get(key, 0) + uses_of(fact)}
    run = replace(run, spent_rungs=spent, recovered=True, withheld=withheld)
    if run.family.lineage is None:
        return run
    return replace(run, family=replace(run.family, trouble=fact.cause.cause))


AWAY = frozenset({"breaker", "named", "retry_after"})
"""Sources of waits for an endpoint that is away, or that said how long it wants to be left alone."""


def _retry_scheduled(run: Run, event: Event, fact: ev.RetryScheduled) -> Run:
    pending = run.pending[fact.command_id]
    spent_us = pending.spent_us if fact.source in ("backoff", "retry_after") else 0
    calls = {**run.pending, fact.command_id: replace(pending, spent_us=spent_us, away=fact.source in AWAY)}
    return replace(run, timers={**run.timers, fact.command_id: fact.not_before}, pending=calls)


def _node_retry_scheduled(run: Run, event: Event, fact: ev.NodeRetryScheduled) -> Run:
    return replace(run, timers={**run.timers, fact.step_id: fact.not_before})


def _message_injected(run: Run, event: Event, fact: ev.MessageInjected) -> Run:
    step = extended(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    last = step.history[-1]
    noted = replace(last, notes=(*last.notes, event.content_ref))
    return with_step(run, replace(step, history=(*step.history[:-1], noted)))


def _model_changed(run: Run, event: Event, fact: ev.ModelChanged) -> Run:
    step = run.steps[fact.step_id]
    if fact.reason != Reaction.FALLBACK_MODEL:
        return with_step(run, replace(step, model=fact.model, stands_for="", tried=()))
    stands_for = step.stands_for or fact.before
    if fact.command_id in run.pending:  # Whoever stands in has the call's whole time.
        anew = replace(run.pending[fact.command_id], spent_us=0)
        run = replace(run, pending={**run.pending, fact.command_id: anew})
    return with_step(run, replace(step, model=fact.model, stands_for=stands_for, tried=(*step.tried, fact.before)))


def _tools_stripped(run: Run, event: Event, fact: ev.ToolsStripped) -> Run:
    step = run.steps[fact.step_id]
    found = {**run.stops, fact.step_id: agent_stopped(step.agent, fact.reason, fact.kept)}
    return with_step(run, replace(step, final=True, message=fact.reason), truncated=True, stops=found)


def _step_failed(run: Run, event: Event, fact: ev.StepFailed) -> Run:
    step = replace(
        run.steps[fact.step_id],
        status="failed",
        cause=fact.cause,
        message=fact.message,
        partial=fact.partial,
        routed=fact.routed,
    )
    return with_step(run, step, pending=calls_kept(run, fact.step_id), timers=without(run.timers, fact.step_id))


def _escalation_opened(run: Run, event: Event, fact: ev.EscalationOpened) -> Run:
    if fact.item == "ticket":  # Nobody waits for it.
        return run
    asked = OpenQuestion(fact, event.at, shown_ref=event.content_ref)
    run = replace(run, questions={**run.questions, fact.escalation_id: asked})
    if fact.item == "failure":
        run = replace(run, rounds={**run.rounds, fact.scope: run.rounds.get(fact.scope, 0) + 1})
    if not fact.step_id or fact.item in GOES_ON:
        return run
    return with_step(run, replace(run.steps[fact.step_id], status="parked"), pending=calls_kept(run, fact.step_id))


def _escalation_reminded(run: Run, event: Event, fact: ev.EscalationReminded) -> Run:
    question = run.questions[fact.escalation_id]
    question = replace(question, reminded=True, onward=question.onward or fact.step == "onward")
    return replace(run, questions={**run.questions, fact.escalation_id: question})


def _escalation_approved(run: Run, event: Event, fact: ev.EscalationApproved) -> Run:
    question = replace(run.questions[fact.escalation_id], agreed=fact.agreed, terms=fact.terms)
    return replace(run, questions={**run.questions, fact.escalation_id: question})


def _escalation_edited(run: Run, event: Event, fact: ev.EscalationEdited) -> Run:
    question = run.questions[fact.escalation_id]
    question = replace(
        question,
        fact=replace(question.fact, digest=fact.digest),
        shown_ref=event.content_ref,
        agreed=fact.agreed,
        terms="",
        proposed_by=fact.proposed_by,
        edited=True,
    )
    return replace(run, questions={**run.questions, fact.escalation_id: question})


def _escalation_decided(run: Run, event: Event, fact: ev.EscalationDecided) -> Run:
    asked = run.questions[fact.escalation_id]
    question = asked.fact
    if question.item == "pre_action" and fact.verb in ("approve", "edit"):
        run = replace(run, saga=saga.approved(run, question.scope))
    if question.on_expiry == NEXT_RUNG and fact.system:
        run = with_step(run, replace(run.steps[question.step_id], status="active"))
    as_shown = fact.verb == "approve" and not asked.edited
    if question.releases and as_shown:
        run = _released(run, question)
    approved = question.stage if question.item == "post_stage" and as_shown else run.approved_stage
    return replace(run, questions=without(run.questions, fact.escalation_id), approved_stage=approved)


def _released(run: Run, question: ev.EscalationOpened) -> Run:
    """What was held back goes on as it is: its step is done with what it said."""
    kept = tuple(name for name in run.withheld if name not in (question.step_id, f"stage:{question.stage}"))
    run = replace(run, released=(*run.released, question.releases), withheld=kept)
    if not question.step_id:
        return run
    return with_step(run, replace(run.steps[question.step_id], status="done"))


def _escalation_withdrawn(run: Run, event: Event, fact: ev.EscalationWithdrawn) -> Run:
    return replace(run, questions=without(run.questions, fact.escalation_id))


def _deadlines_suspended(run: Run, event: Event, fact: ev.DeadlinesSuspended) -> Run:
    return replace(run, suspended=fact, talk=halted(run.talk, event.at))


def _deadlines_reissued(run: Run, event: Event, fact: ev.DeadlinesReissued) -> Run:
    stages = dict(run.stages)
    if run.stage in stages:
        stages[run.stage] = replace(stages[run.stage], deadline_at=fact.stage_deadline_at)
    talk = going(run.talk, event.at)
    return replace(run, suspended=None, deadline_at=fact.run_deadline_at, stages=stages, talk=talk)


TABLE: Mapping[str, Evolve] = {
    "reaction_decided": _reaction_decided,
    "retry_scheduled": _retry_scheduled,
    "node_retry_scheduled": _node_retry_scheduled,
    "message_injected": _message_injected,
    "tools_stripped": _tools_stripped,
    "step_failed": _step_failed,
    "escalation_opened": _escalation_opened,
    "escalation_reminded": _escalation_reminded,
    "escalation_approved": _escalation_approved,
    "escalation_edited": _escalation_edited,
    "escalation_decided": _escalation_decided,
    "escalation_withdrawn": _escalation_withdrawn,
    "deadlines_suspended": _deadlines_suspended,
    "deadlines_reissued": _deadlines_reissued,
    "model_changed": _model_changed,
    "rung_skipped": unchanged,
    "alert_raised": unchanged,
    "cap_raised": unchanged,
    "budget_raised": unchanged,
}
