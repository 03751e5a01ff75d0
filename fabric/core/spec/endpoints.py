"""Names what failover, circuit breakers and retry tokens of a fabric share.

Each scope of circuit breakers has its names here, and the wrong entries of ``only`` are found.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec.memories import OFFERED
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.spec.tree import FabricTree, ModelSpec
from fabric.core.values.flow import Stage


def find_endpoint(model: ModelSpec) -> tuple[str, str]:
    """Owner of the quota, key and network that models share: provider and base URL (``""``: the operator's)."""
    return model.provider, model.base_url.strip().rstrip("/")


def endpoint_name(model: ModelSpec) -> str:
    """Display name: the provider, and after an @ the model's own address."""
    name, url = find_endpoint(model)
    return f"{name}@{url.rpartition('://')[2]}" if url else name


def provider_scope(model: ModelSpec) -> str:
    """Return the scope whose circuit breakers and retry tokens its calls share. Two endpoints that speak one protocol
    have two scopes.
    """
    return f"provider:{endpoint_name(model)}"


def list_names(scope: BreakerScope, spec: FabricTree) -> tuple[str, ...]:
    """Everything that a breaker of this scope can stand in front of, in any call that a run could make."""
    match scope:
        case BreakerScope.PROVIDER:
            return tuple(sorted({endpoint_name(model) for model in spec.models}))
        case BreakerScope.AGENT:
            return tuple(agent.name for agent in spec.agents)
        case BreakerScope.TOOL:
            return tuple(dict.fromkeys(tool.name for tool in spec.asked_tools if _goes_out(spec, tool.name)))
        case BreakerScope.STAGE:
            return tuple(stage.value for stage in Stage)
        case BreakerScope.FABRIC:
            return (spec.name,)


def _goes_out(spec: FabricTree, tool: str) -> bool:
    """Return True if breakers protect a tool. Answers from the journal and undos of memories need none."""
    made = spec.memory_of(tool)
    return made is None or (made[1] in OFFERED and not spec.in_journal(tool))


def breaker_problems(spec: FabricTree) -> Iterator[str]:
    """Yield each wrong name in ``policy.breakers`` as a path and a sentence."""
    for n, breaker in enumerate(spec.policy.breakers):
        path, scope = f"policy.breakers.{n}.only", breaker.scope
        if breaker.only and scope is BreakerScope.FABRIC:
            yield f"{path}: a breaker of the fabric protects all its calls; take another scope, or leave only out"
            continue
        there = list_names(scope, spec) if breaker.only else ()
        for m, name in enumerate(breaker.only):
            if name in breaker.only[:m]:
                yield f"{path}.{m}: {name!r} is there twice"
            elif name not in there:
                known = f"there are: {', '.join(there)}" if there else f"the fabric has no {scope}s"
                what = "model of this fabric is asked at" if scope is BreakerScope.PROVIDER else f"{scope} is called"
                yield f"{path}.{m}: no {what} {name!r}; {known}"
