"""Lets a conversation go on in its graph after a failed turn (docs/specification/topologies.md; S1). A rule on the
outcome chooses the next speaker, or else a retry target.

The target follows from the run's state before the turn failed, so that the end of the turn finds the target that
allowed its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.conversations import turns as conversations
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.graph.conversation import Decision, fold
from fabric.core.graph.registry import RegisteredUnanswered
from fabric.core.graph.retry_targets import RetryTarget, after_failure, on_failure, routed_by_edge
from fabric.core.graph.state import NodeOutcome, Packet
from fabric.core.ladders.choice import Choice
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.failure_signature import crossing_signature
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import CLASSIFY, Cause, Trip

BARRED = "in high-stakes no rule continues after policy, unsafe output, budgets or limits"


def why_not(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Return why a failure does not go on by a rule; "" if it does."""
    step = work.run.steps.get(failure.step_id)
    if step is None or (reason := _no_turn(work, step, trip)):
        return reason if step is not None else NO_TURN
    try:
        return "" if _by_rule(work, step, trip) else NO_RULE
    except RegisteredUnanswered as error:
        return str(error)


def _by_rule(work: Work, step: Step, trip: Trip) -> bool:
    """Return True if a rule on the outcome of the turn decides after this failure. Raises Unanswered if that is
    unknown.
    """
    graph = conversations.find_graph(work)
    lost = Packet(conversations.find_speaker(step), outcome=NodeOutcome.FAIL, error=CLASSIFY[trip.cause].error_class)
    decision = fold(graph, conversations.build_state(work), lost, work.compiled_fabric.registry).decision
    return decision is not None and by_rule(work, decision)


def why_not_back(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Return why a failure that no rule leads on from does not go to a retry target. "": it does."""
    step = work.run.steps.get(failure.step_id)
    if step is None or (reason := _no_turn(work, step, trip)):
        return reason if step is not None else NO_TURN
    try:
        if _by_rule(work, step, trip):
            return "a rule on how a turn ended decides"
    except RegisteredUnanswered as error:
        return str(error)
    graph, speaker = conversations.find_graph(work), conversations.find_speaker(step)
    ways = after_failure(graph, speaker)
    if not ways:
        return f"{speaker} has no retry target, and neither has the graph"
    if last_turn(work, work.run.talk.turns + 1):
        return "the conversation has had as many turns as it may"
    if back_from(work, step, ways, trip.cause, trip.message) is None:
        return (
            f"no retry target is left ({', '.join(way.to for way in ways)}): no turns, or it fails the same way itself"
        )
    return ""


NO_RULE = "no rule on how a turn ended leads on from it"
NO_TURN = "it is no turn that a graph could lead on from"


def _no_turn(work: Work, step: Step, trip: Trip) -> str:
    if step.turn is None or not step.turn.chooses or step.status not in ("active", "delegated"):
        return NO_TURN
    return "" if routed_by_edge(trip.cause, work.run.tier) else BARRED


def by_rule(work: Work, decision: Decision) -> bool:
    """Return True if a rule on the outcome decided, or would have without the limit of turns."""
    place = decision.transition
    return place is not None and on_failure(conversations.find_graph(work).transitions[place])


def last_turn(work: Work, turns: int) -> bool:
    """Return True if no turn may follow after so many. A graph without a limit never goes back: it might loop for
    ever.
    """
    most = conversations.find_graph(work).max_turns
    return most is None or turns >= most


def back_from(
    work: Work, step: Step, ways: Iterable[RetryTarget], cause: Cause | None, message: str
) -> RetryTarget | None:
    """Return the first target that has a turn left and did not fail in this way before. ``cause``: cause of the
    turn's failure; None: it did not fail.
    """
    speaker = conversations.find_speaker(step)
    again = cause is not None and _same_again(work, step, cause, message)
    return next((way for way in ways if not (again and way.to == speaker) and _has_turn(work, way.to)), None)


def _same_again(work: Work, step: Step, cause: Cause, message: str) -> bool:
    speaker = conversations.find_speaker(step)
    key = crossing_signature(speaker, cause, message)
    return any(
        before.cause is not None and crossing_signature(speaker, before.cause, before.message) == key
        for before in work.run.steps.values()
        if before.stage is Stage.FAN_OUT and before.turn is not None and before.branch < step.branch
        if before.status == "failed" and conversations.find_speaker(before) == speaker
    )


def _has_turn(work: Work, who: str) -> bool:
    visit = Proposal(kind="visit", stage=Stage.FAN_OUT, agent=who)
    return not guard.judge(visit, work.view, work.compiled_fabric.spec.policy)


def go_on(work: Work, failure: Failure, choice: Choice) -> None:
    """End the turn; the graph decides what follows."""
    calls.let_go_all(work, "the turn ended", failure.step_id)
    trip = choice.trip
    work.emit(ev.StepFailed(step_id=failure.step_id, cause=trip.cause, message=trip.message, routed=True))
