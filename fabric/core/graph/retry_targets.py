"""Routes failures in a graph: by transitions that a failure may take, and by retry targets.

In high-stakes, policy, unsafe output, budgets and limits belong to the decision table alone
(docs/specification/topologies.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from fabric.core.graph import conditions as c
from fabric.core.graph.spec import GraphRules, RetryTargets, Transition
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.values.taxonomy import CLASSIFY, Cause, ErrorClass, FailureType, FlowClass, Tier


class TargetLevel(StrEnum):
    """Level of a retry target, in the order in which they are tried."""

    NODE = "node"
    NODE_FALLBACK = "node_fallback"
    GRAPH = "graph"
    GRAPH_FALLBACK = "graph_fallback"


class RetryTarget(NamedTuple):
    """A target, and the level that names it."""

    level: TargetLevel
    to: str


NONE = RetryTargets()


def after_failure(rules: GraphRules, node: str) -> tuple[RetryTarget, ...]:
    """Return the retry targets after a participant's failed turn, the first level first."""
    return tuple(_levels(rules, node, rules.retry_target))


def before_goal(rules: GraphRules, goal: str) -> tuple[RetryTarget, ...]:
    """Return the retry targets before a participant's goal is met. ``goal_target`` is the graph's level there."""
    return tuple(_levels(rules, goal, rules.goal_target or rules.retry_target))


def has_targets(rules: GraphRules) -> bool:
    """Return True if any failure has a retry target."""
    return any(after_failure(rules, node) for node in ("", *rules.retry_targets))


def named_targets(rules: GraphRules) -> Iterator[tuple[str, str]]:
    """Yield every target of the rules, each with its path."""
    for node, own in rules.retry_targets.items():
        yield from ((f"retry_targets.{node}.{name}", to) for name, to in own if to is not None)
    for name in ("retry_target", "fallback_retry_target", "goal_target"):
        if (to := getattr(rules, name)) is not None:
            yield name, to


def _levels(rules: GraphRules, node: str, common: str | None) -> Iterator[RetryTarget]:
    own = rules.retry_targets.get(node, NONE)
    for level, to in zip(
        TargetLevel, (own.retry_target, own.fallback_retry_target, common, rules.fallback_retry_target), strict=True
    ):
        if to is not None:
            yield RetryTarget(level, to)


LIMITS = frozenset({Cause.HOP_LIMIT, Cause.RECURSION_LIMIT, Cause.VISIT_LIMIT, Cause.TURN_LIMIT})
"""Limits on counts; those on money, size and time are budgets."""


def is_barred(cause: Cause) -> bool:
    """Return True if a cause is one of policy, unsafe output, a budget or a limit."""
    classified = CLASSIFY[cause]
    return (
        cause in LIMITS
        or classified.flow_class in (FlowClass.POLICY, FlowClass.BUDGET)
        or classified.goes_to is FailureType.UNSAFE_OUTPUT
    )


def routed_by_edge(cause: Cause, tier: Tier) -> bool:
    """Return True if a node with this failure may go on by a transition on its outcome or class. A cancel
    never does.
    """
    if CLASSIFY[cause].error_class is ErrorClass.CANCELED:
        return False
    return tier is not Tier.HIGH_STAKES or not is_barred(cause)


def on_failure(rule: Transition) -> bool:
    """Return True if a rule depends on the outcome of a turn."""
    return any(_asks_how(one) for _, one in c.walk(rule.when))


def _asks_how(condition: c.Condition) -> bool:
    """Return True if a condition asks for a turn's end, by name or by a context variable."""
    if isinstance(condition, c.ContextEquals | c.ContextText):
        return condition.key in ENGINE_KEYS
    return isinstance(condition, c.OutcomeIs | c.ErrorClassIs)


def has_edges(rules: GraphRules) -> bool:
    """Return True if any rule depends on the outcome of a turn."""
    return any(on_failure(rule) for rule in rules.transitions)
