"""Fabrics of the swarm with retry layers: preset ``fabro``, with what it allows drawn."""

from __future__ import annotations

from random import Random
from typing import Any

from fabric.core.decision_table import Reaction
from fabric.core.flow import Stage
from fabric.core.retry_layers import ROUTED
from fabric.core.retry_presets import PresetName

JSON = Any
SHARE = 0.3
OWN_WAITS = ("base_s", "factor", "cap_s")


def layered(tree: JSON, number: int) -> None:
    """In some fabrics calls, nodes, edges and targets are retried in layers, and a fan-out may go on with gaps."""
    rng = Random(f"layers {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= SHARE:
        return
    for row in tree["decision_table"].values():
        for cell in row.values():
            cell["rungs"] = [
                rung for rung in cell["rungs"] if rung["reaction"] not in (Reaction.RETRY, Reaction.FALLBACK_MODEL)
            ]
    tree["policy"]["retry"] = {
        name: held for name, held in tree["policy"].get("retry", {}).items() if name not in OWN_WAITS
    }
    ways = [way for way, role in (("replan", "planner"), ("handover", "handover")) if role in tree["topology"]]
    told: JSON = {"preset": "fabro", "stages": {str(stage): _node(rng, ways) for stage in Stage if rng.random() < 0.7}}
    told |= _ways(rng, ways)
    if rng.random() < 0.5:
        told["max_retries"] = rng.randrange(3)
    if rng.random() < 0.6 and _takes_gaps(tree["policy"]):
        told["stages"].setdefault("fan_out", {})["allow_partial"] = True
    tree["policy"]["retry_layers"] = told


def _takes_gaps(policy: JSON) -> bool:
    return bool(policy.get("fan_in", {}).get("mode", "all") == "all")


def _node(rng: Random, ways: list[str]) -> JSON:
    node = _ways(rng, ways)
    if rng.random() < 0.6:
        node["retry_policy"] = str(rng.choice(list(PresetName)))
    if rng.random() < 0.4:
        node["max_retries"] = rng.randrange(4)
    return node


def _ways(rng: Random, ways: list[str]) -> JSON:
    found: JSON = {}
    if not ways:
        return found
    if rng.random() < 0.4:
        classes = (None, *sorted(ROUTED))
        found["edges"] = [
            {"failure_class": rng.choice(classes), "to": rng.choice(ways)} for _ in range(1 + rng.randrange(2))
        ]
    for name in ("retry_target", "fallback_retry_target"):
        if rng.random() < 0.3:
            found[name] = rng.choice(ways)
    return found


def without_ways(policy: JSON) -> JSON:
    """The policy of those who have nobody to plan anew and nobody above them: their nodes lead nowhere else."""
    told = policy.get("retry_layers")
    if told is None:
        return policy
    stages = {stage: _no_ways(node) for stage, node in told["stages"].items()}
    return {**policy, "retry_layers": {**_no_ways(told), "stages": stages}}


def _no_ways(said: JSON) -> JSON:
    return {name: held for name, held in said.items() if name not in WAYS_OUT}


WAYS_OUT = ("edges", "retry_target", "fallback_retry_target")
