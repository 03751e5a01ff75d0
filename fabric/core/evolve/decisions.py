"""Folds reactions, reviews and clocks."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve import saga
from fabric.core.evolve.conversation import start_clocks, stop_clocks
from fabric.core.evolve.parts import Evolve, calls_kept, extend_prompt, keep_run, with_step, without_key
from fabric.core.mechanisms import circuit_breaker
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.state.let_pass import NEXT_RUNG
from fabric.core.state.run import OpenReview, Run, agent_stopped, rung_key
from fabric.core.state.trouble import add_decision, add_skip
from fabric.core.values.frozen import replace

GOES_ON = ("child", "pre_action")
"""Kinds of review that park no step: a child does, or the step has other calls to make."""


def find_uses(fact: ev.ReactionDecided) -> int:
    """Return the uses that a decision takes of its rung: one; none where it waits for another call's probe."""
    waits = fact.reaction == Reaction.WAIT_FOR_BREAKER
    return 0 if waits and circuit_breaker.probe_is_out(fact.cause.mechanism, fact.cause.evidence) else 1


def _reaction_decided(run: Run, event: Event, fact: ev.ReactionDecided) -> Run:
    key = rung_key(fact.failure_type or "direct", fact.rung, fact.scope)
    withheld = (*run.withheld, fact.step_id or fact.scope) if "block" in fact.accompanies else run.withheld
    spent = {**run.spent_rungs, key: run.spent_rungs.get(key, 0) + find_uses(fact)}
    trouble = add_decision(run.trouble, fact)
    return replace(run, spent_rungs=spent, recovered=True, withheld=withheld, trouble=trouble)


def _rung_skipped(run: Run, event: Event, fact: ev.RungSkipped) -> Run:
    return replace(run, trouble=add_skip(run.trouble, fact))


AWAY = frozenset({"breaker", "named", "retry_after"})
"""Sources of waits for an endpoint that is away, or that requested a delay."""


def _retry_scheduled(run: Run, event: Event, fact: ev.RetryScheduled) -> Run:
    pending = run.pending[fact.command_id]
    spent_us = pending.spent_us if fact.source in ("backoff", "retry_after") else 0
    calls = {**run.pending, fact.command_id: replace(pending, spent_us=spent_us, away=fact.source in AWAY)}
    return replace(run, timers={**run.timers, fact.command_id: fact.not_before}, pending=calls)


def _node_retry_scheduled(run: Run, event: Event, fact: ev.NodeRetryScheduled) -> Run:
    return replace(run, timers={**run.timers, fact.step_id: fact.not_before})


def _message_injected(run: Run, event: Event, fact: ev.MessageInjected) -> Run:
    step = extend_prompt(run.steps[fact.step_id], event.content_ref, event.content_bytes)
    last = step.history[-1]
    noted = replace(last, notes=(*last.notes, event.content_ref))
    return with_step(run, replace(step, history=(*step.history[:-1], noted)))


def _model_changed(run: Run, event: Event, fact: ev.ModelChanged) -> Run:
    step = run.steps[fact.step_id]
    if fact.reason != Reaction.FALLBACK_MODEL:
        return with_step(run, replace(step, model=fact.model, stands_for="", tried=()))
    stands_for = step.stands_for or fact.before
    if fact.command_id in run.pending:  # A fallback has the call's whole time.
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
    return with_step(run, step, pending=calls_kept(run, fact.step_id), timers=without_key(run.timers, fact.step_id))


def _review_opened(run: Run, event: Event, fact: ev.ReviewOpened) -> Run:
    if fact.item == "follow_up":  # The run does not wait for a follow-up.
        return run
    asked = OpenReview(fact, event.at, shown_ref=event.content_ref)
    run = replace(run, reviews={**run.reviews, fact.review_id: asked})
    if fact.item == "failure":
        run = replace(run, rounds={**run.rounds, fact.scope: run.rounds.get(fact.scope, 0) + 1})
    if not fact.step_id or fact.item in GOES_ON:
        return run
    return with_step(run, replace(run.steps[fact.step_id], status="parked"), pending=calls_kept(run, fact.step_id))


def _review_reminded(run: Run, event: Event, fact: ev.ReviewReminded) -> Run:
    review = run.reviews[fact.review_id]
    review = replace(review, reminded=True, onward=review.onward or fact.step == "onward")
    return replace(run, reviews={**run.reviews, fact.review_id: review})


def _review_approved(run: Run, event: Event, fact: ev.ReviewApproved) -> Run:
    review = replace(run.reviews[fact.review_id], agreed=fact.agreed, terms=fact.terms)
    return replace(run, reviews={**run.reviews, fact.review_id: review})


def _review_edited(run: Run, event: Event, fact: ev.ReviewEdited) -> Run:
    review = run.reviews[fact.review_id]
    review = replace(
        review,
        fact=replace(review.fact, digest=fact.digest),
        shown_ref=event.content_ref,
        agreed=fact.agreed,
        terms="",
        proposed_by=fact.proposed_by,
        edited=True,
    )
    return replace(run, reviews={**run.reviews, fact.review_id: review})


def _review_decided(run: Run, event: Event, fact: ev.ReviewDecided) -> Run:
    asked = run.reviews[fact.review_id]
    review = asked.fact
    if review.item == "pre_action" and fact.verb in ("approve", "edit"):
        run = replace(run, saga=saga.approve_call(run, review.scope))
    if review.on_expiry == NEXT_RUNG and fact.system:
        run = with_step(run, replace(run.steps[review.step_id], status="active"))
    as_shown = fact.verb == "approve" and not asked.edited
    if review.releases and as_shown:
        run = _release_output(run, review)
    approved = review.stage if review.item == "post_stage" and as_shown else run.approved_stage
    return replace(run, reviews=without_key(run.reviews, fact.review_id), approved_stage=approved)


def _release_output(run: Run, review: ev.ReviewOpened) -> Run:
    """Release the held-back output as it is: its step is done with it."""
    kept = tuple(name for name in run.withheld if name not in (review.step_id, f"stage:{review.stage}"))
    run = replace(run, released=(*run.released, review.releases), withheld=kept)
    if not review.step_id:
        return run
    return with_step(run, replace(run.steps[review.step_id], status="done"))


def _review_withdrawn(run: Run, event: Event, fact: ev.ReviewWithdrawn) -> Run:
    return replace(run, reviews=without_key(run.reviews, fact.review_id))


def _deadlines_suspended(run: Run, event: Event, fact: ev.DeadlinesSuspended) -> Run:
    return replace(run, suspended=fact, talk=stop_clocks(run.talk, event.at))


def _deadlines_reissued(run: Run, event: Event, fact: ev.DeadlinesReissued) -> Run:
    stages = dict(run.stages)
    if run.stage in stages:
        stages[run.stage] = replace(stages[run.stage], deadline_at=fact.stage_deadline_at)
    talk = start_clocks(run.talk, event.at)
    return replace(run, suspended=None, deadline_at=fact.run_deadline_at, stages=stages, talk=talk)


TABLE: Mapping[str, Evolve] = {
    "reaction_decided": _reaction_decided,
    "retry_scheduled": _retry_scheduled,
    "node_retry_scheduled": _node_retry_scheduled,
    "message_injected": _message_injected,
    "tools_stripped": _tools_stripped,
    "step_failed": _step_failed,
    "review_opened": _review_opened,
    "review_reminded": _review_reminded,
    "review_approved": _review_approved,
    "review_edited": _review_edited,
    "review_decided": _review_decided,
    "review_withdrawn": _review_withdrawn,
    "deadlines_suspended": _deadlines_suspended,
    "deadlines_reissued": _deadlines_reissued,
    "model_changed": _model_changed,
    "rung_skipped": _rung_skipped,
    "alert_raised": keep_run,
    "cap_raised": keep_run,
    "budget_raised": keep_run,
}
