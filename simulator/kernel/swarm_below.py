"""Fabrics of the swarm whose children book, bring nothing, and do the same once more (semantics.md 10 "Child runs": what a child does to the world).

All others only stumble on it: a change has to stand on a branch that failed in a child that ended well. Drawn from a generator of its own, so that the
fabrics without it stay as they were.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fabric.core.taxonomy import Tier
from simulator.kernel.services import BOOK, CANCEL
from simulator.kernel.swarm_gates import UNLUCKY

JSON = Any
SHARE = 0.05
"""How many fabrics are of this kind."""
BRIEFS = 4
ROOM = 64


def booking(tree: JSON, number: int) -> bool:
    """Makes some fabrics ones whose workers book, each in a child, with gates that some of what they say does not pass, in place. True: the first one leads
    a team of the others; else the fan-out is cut.
    """
    rng = Random(f"below {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() >= SHARE or "kind" in tree["topology"] or "retry_layers" in tree["policy"]:
        return False
    workers = tree["topology"]["workers"]
    led = len(workers) > 1 and rng.random() < 0.5
    _desk(tree, workers, rng)
    again = [{"reaction": "retry", "times": rng.choice((1, 2))}] if led else []
    tree["gates"]["guardrails"] = [{"places": ["fan_out"], "patterns": [UNLUCKY]}]
    tree["decision_table"] |= {
        "unsafe_output": {tier: {"rungs": [*again, {"reaction": "surface"}]} for tier in Tier},
        "schema_grounding_fail": {tier: {"rungs": [{"reaction": "escalate"}]} for tier in Tier},
    }
    _cut(tree, workers, inline=rng.choice((ROOM, 2)) if led else rng.choice((1, 2, 3)))
    if led:
        tree["topology"]["aggregator"] = tree["topology"].get("aggregator") or workers[-1]
    else:
        tree["topology"]["kind"] = "supervisor"
    return led


def _desk(tree: JSON, workers: list[str], rng: Random) -> None:
    """The workers have the desk and nothing else, and the desk is as it stands where it stood before."""
    if all(tool["name"] != BOOK for tool in tree["tools"]):
        book = {"name": BOOK, "effect": "mutating", "compensation": CANCEL, "carry_over": rng.random() < 0.25}
        tree["tools"] += [book, {"name": CANCEL, "effect": "idempotent"}]
    for agent in tree["agents"]:
        if agent["name"] in workers:
            agent["tools"] = [BOOK]


def _cut(tree: JSON, workers: list[str], *, inline: int) -> None:
    """All of four briefs are needed, and the family has room for whoever does them."""
    briefs = [
        {"agent": workers[n % len(workers)], "title": f"Part {n + 1}", "instructions": "Say what bears on it."}
        for n in range(BRIEFS)
    ]
    roles = {role: held for role, held in tree["topology"].items() if role not in ("planner", "plan_critic")}
    plan = {"goal": "Answer it.", "briefs": briefs, "exit_criteria": ["The request is answered."]}
    tree["topology"] = {**roles, "plan": plan}
    policy = tree["policy"]
    policy["fan_in"] = {"mode": "quorum", "k": BRIEFS}
    policy["limits"] |= {"fan_out_inline_max": inline, "plan_branches": ROOM, "turns": 25}
    policy["limits"] |= {"sub_agents_alive": ROOM, "sub_agents_spawned": 4 * ROOM}
