"""What may be picked at a place whose answers are neither in its type nor one list of the draft: value and word, by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.flow import Stage
from fabric.guardrails.rules import RULES

JSON = Any
Source = Callable[[JSON], tuple[tuple[str, str], ...]]
"""From what the draft says to what may be picked: values, each with a word."""


def _shipped_rules(tree: JSON) -> tuple[tuple[str, str], ...]:
    return tuple((rule.name, f"{rule.name.replace('_', ' ')}: {rule.finds}") for rule in RULES)


def _goals(tree: JSON) -> tuple[tuple[str, str], ...]:
    """The stages, then the workers."""
    topology = tree.get("topology") if isinstance(tree, dict) else None
    workers = topology.get("workers") if isinstance(topology, dict) else None
    named = [one for one in workers if isinstance(one, str)] if isinstance(workers, list) else []
    words = {str(stage): f"stage {stage.replace('_', '-')}" for stage in Stage} | {one: one for one in named}
    return tuple(words.items())


SOURCES: Mapping[str, Source] = {
    "gates.guardrails.*.rules": _shipped_rules,
    "policy.goal_gates.nodes": _goals,
}
"""By place. A place may be in ``REFERS`` as well: then what it names is renamed with the list that it is in."""
