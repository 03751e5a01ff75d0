"""Fabrics of the swarm whose circuit breakers stand in front of named ones of their scope alone."""

from __future__ import annotations

from random import Random
from typing import Any

from fabric.core.breaker.policy import PRESETS, BreakerScope
from fabric.core.flow import Stage

JSON = Any
SHARE = 0.4


def named(tree: JSON, number: int) -> None:
    """In some fabrics a breaker names what it stands in front of; of some the rest is another's of the same policy."""
    rng = Random(f"named breakers {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= SHARE:
        return
    for breaker in tuple(tree["policy"]["breakers"]):
        there = _there(tree, breaker.get("scope") or PRESETS[breaker["preset"]]().scope)
        rng.shuffle(there)
        many = rng.randint(1, len(there)) if there else 0
        if not many or rng.random() < 0.2:
            continue
        breaker["only"], others = there[:many], there[many:]
        if others and rng.random() < 0.4:
            tree["policy"]["breakers"].append(breaker | {"only": others})


def _there(tree: JSON, scope: str) -> list[str]:
    match scope:
        case BreakerScope.AGENT:
            return [agent["name"] for agent in tree["agents"]]
        case BreakerScope.TOOL:
            return [tool["name"] for tool in tree["tools"]]
        case BreakerScope.PROVIDER:
            return sorted({model["provider"] for model in tree["models"]})
        case BreakerScope.STAGE:
            return [stage.value for stage in Stage]
    return []
