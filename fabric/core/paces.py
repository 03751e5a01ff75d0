"""How long a conversation's turns may take: expectations of its graph fire once each, and what closes it takes the turn in flight back (semantics.md 5; S4)."""

from __future__ import annotations

from fabric.core import calls, conversations, questions
from fabric.core import events as ev
from fabric.core.flow import Stage
from fabric.core.graph.expectations import TTL, Pace, due_at, expired, violations
from fabric.core.graph.state import Why
from fabric.core.run import Run, Step, clocks_stopped
from fabric.core.taxonomy import Cause
from fabric.core.work import Work


def due(run: Run) -> int | None:
    """When the next expectation fires; None: no turn is in flight, or clocks stand still."""
    talk = run.talk
    if not talk.due_at or talk.stopped_at or run.ending is not None or clocks_stopped(run) is not None:
        return None
    return talk.due_at if _in_flight(run) is not None else None


def _in_flight(run: Run) -> Step | None:
    at_work = (step for step in run.steps.values() if step.stage is Stage.FAN_OUT and step.turn is not None)
    return next((step for step in at_work if step.status not in ("done", "failed")), None)


def first_due(work: Work) -> int:
    """When the first expectation fires of a turn that begins now; 0: none does."""
    talk, now = work.run.talk, work.ctx.now
    pace = Pace(talk.opened_at or now, now)
    return due_at(conversations.graph_of(work), conversations.state_of(work), pace, frozenset()) or 0


def fire(work: Work) -> None:
    """Tells each expectation that has not been met; the first that closes the conversation does so, and so does its time to live."""
    at = due(work.run)
    step = _in_flight(work.run)
    if at is None or step is None or work.ctx.now < at:
        return
    graph, state, talk = conversations.graph_of(work), conversations.state_of(work), work.run.talk
    pace = Pace(talk.opened_at, talk.turn_at)
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
        close(work, step, Why.EXPECTATION, closing.close_reason)
    elif expired(graph, state, pace, work.ctx.now):
        close(work, step, Why.TTL, TTL)


def close(work: Work, step: Step, why: Why, reason: str) -> None:
    """Closes the conversation from outside: the turn in flight is lost, with what it wrote."""
    calls.let_go_all(work, f"its conversation was closed: {reason}", step.id)
    for question in [one.fact for one in work.run.questions.values() if one.fact.step_id == step.id]:
        work.emit(ev.EscalationWithdrawn(escalation_id=question.escalation_id, reason=reason))
    message = f"its conversation was closed in this turn: {reason}"
    work.emit(ev.StepFailed(step_id=step.id, cause=Cause.TIMEOUT, message=message, routed=True))
    chosen = ev.SpeakerChosen(
        step_id=step.id,
        turn=work.run.talk.turns,
        from_agent=conversations.speaker_of(step),
        why=why,
        close_reason=reason,
    )
    work.emit(chosen, {"context": dict(conversations.kept_context(work)), "reason": ""})
    if work.run.suspended is not None:
        questions.resume_clocks(work)
