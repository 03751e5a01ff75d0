"""Fabrics of each topology, as short as a test can say them."""

from __future__ import annotations

from typing import Any

from fabric.core.spec import FabricSpec
from tests.fabric.core.fabrics import agent

JSON = Any


def team(topology: JSON, *, agents: JSON = None, tools: tuple[str, ...] = (), **more: JSON) -> FabricSpec:
    """A fabric whose agents are exactly those that its topology names. ``agents``: further fields of some of them, by name."""
    named = {
        name
        for field in ("planner", "aggregator", "critic", "plan_critic", "finalizer", "handover", "judge")
        if (name := topology.get(field))
    }
    people = sorted({*topology["workers"], *named})
    return FabricSpec.model_validate(
        {
            "name": "sample",
            "title": "A sample",
            "models": [{"name": "small", "provider": "scripted"}],
            "tools": [{"name": name} for name in tools],
            "agents": [agent(name, **(agents or {}).get(name, {})) for name in people],
            "topology": topology,
            "gates": more.pop("gates", {}),
            "decision_table": more.pop("table", {}),
            "policy": {"budget": {"run_usd_micros": 10_000_000}, **more},
        }
    )


def duty(who: str, title: str, **fields: JSON) -> JSON:
    return {"agent": who, "title": title, "instructions": f"Do {title}.", **fields}


def sop(*duties: JSON, **fields: JSON) -> FabricSpec:
    workers = list(dict.fromkeys(one["agent"] for one in duties))
    return team({"kind": "sop", "workers": workers, "procedure": list(duties)}, **fields)
