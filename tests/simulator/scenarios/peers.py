"""Fabrics whose workers pass the request on to each other, and which fabric a shipped scenario is played in."""

from __future__ import annotations

from typing import Any

from fabric.core.spec.fabric import FabricSpec
from simulator.drills.fabrics import default_table
from simulator.scenarios.spec.scenario import Scenario

TURNS: dict[str, Any] = {"default_target": {"kind": "terminate", "reason": "answered"}, "expectations": []}


def peers(
    many: int = 3,
    *,
    kind: str = "handoff",
    topology: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    monitor: dict[str, Any] | None = None,
) -> FabricSpec:
    """Peers a, b, c, ..., each of which may pass the request on to every other, else with all that the default table's fabric has."""
    tree, names = default_table().model_dump(mode="json"), [*"abcdef"][:many]
    one = next(agent for agent in tree["agents"] if agent["name"] in tree["topology"]["workers"])
    tree["agents"] = [{**one, "name": name, "tools": ["transfer", *one["tools"]]} for name in names]
    graph = {"initial_speaker": "a", **TURNS} if kind == "graph" else {}
    tree["topology"] = {"kind": kind, "workers": names, **graph, **(topology or {})}
    tree["policy"]["limits"] = {**tree["policy"].get("limits", {}), **(limits or {})}
    tree["policy"]["deadlock_monitor"] = {**tree["policy"].get("deadlock_monitor", {}), **(monitor or {})}
    return FabricSpec.model_validate(tree)


def fabric_for(scenario: Scenario) -> FabricSpec:
    """The default table's fabric; one of peers for a scenario that is about them."""
    circles = [one for one in scenario.disturbance if one.fault.startswith("handoff_cycle")]
    return peers() if circles else default_table()
