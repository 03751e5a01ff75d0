"""What the circuit breakers of a fabric stand in front of, by name: what each scope has, and what of ``only`` does not fit the fabric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.core.breaker.policy import BreakerScope
from fabric.core.endpoints import endpoint_name
from fabric.core.flow import Stage
from fabric.core.spec_memories import OFFERED

if TYPE_CHECKING:
    from fabric.core.spec import FabricSpec


def names_of(scope: BreakerScope, spec: FabricSpec) -> tuple[str, ...]:
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


def _goes_out(spec: FabricSpec, tool: str) -> bool:
    """Whether breakers are asked about a tool: not what a run's own journal answers, and not what undoes a memory's changes."""
    made = spec.memory_of(tool)
    return made is None or (made[1] in OFFERED and not spec.in_journal(tool))


def breaker_problems(spec: FabricSpec) -> Iterator[str]:
    """What is wrong with the names that ``policy.breakers`` give: a sentence each, with its path."""
    for n, breaker in enumerate(spec.policy.breakers):
        path, scope = f"policy.breakers.{n}.only", breaker.scope
        if breaker.only and scope is BreakerScope.FABRIC:
            yield f"{path}: a breaker of the fabric stands in front of all its calls; take another scope, or leave only out"
            continue
        there = names_of(scope, spec) if breaker.only else ()
        for m, name in enumerate(breaker.only):
            if name in breaker.only[:m]:
                yield f"{path}.{m}: {name!r} is there twice"
            elif name not in there:
                known = f"there are: {', '.join(there)}" if there else f"the fabric has no {scope}s"
                what = "model of this fabric is asked at" if scope is BreakerScope.PROVIDER else f"{scope} is called"
                yield f"{path}.{m}: no {what} {name!r}; {known}"
