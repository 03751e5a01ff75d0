"""Failures that go on by a rule of the graph: a turn that failed is over, and a rule on how it ended says who is next (semantics.md 5; S1 "Edge routing")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.core import calls, conversations
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.graph.by_edge import on_failure, routed_by_edge
from fabric.core.graph.conversation import fold
from fabric.core.graph.registry import Unanswered
from fabric.core.graph.state import NodeOutcome, Packet
from fabric.core.taxonomy import CLASSIFY
from fabric.core.verdict import Trip
from fabric.core.work import Work

if TYPE_CHECKING:
    from fabric.core.ladder import Choice

BARRED = "policy, unsafe output, budgets and limits never go on by a rule in high-stakes"


def why_not(work: Work, failure: Failure, trip: Trip, spent: int) -> str:
    """Why a failure does not go on by a rule; empty: it does."""
    step = work.run.steps.get(failure.step_id)
    if step is None or step.turn is None or not step.turn.chooses or step.status not in ("active", "delegated"):
        return "it is no turn that a graph could lead on from"
    if not routed_by_edge(trip.cause, work.run.tier):
        return BARRED
    graph = conversations.graph_of(work)
    lost = Packet(conversations.speaker_of(step), outcome=NodeOutcome.FAIL, error=CLASSIFY[trip.cause].error_class)
    try:
        decision = fold(graph, conversations.state_of(work), lost, work.compiled.registry).decision
    except Unanswered as error:
        return str(error)
    place = decision.transition if decision is not None else None
    if place is None or not on_failure(graph.transitions[place]):
        return "no rule on how a turn ended leads on from it"
    return ""


def go_on(work: Work, failure: Failure, choice: Choice) -> None:
    """Ends the turn: what follows is the graph's to say."""
    calls.let_go_all(work, "the turn ended", failure.step_id)
    trip = choice.trip
    work.emit(ev.StepFailed(step_id=failure.step_id, cause=trip.cause, message=trip.message, routed=True))
