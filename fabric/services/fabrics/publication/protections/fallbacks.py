"""Publication rules for fallbacks and circuit breakers (docs/specification/breakers.md).

Other rules refuse unknown names, circular chains and missing prices with those of every model (``core/spec/fabric.py``,
``publication/models.py``). Unknown and repeated names of breakers are refused where every name is
(``core/spec/endpoints.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.breaker.signals import CAUSE_OF
from fabric.core.ladders.failover import ASKS_FIRST
from fabric.core.spec.endpoints import list_names
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import UNNAMED, Breaker, BreakerScope
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.spec.stages import cells_in_force
from fabric.core.values.taxonomy import CLASSIFY, FailureType
from fabric.services.fabrics.yaml.document import FabricProblem


def incapable(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a problem for each fallback that lacks an ability of the agents whose calls it would take."""
    used = set(spec.topology.roles().values())
    named = {model.name: model.fallbacks for model in spec.models}
    for agent in (agent for agent in spec.agents if agent.name in used):
        needs, chained = spec.needs(agent), chain(named, agent.model)
        for n, model in enumerate(spec.models):
            for m, name in enumerate(model.fallbacks if model.name in (agent.model, *chained) else ()):
                lacking = sorted(needs - spec.model(name).capable)
                if lacking:
                    sentence = f"model {name!r} is a fallback of agent {agent.name!r}, but lacks {', '.join(lacking)}"
                    yield FabricProblem(f"models.{n}.fallbacks.{m}", f"{sentence}; name another, or say that it can")


def find_unknown_fallbacks(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a problem for each breaker with an unknown fallback."""
    named = () if spec.policy.breakers == UNNAMED else spec.policy.breakers
    for n, breaker in enumerate(named):
        path = f"policy.breakers.{n}.on_open"
        if breaker.on_open == "model" and breaker.scope is BreakerScope.TOOL:
            yield FabricProblem(
                path, "is model, but what stands behind this breaker is a tool; give none or static_answer"
            )
        elif breaker.on_open == "model" and not any(model.fallbacks for model in spec.models):
            yield FabricProblem(path, "is model, but no model of the fabric names fallbacks; name some, or give none")
        elif breaker.on_open == "static_answer" and spec.safe_fallback is None:
            yield FabricProblem(
                path, "is static_answer, but the fabric has none; give safe_fallback a text, or give none here"
            )
        elif breaker.on_open != "none" and not _is_used(spec, breaker):
            yield FabricProblem(path, _describe_unused(breaker))


RUNGS = {"model": Reaction.FALLBACK_MODEL, "static_answer": Reaction.SAFE_FALLBACK}
"""Rung that uses each kind of a breaker's fallback."""


def _is_used(spec: FabricSpec, breaker: Breaker) -> bool:
    """Returns True where a run can reach the fallback: an allowed tier's cell for the breaker's signals has its
    rung.
    """
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


def _describe_unused(breaker: Breaker) -> str:
    rung = RUNGS[breaker.on_open]
    names = " or ".join(dict.fromkeys(name.replace("_", " ") for one in breaker.signals for name in one.names))
    cell = f"no cell that {names} leads to has the rung {rung}"
    return f"is {breaker.on_open}, but {cell} in a tier of this fabric; put the rung into the cell, or give none here"


def find_overlaps(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a problem for each breaker of one policy that guards a target of an earlier one. They share one row, so
    the second would do nothing.

    In published revisions a call meets the first of them.
    """
    breakers = spec.policy.breakers
    for n, breaker in enumerate(breakers):
        for m, earlier in enumerate(breakers[:n]):
            if earlier.kind != breaker.kind:
                continue
            if both := [
                one
                for one in list_names(breaker.scope, spec)
                if breaker.stands_before(one) and earlier.stands_before(one)
            ]:
                path = (
                    f"policy.breakers.{n}.only.{breaker.only.index(both[0])}"
                    if breaker.only
                    else f"policy.breakers.{n}"
                )
                of = "the fabric" if breaker.scope is BreakerScope.FABRIC else f"{breaker.scope} {', '.join(both)}"
                yield FabricProblem(path, f"equals policy.breakers.{m} in front of {of}; take one of the two out")
                break
