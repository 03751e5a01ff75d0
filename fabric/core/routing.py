"""Failures that go on in the graph: a turn that failed is over, and a rule on how it ended says who is next, or else a retry target (semantics.md 5; S1).

Which target it is follows from what the run held before the turn failed, so that the turn's end finds the one again that spoke for ending it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric.core import calls, conversations, guard
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.graph.by_edge import on_failure, routed_by_edge
from fabric.core.graph.conversation import Decision, fold
from fabric.core.graph.registry import Unanswered
from fabric.core.graph.retry_targets import Way, after_failure
from fabric.core.graph.state import NodeOutcome, Packet
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.failure_signature import of_crossing
from fabric.core.run import Step
from fabric.core.taxonomy import CLASSIFY, Cause
from fabric.core.verdict import Trip
from fabric.core.work import Work

if TYPE_CHECKING:
    from fabric.core.ladder import Choice

BARRED = "policy, unsafe output, budgets and limits never go on by a rule in high-stakes"


def why_not(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Why a failure does not go on by a rule; empty: it does."""
    step = work.run.steps.get(failure.step_id)
    if step is None or (reason := _no_turn(work, step, trip)):
        return reason if step is not None else NO_TURN
    try:
        return "" if _by_rule(work, step, trip) else NO_RULE
    except Unanswered as error:
        return str(error)


def _by_rule(work: Work, step: Step, trip: Trip) -> bool:
    """Whether a rule on how a turn ended decides after this failure. Unanswered where nobody can tell."""
    graph = conversations.graph_of(work)
    lost = Packet(conversations.speaker_of(step), outcome=NodeOutcome.FAIL, error=CLASSIFY[trip.cause].error_class)
    decision = fold(graph, conversations.state_of(work), lost, work.compiled.registry).decision
    return decision is not None and by_rule(work, decision)


def why_not_back(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Why a failure that no rule leads on from does not go back to a retry target; empty: it does."""
    step = work.run.steps.get(failure.step_id)
    if step is None or (reason := _no_turn(work, step, trip)):
        return reason if step is not None else NO_TURN
    try:
        if _by_rule(work, step, trip):
            return "a rule on how a turn ended decides"
    except Unanswered as error:
        return str(error)
    graph, speaker = conversations.graph_of(work), conversations.speaker_of(step)
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
    """Whether a rule that looks at how a turn ended decided, or would have but for the bound on turns."""
    place = decision.transition
    return place is not None and on_failure(conversations.graph_of(work).transitions[place])


def last_turn(work: Work, turns: int) -> bool:
    """Whether nobody may speak after so many turns. A graph without a bound leads nobody back: it might for ever."""
    most = conversations.graph_of(work).max_turns
    return most is None or turns >= most


def back_from(work: Work, step: Step, ways: Iterable[Way], cause: Cause | None, message: str) -> Way | None:
    """The first target that may have another turn and is not the very one that failed the same way before. ``cause``: how the turn failed; None: it did not."""
    speaker = conversations.speaker_of(step)
    again = cause is not None and _same_again(work, step, cause, message)
    return next((way for way in ways if not (again and way.to == speaker) and _has_turn(work, way.to)), None)


def _same_again(work: Work, step: Step, cause: Cause, message: str) -> bool:
    speaker = conversations.speaker_of(step)
    key = of_crossing(speaker, cause, message)
    return any(
        before.cause is not None and of_crossing(speaker, before.cause, before.message) == key
        for before in work.run.steps.values()
        if before.stage is Stage.FAN_OUT and before.turn is not None and before.branch < step.branch
        if before.status == "failed" and conversations.speaker_of(before) == speaker
    )


def _has_turn(work: Work, who: str) -> bool:
    visit = Proposal(kind="visit", stage=Stage.FAN_OUT, agent=who)
    return not guard.judge(visit, work.view, work.compiled.spec.policy)


def go_on(work: Work, failure: Failure, choice: Choice) -> None:
    """Ends the turn: what follows is the graph's to say."""
    calls.let_go_all(work, "the turn ended", failure.step_id)
    trip = choice.trip
    work.emit(ev.StepFailed(step_id=failure.step_id, cause=trip.cause, message=trip.message, routed=True))
