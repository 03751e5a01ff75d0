"""Where a conversation goes back to, found again from the journal alone: retry targets and the turns that they have left (semantics.md 5), by counts of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabric.core.signatures import signature
from fabric.core.spec import FabricSpec
from fabric.core.spec_graph import GraphTopology

JSON = Any
LEVELS = ("node", "node_fallback", "graph", "graph_fallback")


@dataclass(slots=True)
class LedBack:
    """What decides which target it is. Changed in place."""

    tree: JSON
    """The graph as it is written."""
    visits: Mapping[str, int | None] = field(default_factory=dict)
    """How many turns each may have in a run; None: as many as it likes."""
    goals: tuple[str, ...] = ()
    taken: Counter[str] = field(default_factory=Counter)
    """Turns that each had, whatever the epoch."""
    failed: list[tuple[int, str, str]] = field(default_factory=list)
    """Turns of this epoch that failed: branch, speaker, signature."""

    def after_failure(self, speaker: str, branch: int, said: str) -> tuple[str, str]:
        """Level and target for a turn that failed with that signature; empty: none is left."""
        return self._first(self._targets(speaker, "retry_target"), speaker, branch, said)

    def before_goal(self, met: set[str], speaker: str, branch: int, said: str) -> tuple[str, str]:
        """Level and target for an end that leaves goals unmet. ``said``: the signature of the turn's failure; empty: it did not fail."""
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


def led_back_of(spec: FabricSpec, topology: GraphTopology) -> LedBack:
    """What a fabric says of it."""
    limits = spec.policy.limits
    given = {name: topology.max_visits.get(name, limits.max_node_visits) for name in topology.workers}
    less = 1 if limits.visits_preset == "fabro" else 0
    visits = {name: None if most is None else most - less for name, most in given.items()}
    goals = tuple(name for name in spec.policy.goal_gates.nodes if name in topology.workers)
    return LedBack(topology.graph.to_dict(), visits, goals)


def said_of(speaker: str, error_class: Any, message: str) -> str:
    """The signature of a turn's failure: the speaker is the node."""
    return signature(speaker, error_class, message)
