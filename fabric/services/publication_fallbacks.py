"""Publication: models that could not stand in when they have to, and circuit breakers whose fallback does not exist (semantics.md 4 "Failover").

Names that do not exist, ways that lead back and missing prices are refused where every model's are (``core/spec.py``, ``publication._prices``).
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.breaker.policy import UNNAMED, BreakerScope
from fabric.core.fallbacks import chain
from fabric.core.spec import FabricSpec
from fabric.services.fabric_yaml import Problem


def incapable(spec: FabricSpec) -> Iterator[Problem]:
    """Fallbacks that lack what an agent needs whose calls they would take."""
    used = set(spec.topology.roles().values())
    named = {model.name: model.fallbacks for model in spec.models}
    for agent in (agent for agent in spec.agents if agent.name in used):
        needs, chained = spec.needs(agent), chain(named, agent.model)
        for n, model in enumerate(spec.models):
            for m, name in enumerate(model.fallbacks if model.name in (agent.model, *chained) else ()):
                lacking = sorted(needs - spec.model(name).capable)
                if lacking:
                    sentence = (
                        f"model {name!r} would stand in for agent {agent.name!r}, which needs {', '.join(lacking)}"
                    )
                    yield Problem(f"models.{n}.fallbacks.{m}", f"{sentence}; name another, or say that it can")


def missing(spec: FabricSpec) -> Iterator[Problem]:
    """Breakers that name a fallback which the fabric does not have."""
    named = () if spec.policy.breakers == UNNAMED else spec.policy.breakers
    for n, breaker in enumerate(named):
        path = f"policy.breakers.{n}.on_open"
        if breaker.on_open == "model" and breaker.scope is BreakerScope.TOOL:
            yield Problem(path, "is model, but what stands behind this breaker is a tool; give none or static_answer")
        elif breaker.on_open == "model" and not any(model.fallbacks for model in spec.models):
            yield Problem(path, "is model, but no model of the fabric names fallbacks; name some, or give none")
        elif breaker.on_open == "static_answer" and spec.safe_fallback is None:
            yield Problem(
                path, "is static_answer, but the fabric has none; give safe_fallback a text, or give none here"
            )
