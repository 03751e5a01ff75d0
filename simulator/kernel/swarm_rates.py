"""Fabrics of the swarm that say how fast a run may spend, and worlds whose fabric has learned what is usual."""

from __future__ import annotations

from random import Random
from typing import Any

from fabric.runtime.usual_rates import RUNS_NEEDED, Minutes, with_run

JSON = Any
SAYS = 0.08
"""Of the fabrics so many name a rate, for each whose it may be."""
KNOWS = 0.2
"""Of the worlds so many know what their fabric usually spends, which is little."""
SCOPES = ("run", "stage:plan", "stage:fan_out", "agent:worker-0", "agent:planner")


def rated(policy: JSON, rng: Random) -> None:
    """In some fabrics a minute of the run, of an agent or of a stage has a limit that can be met."""
    names = ("usd_micros_per_minute", "agent_usd_micros_per_minute", "stage_usd_micros_per_minute")
    rule = {name: rng.choice((300, 1_000, 5_000)) for name in names if rng.random() < SAYS}
    if rule:
        policy["cost_velocity"] = rule


def usual(seed: int) -> str:
    """The guard row of a world's fabric; empty: it has learned nothing."""
    rng = Random(f"usual {seed}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= KNOWS:
        return ""
    minutes: Minutes = {scope: (rng.choice((1, 50, 500)), 0) for scope in SCOPES if rng.random() < 0.7}
    state = ""
    for _ in range(RUNS_NEEDED):
        state = with_run(state, minutes)
    return state
