"""Fabrics for tests, as short as a test can say them."""

from __future__ import annotations

from typing import Any

from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.context import CompiledFabric, compile_spec
from fabric.core.state.run import Run
from fabric.core.values.cost import Price
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import WorkspacePolicy
from fabric.core.workspace_policy.under import tighten_fabric
from fabric.policies.gates import gate_evaluators

PRICES = {"small": Price(1_000_000, 2_000_000)}
"""One micro-dollar an input token, two an output token: sums that a reader can follow."""
ROLES = ("planner", "aggregator", "critic", "finalizer")


def agent(name: str, **fields: JSON) -> JSON:
    return {"name": name, "instructions": f"Work as {name}.", "model": "small", "max_output_tokens": 100, **fields}


def tree(
    *,
    roles: tuple[str, ...] = ROLES,
    workers: int = 1,
    tools: tuple[str, ...] = ("look",),
    agents: dict[str, JSON] | None = None,
    tool: JSON = None,
    budget: JSON = None,
    table: JSON = None,
    **more: JSON,
) -> JSON:
    """A fabric as its YAML would be read. ``roles``: which ones an agent plays; without a planner the plan is fixed.

    ``agents``: fields of agents by name; ``tool``: fields of every tool; ``table``: cells that differ; the rest goes into ``policy``,
    but ``gates`` and ``topology``.
    """
    gates, topology = more.pop("gates", {}), more.pop("topology", {})
    given = agents or {}
    topology = {"workers": ["worker"], **{role: role for role in roles}, **topology}
    if "planner" not in roles and "plan" not in topology:
        topology["plan"] = plan(workers)
    people = [agent("worker", **{"tools": tools, **given.get("worker", {})})]
    people += [agent(role, **given.get(role, {})) for role in roles]
    return {
        "name": "sample",
        "title": "A sample",
        "models": [{"name": "small", "provider": "scripted"}],
        "tools": [{"name": name, **(tool or {})} for name in tools],
        "agents": people,
        "topology": topology,
        "gates": gates,
        "policy": {"budget": {"run_usd_micros": 10_000_000, **(budget or {})}, **more},
        "decision_table": table or {},
    }


def spec(**fields: JSON) -> FabricSpec:
    return FabricSpec.model_validate(tree(**fields))


def lone(**fields: JSON) -> FabricSpec:
    """One worker under a fixed plan and no other agent: what a request to its model costs is all there is."""
    return spec(roles=(), **fields)


def plan(branches: int = 1, agent: str = "worker", **fields: JSON) -> JSON:
    briefs = [{"agent": agent, "title": f"Part {n + 1}", "instructions": f"Do part {n + 1}."} for n in range(branches)]
    return {"goal": "Answer.", "briefs": briefs, "exit_criteria": ["It answers the request."], **fields}


def proposal(**fields: Any) -> Proposal:
    return Proposal(**{"kind": "tool", "stage": Stage.FAN_OUT, "step_id": "fan_out.0.e0.r0", **fields})


def view(run: Run | None = None, now: int = 0, fabric: FabricSpec | None = None) -> View:
    return View(now, run or Run("run"), fabric or spec())


def compiled_under(
    fabric: FabricSpec, policy: WorkspacePolicy, tier: Tier, number: int = 0, **how: Any
) -> CompiledFabric:
    """A published fabric as the runs of a tier see it under a workspace's policy."""
    held, under = tighten_fabric(fabric, policy, tier, number)
    evaluators = gate_evaluators(held)
    return compile_spec(held, evaluators=evaluators, revision=fabric.digest(), under=under, **how)
