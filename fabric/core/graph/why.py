"""Why this speaker: one sentence for people about each decision, a row for each thing that decides (the run's page)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core.graph.conversation import Decision
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import Why

_Tells = Callable[[TransitionGraph, Decision], str]


def told(graph: TransitionGraph, decision: Decision) -> str:
    """What a decision was, and what decided it."""
    outcome = f"{decision.speaker} speaks next" if decision.speaker is not None else f"closed: {decision.close_reason}"
    return f"{outcome}, since {TELLS[decision.why](graph, decision)}"


def _rule(graph: TransitionGraph, decision: Decision) -> str:
    assert decision.transition is not None
    rule = graph.transitions[decision.transition]
    return (
        f"rule {decision.transition} ({rule.when.kind} to {rule.then.kind}, order {rule.order}) was the first that held"
    )


TELLS: Mapping[Why, _Tells] = {
    Why.HANDOFF: lambda graph, one: f"tool {one.tool} handed over" + (f" ({one.reason})" if one.reason else ""),
    Why.FINISH: lambda graph, one: f"tool {one.tool} ended the conversation",
    Why.TRANSITION: _rule,
    Why.DEFAULT: lambda graph, one: "no rule held, and the default target decides then",
    Why.NO_DEFAULT: lambda graph, one: "no rule held, and there is no default target that leads to a participant",
    Why.MAX_TURNS: lambda graph, one: f"{graph.max_turns} turns were taken, as many as there may be",
    Why.GOAL: lambda graph, one: "it would have ended, and a goal is not met yet",
    Why.EXPECTATION: lambda graph, one: "a turn took longer than it may",
    Why.TTL: lambda graph, one: "it has lived as long as it may",
}
"""Total over ``Why``, by test."""
