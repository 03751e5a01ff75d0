"""Compiles fabrics for the virtual world as a publication does, and caches the answers of their policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import msgspec

from fabric.core.child_runs.teams import map_specs
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tools import ToolSpec
from fabric.core.state.context import CompiledFabric, Validate, compile_spec
from fabric.core.state.evaluators import Evaluators, PolicyRequest, Ruling
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import NOTHING, WorkspacePolicy
from fabric.core.workspace_policy.under import FREE, PolicyRules, tighten_fabric
from fabric.policies.gates import gate_evaluators
from fabric.runtime import prompts
from fabric.runtime.ports.calls import ToolOffer

# -- policy cache ------------------------------------------------------------------------------------------------------

KEPT = 2_000
"""Number of cached answers of a fabric."""
_said = msgspec.msgpack.Encoder().encode
_heard = msgspec.msgpack.Decoder(PolicyRequest).decode


def remembering_rules(evaluators: Evaluators) -> Evaluators:
    """Return the evaluators with cached policies."""
    rules = evaluators.rules
    if rules is None:
        return evaluators
    ask = rules

    @lru_cache(maxsize=KEPT)
    def answers(asked: bytes) -> Ruling:
        return ask(_heard(asked))

    return replace(evaluators, rules=lambda asked: answers(_said(asked)))


# -- fabrics -----------------------------------------------------------------------------------------------------------

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


RAISES_MOST = 3
"""Factor of a fabric's cap up to which the policy of a virtual workspace lets people raise it."""


@dataclass(frozen=True)
class Fabric:
    """A published revision of the virtual world."""

    revision_id: str
    compiled: CompiledFabric
    offers: Mapping[str, ToolOffer]

    @cached_property
    def under_policy(self) -> CompiledFabric:
        """Return the fabric under a workspace's policy that only limits how far people may raise a run's cap."""
        under = PolicyRules(run_usd_micros=RAISES_MOST * self.compiled.spec.policy.budget.run_usd_micros, number=1)
        nested = {name: replace(inner, under=under) for name, inner in self.compiled.nested.items()}
        return replace(self.compiled, under=under, nested=nested)


def publish(
    spec: FabricSpec, revision_id: str, *, policy: WorkspacePolicy = NOTHING, tier: Tier = Tier.INTERACTIVE
) -> Fabric:
    """Return a fabric for the virtual world: with its own prices, and arguments checked for a query.

    ``policy``: its workspace's, for the runs of ``tier``.
    """
    revision, under = spec.digest(), FREE
    if not policy.says_nothing:
        spec, under = tighten_fabric(spec, policy, tier)
    offers = {
        tool.name: ToolOffer(name=tool.name, description=tool.description, parameters=tool.parameters or QUERY)
        for tool in spec.asked_tools
    }
    below = {name: _compile(inner, offers, under=under) for name, inner in map_specs(spec).items()}
    return Fabric(revision_id, _compile(spec, offers, below, revision, under), offers)


def _compile(
    spec: FabricSpec,
    offers: Mapping[str, ToolOffer],
    nested: Mapping[str, CompiledFabric] | None = None,
    revision: str = "",
    under: PolicyRules = FREE,
) -> CompiledFabric:
    return compile_spec(
        spec,
        prices={model.name: model.price.price() for model in spec.models if model.price},
        validators={tool.name: _validator(tool) for tool in spec.all_tools},
        prompt_overhead={agent.name: prompts.overhead_bytes(spec, agent, offers) for agent in spec.agents},
        nested=nested,
        evaluators=remembering_rules(gate_evaluators(spec)),
        revision=revision,
        under=under,
    )


def _validator(tool: ToolSpec) -> Validate:
    if tool.parameters is None:
        return _query_problems
    from fabric.policies.schemas.evaluators import (
        compile_schema,  # Where no library for schemas can be imported, no fabric remembers.
    )

    return compile_schema(tool.parameters)


def _query_problems(args: JSON) -> list[str]:
    return [] if isinstance(args.get("query"), str) else ["query: text is wanted"]
