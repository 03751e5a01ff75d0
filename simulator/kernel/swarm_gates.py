"""What gates ask in some fabrics of the swarm: judges, an oracle, policies, guardrails (docs/semantics.md 9).

Each is drawn from a generator of its own, so that fabrics without them stay as they were.
"""

from __future__ import annotations

from random import Random
from typing import Any

from simulator.kernel.services import PROBE

JSON = Any
JUDGE = "judge"
CHECKS: tuple[JSON, ...] = (
    {"expression": "size(outcome.text) > 0 && size(exit_criteria) > 0"},
    {"tool": PROBE, "arguments": {"query": "{outcome.text}"}},
    {"http": {"url": "https://tests.example/runs/{run.id}?by={run.tier}"}},
    {"critic": JUDGE},
)
POLICIES: tuple[JSON, ...] = (
    {"name": "few", "text": 'forbid(principal, action == Action::"spawn", resource) when { context.branches > 3 };'},
    {
        "name": "no-poll",
        "text": 'forbid(principal, action == Action::"tool", resource) when { resource.kind == "http" };',
    },
    {"name": "shallow", "text": "forbid(principal, action, resource) when { context.depth > 2 };"},
)
BARRED = {"name": "barred", "pattern": r"(turn|part|flood) \d*[37]"}
"""What some of the calls that agents make hold in their arguments."""
UNLUCKY = {"name": "unlucky", "pattern": r"says \d*7"}


def judged(tree: JSON, number: int) -> None:
    """Adds to a fabric, in place."""
    rng = Random(f"judged {number}")  # noqa: S311 - a simulation is to be repeatable
    gates, topology = tree["gates"], tree["topology"]
    asks = False
    if "planner" in topology and rng.random() < 0.25:
        topology["plan_critic"], asks = JUDGE, True
    if rng.random() < 0.2:
        gates["grounding"], gates["grounding_critic"], asks = "citations", JUDGE, True
    if rng.random() < 0.3:
        drawn = rng.sample(CHECKS, rng.randrange(1, 4))
        gates["oracle"] = [{"name": f"own-{n}", "message": "It lacks something.", **one} for n, one in enumerate(drawn)]
        asks = asks or any("critic" in one for one in drawn)
        if any("tool" in one for one in drawn):
            tree["tools"].append({"name": PROBE})
    if rng.random() < 0.25:
        permits = {"name": "all", "text": "permit(principal, action, resource);"}
        gates["policies"] = [permits, *rng.sample(POLICIES, rng.randrange(3))]
    if rng.random() < 0.25:
        places = rng.sample(("fan_out", "fan_in", "finalize"), rng.randrange(1, 4))
        gates["guardrails"] = [{"places": places, "patterns": [UNLUCKY]}]
    by_itself = Random(f"unsafe arguments {number}")  # noqa: S311 - a simulation is to be repeatable
    if by_itself.random() < 0.15:
        gates["guardrails"] = [*(gates.get("guardrails") or ()), {"places": ["arguments"], "patterns": [BARRED]}]
    if asks:
        tools = [tree["tools"][0]["name"]] if tree["tools"] and tree["tools"][0]["name"] == "lookup" else []
        offered = tools if rng.random() < 0.3 else []
        tree["agents"].append({"name": JUDGE, "instructions": "You judge.", "model": "model", "tools": offered})
