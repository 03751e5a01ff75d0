"""Retry targets: where a turn that failed leads back to, and an end before a goal is met. Four levels, tried in their order (S1 "Goal gates"; semantics.md 5)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from fabric.core.graph.spec import GraphRules, RetryTargets


class Level(StrEnum):
    """Whose target it is, in the order in which they are tried."""

    NODE = "node"
    NODE_FALLBACK = "node_fallback"
    GRAPH = "graph"
    GRAPH_FALLBACK = "graph_fallback"


class Way(NamedTuple):
    """A target, and the level that names it."""

    level: Level
    to: str


NONE = RetryTargets()


def after_failure(rules: GraphRules, node: str) -> tuple[Way, ...]:
    """Where a turn of a participant leads back to that failed, the first level first."""
    return tuple(_levels(rules, node, rules.retry_target))


def before_goal(rules: GraphRules, goal: str) -> tuple[Way, ...]:
    """Where an end leads back to that comes before a participant's goal is met. ``goal_target`` is the graph's level there."""
    return tuple(_levels(rules, goal, rules.goal_target or rules.retry_target))


def has_targets(rules: GraphRules) -> bool:
    """Whether any failure leads back anywhere."""
    return any(after_failure(rules, node) for node in ("", *rules.retry_targets))


def named(rules: GraphRules) -> Iterator[tuple[str, str]]:
    """Every target of the rules, each with its path."""
    for node, own in rules.retry_targets.items():
        yield from ((f"retry_targets.{node}.{name}", to) for name, to in own if to is not None)
    for name in ("retry_target", "fallback_retry_target", "goal_target"):
        if (to := getattr(rules, name)) is not None:
            yield name, to


def _levels(rules: GraphRules, node: str, common: str | None) -> Iterator[Way]:
    own = rules.retry_targets.get(node, NONE)
    for level, to in zip(
        Level, (own.retry_target, own.fallback_retry_target, common, rules.fallback_retry_target), strict=True
    ):
        if to is not None:
            yield Way(level, to)
