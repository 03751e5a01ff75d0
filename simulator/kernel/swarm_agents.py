"""What single agents of the swarm have of their own: caps, and personas that bar some of their tools.

Each is drawn from a generator of its own, so that fabrics without them stay as they were.
"""

from __future__ import annotations

from random import Random
from typing import Any

JSON = Any
WORKER = "worker-0"
"""The agent that every fabric has."""


def owning(tree: JSON, number: int) -> None:
    """Adds to a fabric, in place."""
    _caps(tree["policy"]["budget"], Random(f"own caps {number}"))  # noqa: S311 - a simulation is to be repeatable
    _persona(tree, Random(f"persona {number}"))  # noqa: S311 - the same
    _streams(tree, Random(f"streams {number}"))  # noqa: S311 - the same


def _caps(budget: JSON, rng: Random) -> None:
    """Caps of a single agent, in some fabrics, less or more than what all agents have."""
    if rng.random() < 0.15:
        own: JSON = {"usd_micros": rng.choice((0, 9_000, 60_000, 1_000_000))} if rng.random() < 0.7 else {}
        if not own or rng.random() < 0.4:
            own["tokens"] = rng.choice((3_000, 15_000, 200_000))
        budget["agents"] = {WORKER: own}


def _streams(tree: JSON, rng: Random) -> None:
    """In some fabrics the answers of the dear model stream in, a call at a time."""
    if rng.random() < 0.4:
        tree["models"][0]["options"] = {"stream": True}


def _persona(tree: JSON, rng: Random) -> None:
    """In some fabrics tools say what calling them takes, and the first worker may not do all of it."""
    if rng.random() >= 0.12:
        return
    for tool in tree["tools"]:
        if rng.random() < 0.5:
            tool["capabilities"] = [f"world:{'read' if tool.get('effect', 'read_only') == 'read_only' else 'write'}"]
    denied = {"denied_capabilities": [rng.choice(("world:write", "world:*", "tool:lookup", "tool:*"))]}
    allowed = {"allowed_capabilities": rng.choice((["world:*", "tool:poll"], ["tool:*"]))}
    persona = rng.choice((denied, allowed, {**denied, **allowed}))
    next(agent for agent in tree["agents"] if agent["name"] == WORKER)["persona"] = persona
