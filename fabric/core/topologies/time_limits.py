"""Applies the time limits of a conversation's turns (docs/specification/topologies.md; S4). Each limit fires once, and
one that closes the conversation cancels the turn in flight.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.conversations import turns as conversations
from fabric.core.conversations.expectations import TTL, ConversationClock, due_at, is_expired, violations
from fabric.core.decision.work import Work
from fabric.core.graph.state import SpeakerReason
from fabric.core.reviews import reviews
from fabric.core.state.run import Run, Step, clocks_stopped
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause


def due(run: Run) -> int | None:
    """Return the instant at which the next time limit fires; None: no turn is in flight, or clocks are stopped."""
    talk = run.talk
    if not talk.due_at or talk.stopped_at or run.ending is not None or clocks_stopped(run) is not None:
        return None
    return talk.due_at if _in_flight(run) is not None else None


def _in_flight(run: Run) -> Step | None:
    at_work = (step for step in run.steps.values() if step.stage is Stage.FAN_OUT and step.turn is not None)
    return next((step for step in at_work if step.status not in ("done", "failed")), None)


def first_due(work: Work) -> int:
    """Return the instant at which the first time limit of a turn that begins now fires; 0: none."""
    talk, now = work.run.talk, work.ctx.now
    pace = ConversationClock(talk.opened_at or now, now)
    return due_at(conversations.find_graph(work), conversations.build_state(work), pace, frozenset()) or 0


def fire(work: Work) -> None:
    """Journal each time limit that was exceeded. The first that closes the conversation does so, and so does the
    conversation's time to live.
    """
    at = due(work.run)
    step = _in_flight(work.run)
    if at is None or step is None or work.ctx.now < at:
        return
    graph, state, talk = conversations.find_graph(work), conversations.build_state(work), work.run.talk
    pace = ConversationClock(talk.opened_at, talk.turn_at)
    before = frozenset((state.turns, place) for place in talk.fired)
    found, fired = violations(graph, state, pace, work.ctx.now, before)
    following = due_at(graph, state, pace, fired) or 0
    for one in found:
        fact = ev.TurnOverdue(
            step_id=step.id,
            speaker=one.speaker,
            place=one.place,
            seconds=one.seconds,
            elapsed_us=work.ctx.now - talk.turn_at,
            on_violation=one.on_violation,
            due_at=following,
        )
        work.emit(fact)
    closing = next((one for one in found if one.on_violation == "auto_close"), None)
    if closing is not None:
        close(work, step, SpeakerReason.EXPECTATION, closing.close_reason)
    elif is_expired(graph, state, pace, work.ctx.now):
        close(work, step, SpeakerReason.TTL, TTL)


def close(work: Work, step: Step, why: SpeakerReason, reason: str) -> None:
    """Close the conversation from outside: the turn in flight is lost, with its writes."""
    calls.let_go_all(work, f"its conversation was closed: {reason}", step.id)
    for review in [one.fact for one in work.run.reviews.values() if one.fact.step_id == step.id]:
        work.emit(ev.ReviewWithdrawn(review_id=review.review_id, reason=reason))
    message = f"its conversation was closed in this turn: {reason}"
    work.emit(ev.StepFailed(step_id=step.id, cause=Cause.TIMEOUT, message=message, routed=True))
    chosen = ev.SpeakerChosen(
        step_id=step.id,
        turn=work.run.talk.turns,
        from_agent=conversations.find_speaker(step),
        why=why,
        close_reason=reason,
    )
    work.emit(chosen, {"context": dict(conversations.kept_context(work)), "reason": ""})
    if work.run.suspended is not None:
        reviews.resume_clocks(work)
