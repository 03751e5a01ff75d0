"""Which failures a transition may route at all (semantics.md 5): in high-stakes policy, unsafe output, budgets and limits are the decision table's alone."""

from __future__ import annotations

from fabric.core.graph import conditions as c
from fabric.core.graph.spec import GraphRules, Transition
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.taxonomy import CLASSIFY, Cause, ErrorClass, FailureType, FlowClass, Tier

LIMITS = frozenset({Cause.HOP_LIMIT, Cause.RECURSION_LIMIT, Cause.VISIT_LIMIT, Cause.TURN_LIMIT})
"""Bounds on how often something may happen; those on money, size and time are budgets."""


def barred(cause: Cause) -> bool:
    """Whether a cause is one of policy, unsafe output, a budget or a limit."""
    classified = CLASSIFY[cause]
    return (
        cause in LIMITS
        or classified.flow_class in (FlowClass.POLICY, FlowClass.BUDGET)
        or classified.goes_to is FailureType.UNSAFE_OUTPUT
    )


def routed_by_edge(cause: Cause, tier: Tier) -> bool:
    """Whether a node that failed so may go on by a transition on its outcome or class, in a tier. A cancel never does."""
    if CLASSIFY[cause].error_class is ErrorClass.CANCELED:
        return False
    return tier is not Tier.HIGH_STAKES or not barred(cause)


def on_failure(rule: Transition) -> bool:
    """Whether a rule looks at how a turn ended."""
    return any(_asks_how(one) for _, one in c.walk(rule.when))


def _asks_how(condition: c.Condition) -> bool:
    """Returns True where a condition asks for a turn's end, by name or by a context variable."""
    if isinstance(condition, c.ContextEquals | c.ContextText):
        return condition.key in ENGINE_KEYS
    return isinstance(condition, c.OutcomeIs | c.ErrorClassIs)


def has_edges(rules: GraphRules) -> bool:
    """Whether any rule does."""
    return any(on_failure(rule) for rule in rules.transitions)
