"""Output schemas that agents have in some fabrics of the swarm, agents that plan their calls, memories whose last write wins, and rules of tools. Drawn from a generator of their own, so that fabrics without them stay as they were."""

from __future__ import annotations

from random import Random
from typing import Any

from simulator.kernel.asking_checks import RULES
from simulator.kernel.services import CANCEL, FIND

JSON = Any
SCHEMAS: tuple[JSON, ...] = (
    {"type": "object", "properties": {"said": {"type": "string"}, "sure": {"type": "boolean"}}, "required": ["said"]},
    {
        "type": "object",
        "properties": {
            "total": {"type": "integer", "minimum": 1, "maximum": 9},
            "kind": {"enum": ["rise", "fall"]},
            "lines": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "pattern": "[a-z]"}},
        },
        "required": ["total", "kind", "lines"],
        "additionalProperties": False,
    },
    {"type": ["integer", "null"]},
)


def typed(tree: JSON, number: int) -> None:
    """Adds to a fabric, in place."""
    rng = Random(f"typed {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.7:
        return
    topology = tree["topology"]
    named = {*topology["workers"], topology.get("aggregator"), topology.get("finalizer")}
    for agent in tree["agents"]:
        if agent["name"] in named and agent.get("answers", "json") == "json" and rng.random() < 0.7:
            agent["output_schema"] = rng.choice(SCHEMAS)


def planning(tree: JSON, number: int) -> None:
    """Adds agents that plan their calls to a fabric, in place."""
    rng = Random(f"planned {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.8:
        return
    for agent in tree["agents"]:
        if agent.get("tools") and agent.get("answers", "json") == "json" and rng.random() < 0.8:
            agent["calls"] = "planned"


def overwriting(tree: JSON, number: int) -> None:
    """Has the last write of an answer win in some memories of a fabric, in place."""
    rng = Random(f"overwritten {number}")  # noqa: S311 - a simulation is to be repeatable
    for memory in tree["memories"]:
        if rng.random() < 0.3:
            memory["conflicts"] = "last_write_wins"


def priced(tree: JSON, number: int) -> None:
    """Gives prices to tools of a fabric, in place; what undoes a change and what asks about one has none."""
    rng = Random(f"priced {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.7:
        return
    errands = {tool.get(does) for tool in tree["tools"] for does in ("compensation", "reconcile")}
    for tool in tree["tools"]:
        if tool["name"] not in errands and rng.random() < 0.6:
            tool["usd_per_call"] = rng.choice(("0.0001", "0.002", "0.03"))


def asking(tree: JSON, number: int) -> None:
    """Adds rules by which a person is asked to tools of a fabric, in place."""
    rng = Random(f"asked {number}")  # noqa: S311 - a simulation is to be repeatable
    if rng.random() < 0.8:
        return
    for tool in tree["tools"]:
        always = tool.get("effect") == "irreversible" and "approval" not in tool
        if tool["name"] not in (CANCEL, FIND) and not always and rng.random() < 0.6:
            tool["approve_when"] = rng.choice(tuple(RULES))
