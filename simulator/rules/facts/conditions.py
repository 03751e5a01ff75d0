"""Judges the conditions of a graph's rules by code of its own, and finds the retry targets of failed turns.

The rules are in docs/specification/topologies.md. It shares their JSON with ``fabric/core/graph/conditions.py``, and
nothing else. Retry targets, and the turns that they have left, are found again from the journal; the counts are its
own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fabric.core.rules.signatures import signature
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.values.units import JSON


class SpeakerTurn(Protocol):
    """The parts of a turn that conditions read."""

    speaker: str
    outcome: str
    error: Any


class Unknown(Exception):
    """Raised if the journal lacks what a condition reads."""


ON_FAILURE = ("outcome_is", "error_class_is")


def asks_how(condition: JSON) -> bool:
    """Return True where a condition asks for a turn's end, by name or by a context variable."""
    named = condition["kind"] in ("context_equals", "context_text") and condition["key"] in ("outcome", "failure_class")
    return named or condition["kind"] in ON_FAILURE or any(map(asks_how, _list_parts(condition)))


def _list_parts(condition: JSON) -> tuple[JSON, ...]:
    return (*condition.get("conditions", ()), *([condition["condition"]] if "condition" in condition else []))


def list_tools(condition: JSON) -> Iterator[str]:
    """Yield the tools that a condition and all within it name."""
    if condition["kind"] == "tool_called":
        yield condition["tool"]
    for inner in _list_parts(condition):
        yield from list_tools(inner)


def holds(condition: JSON, turn: SpeakerTurn, context: Mapping[str, JSON], tool: str) -> bool:
    """Return True where a condition holds after a turn. ``tool``: the turn's routing tool. Raises Unknown for the
    installation's own conditions.
    """

    def inner(one: JSON) -> bool:
        return holds(one, turn, context, tool)

    match condition["kind"]:
        case "always":
            return True
        case "from_speaker":
            return bool(condition["agent"] == turn.speaker)
        case "tool_called":
            return bool(condition["tool"] == tool)
        case "context_equals":
            return bool(context.get(condition["key"]) == condition["value"])
        case "context_text":
            return _compares(condition, context.get(condition["key"]))
        case "outcome_is":
            return bool(condition["outcome"] == turn.outcome)
        case "error_class_is":
            return bool(condition["failure_class"] == turn.error)
        case "all_of":
            return all(map(inner, condition["conditions"]))
        case "any_of":
            return any(map(inner, condition["conditions"]))
        case "not":
            return not inner(condition["condition"])
    raise Unknown


def _compares(condition: JSON, value: JSON) -> bool:
    """Return True where a text condition holds for the value of its variable."""
    asked, other = condition["compares"], condition["value"]
    text = (
        ""
        if value is None
        else value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
    if asked == "is_set":
        return text not in ("", "false", "0")
    if asked == "equals":
        return bool(text == other)
    if asked == "contains" and isinstance(value, list):
        return any(_compares({"compares": "equals", "value": other}, one) for one in value)
    if asked == "contains":
        return other in text
    if asked == "matches":
        return re.search(other, text[:500]) is not None
    try:
        here, there = float(text), float(other)
    except ValueError:
        return False
    return {"greater": here > there, "less": here < there, "at_least": here >= there, "at_most": here <= there}[asked]


LEVELS = ("node", "node_fallback", "graph", "graph_fallback")


@dataclass(slots=True)
class RetryTargets:
    """The retry targets of a graph, and the turns that decide between them. Changed in place."""

    tree: JSON
    """The graph as it is written."""
    visits: Mapping[str, int | None] = field(default_factory=dict)
    """The turns that each speaker may have in a run; None: any number."""
    goals: tuple[str, ...] = ()
    taken: Counter[str] = field(default_factory=Counter)
    """The turns that each speaker had, over all epochs."""
    failed: list[tuple[int, str, str]] = field(default_factory=list)
    """The turns of this epoch that failed: branch, speaker, signature."""

    def after_failure(self, speaker: str, branch: int, said: str) -> tuple[str, str]:
        """Return level and target for a turn that failed with that signature; empty: no target is left."""
        return self._first(self._targets(speaker, "retry_target"), speaker, branch, said)

    def before_goal(self, met: set[str], speaker: str, branch: int, said: str) -> tuple[str, str]:
        """Return level and target for an end that leaves goals unmet. ``said``: the signature of the turn's failure;
        empty: it did not fail.
        """
        for goal in self.goals:
            if goal not in met:
                common = "goal_target" if self.tree.get("goal_target") else "retry_target"
                level, to = self._first(self._targets(goal, common), speaker, branch, said)
                if to:
                    return level, to
        return "", ""

    def _targets(self, node: str, common: str) -> Iterator[tuple[str, str]]:
        own = self.tree.get("retry_targets", {}).get(node, {})
        found = (own.get("retry_target"), own.get("fallback_retry_target"), self.tree.get(common))
        for level, to in zip(LEVELS, (*found, self.tree.get("fallback_retry_target")), strict=True):
            if to:
                yield level, to

    def _first(self, ways: Iterator[tuple[str, str]], speaker: str, branch: int, said: str) -> tuple[str, str]:
        again = bool(said) and any(n < branch and (who, one) == (speaker, said) for n, who, one in self.failed)
        for level, to in ways:
            most = self.visits.get(to)
            if not (again and to == speaker) and (most is None or self.taken[to] < most):
                return level, to
        return "", ""


def read_targets(spec: FabricSpec, topology: GraphTopology) -> RetryTargets:
    """Return the retry targets that a fabric writes down."""
    limits = spec.policy.limits
    given = {name: topology.max_visits.get(name, limits.max_node_visits) for name in topology.workers}
    less = 1 if limits.visits_preset == "fabro" else 0
    visits = {name: None if most is None else most - less for name, most in given.items()}
    goals = tuple(name for name in spec.policy.goal_gates.nodes if name in topology.workers)
    return RetryTargets(topology.graph.to_dict(), visits, goals)


def turn_signature(speaker: str, error_class: Any, message: str) -> str:
    """Return the signature of a turn's failure: the speaker is the node."""
    return signature(speaker, error_class, message)
