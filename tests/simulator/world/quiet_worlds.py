"""Worlds without accidents, for tests that look at one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents import script as scripted
from simulator.cast.agents import Reply
from simulator.faults import catalogue as faults
from simulator.swarm import fabrics as published
from simulator.swarm import setups as swarm
from simulator.world.world import World

FREE = {"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"}
PRICED = {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}
ROLES = ("planner", "one", "two", "three", "four", "aggregator", "critic", "finalizer")


def supervisor(**changes: Any) -> FabricSpec:
    """Plan, four workers, aggregator, critic, finalizer; no tools."""
    return FabricSpec.model_validate(
        {
            "name": "whole",
            "title": "The whole path",
            "models": [{"name": "model", "provider": "scripted", "price": FREE}],
            "agents": [{"name": name, "instructions": f"You are {name}.", "model": "model"} for name in ROLES],
            "topology": {
                "planner": "planner",
                "workers": ["one", "two", "three", "four"],
                "aggregator": "aggregator",
                "critic": "critic",
                "finalizer": "finalizer",
            },
            "policy": {"budget": {"run_usd_micros": 1_000_000}},
            **changes,
        }
    )


def cooperative(request: ModelRequest) -> Reply:
    """The scripted agent that does its work."""
    said = scripted.answer(request)
    return Reply(said.delay_s, said.result)


def world(
    spec: FabricSpec,
    *,
    seed: int = 1,
    tier: Tier = Tier.INTERACTIVE,
    rates: dict[str, float] | None = None,
    ask: Callable[[ModelRequest], Reply] | None = cooperative,
    runs: int = 1,
) -> World:
    """A world with one run, or as many as are asked for at once, one process and only the accidents that are named."""
    setup = swarm.Setup(
        seed=seed,
        fabric=published.publish(spec, "revision"),
        rates=faults.Rates(rates or {}),
        runs=tuple(swarm.RunPlan(0.0, tier, True, "What does the report say?", seed + n) for n in range(runs)),
        processes=1,
        fault_phase_s=200_000.0,
        answers_within=0.1,
    )
    return World(setup, ask=ask)
