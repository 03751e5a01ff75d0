"""Fabrics as the virtual world runs them, compiled as a publication compiles them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fabric.adapters.gate_evaluators import gate_evaluators
from fabric.core.context import Compiled, Validate, compile_spec
from fabric.core.spec import FabricSpec
from fabric.core.spec_tools import ToolSpec
from fabric.core.taxonomy import Tier
from fabric.core.teams import specs_of
from fabric.core.workspace_policy.policy import NOTHING, WorkspacePolicy
from fabric.core.workspace_policy.under import FREE, Under, drawn
from fabric.runtime import prompts
from fabric.runtime.call_ports import ToolOffer
from simulator.kernel.remembered import remembering_rules

JSON = Any
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


RAISES_MOST = 3
"""Times a fabric's cap that the policy of a virtual workspace lets a run be raised to."""


@dataclass(frozen=True)
class Fabric:
    """A published revision of the virtual world."""

    revision_id: str
    compiled: Compiled
    offers: Mapping[str, ToolOffer]

    @cached_property
    def under_policy(self) -> Compiled:
        """The fabric once its workspace has a policy that bounds how far a run's cap is raised, and says nothing else."""
        under = Under(run_usd_micros=RAISES_MOST * self.compiled.spec.policy.budget.run_usd_micros, number=1)
        nested = {name: replace(inner, under=under) for name, inner in self.compiled.nested.items()}
        return replace(self.compiled, under=under, nested=nested)


def publish(
    spec: FabricSpec, revision_id: str, *, policy: WorkspacePolicy = NOTHING, tier: Tier = Tier.INTERACTIVE
) -> Fabric:
    """A fabric as the virtual world runs it: priced by its own list, its arguments checked for a query.

    ``policy``: its workspace's, for the runs of ``tier``.
    """
    revision, under = spec.digest(), FREE
    if not policy.says_nothing:
        spec, under = drawn(spec, policy, tier)
    offers = {
        tool.name: ToolOffer(name=tool.name, description=tool.description, parameters=tool.parameters or QUERY)
        for tool in spec.asked_tools
    }
    below = {name: _compiled(inner, offers, under=under) for name, inner in specs_of(spec).items()}
    return Fabric(revision_id, _compiled(spec, offers, below, revision, under), offers)


def _compiled(
    spec: FabricSpec,
    offers: Mapping[str, ToolOffer],
    nested: Mapping[str, Compiled] | None = None,
    revision: str = "",
    under: Under = FREE,
) -> Compiled:
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
    from fabric.adapters.evaluators import (
        compile_schema,
    )  # Where no library for schemas can be imported, no fabric remembers.

    return compile_schema(tool.parameters)


def _query_problems(args: JSON) -> list[str]:
    return [] if isinstance(args.get("query"), str) else ["query: text is wanted"]
