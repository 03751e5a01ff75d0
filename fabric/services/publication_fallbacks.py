"""Publication: models that could not stand in when they have to, and circuit breakers whose fallback does not exist (semantics.md 4 "Failover").

Names that do not exist, ways that lead back and missing prices are refused where every model's are (``core/spec.py``, ``publication._prices``).
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.breaker.policy import UNNAMED, Breaker, BreakerScope
from fabric.core.breaker.signals import CAUSE_OF
from fabric.core.decision_table import Reaction
from fabric.core.failover import ASKS_FIRST
from fabric.core.fallbacks import chain
from fabric.core.spec import FabricSpec
from fabric.core.spec_stages import cells_in_force
from fabric.core.taxonomy import CLASSIFY, FailureType
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
        elif breaker.on_open != "none" and not _used(spec, breaker):
            yield Problem(path, _unused(breaker))


RUNGS = {"model": Reaction.FALLBACK_MODEL, "static_answer": Reaction.SAFE_FALLBACK}
"""The rung that uses what a breaker names as its fallback."""


def _used(spec: FabricSpec, breaker: Breaker) -> bool:
    """Returns True where a run can reach the fallback: an allowed tier's cell for the breaker's signals has its rung."""
    rung = RUNGS[breaker.on_open]
    ways = {
        (cell.failure, cell.tier)
        for cell in cells_in_force(spec)
        if any(one.reaction is rung for one in cell.ladder.rungs)
    }
    rows = [CLASSIFY[CAUSE_OF[name]] for signal in breaker.signals for name in signal.names]
    rows = [row for row in rows if row.failover or rung is Reaction.SAFE_FALLBACK]
    tiers = [tier for tier in spec.tiers.allowed if rung is Reaction.SAFE_FALLBACK or not ASKS_FIRST[tier]]
    layered = spec.policy.retry_layers.layered and rung is Reaction.FALLBACK_MODEL
    return any(
        layered or (row.goes_to, tier) in ways for row in rows if isinstance(row.goes_to, FailureType) for tier in tiers
    )


def _unused(breaker: Breaker) -> str:
    rung = RUNGS[breaker.on_open]
    names = " or ".join(dict.fromkeys(name.replace("_", " ") for one in breaker.signals for name in one.names))
    cell = f"no cell that {names} leads to has the rung {rung}"
    return f"is {breaker.on_open}, but {cell} in a tier of this fabric; put the rung into the cell, or give none here"
