"""Fabrics to drill: the whole path, one worker with a tool, prices, citations that must exist."""

from __future__ import annotations

from typing import Any

from fabric.core.spec.fabric import FabricSpec
from simulator.swarm.fabrics import QUERY
from tests.simulator.world.quiet_worlds import PRICED, ROLES, supervisor

LOOKUP = {
    "name": "lookup",
    "kind": "callable",
    "target": "drill-lookup",
    "description": "Looks something up.",
    "parameters": QUERY,
}
RATE_LIMIT = {"preset": "rate_limit", "on_open": "model"}
"""A breaker that what fails in a drill does not open. The one that a fabric has unless it says otherwise is drilled by itself."""
ANSWER = "This cannot be answered here."


def drilled(*, lead: bool = False, fallbacks: int = 0, **changes: Any) -> FabricSpec:
    """A fabric with an agent above the others, who takes over (``lead``), and so many models behind the one that all use.

    ``changes``: parts of the tree, in place of what is there.
    """
    plain = supervisor().model_dump(mode="json")
    plain["models"][0]["price"] = PRICED
    behind = [f"model{n}" for n in range(fallbacks)]
    plain["models"] += [{**plain["models"][0], "name": name} for name in behind]
    plain["models"][0]["fallbacks"] = behind
    plain["tools"] = [LOOKUP]
    names = (*ROLES, "lead") if lead else ROLES
    plain["agents"] = [
        {"name": name, "instructions": f"You are {name}.", "model": "model", "tools": ["lookup"] * (name == "one")}
        for name in names
    ]
    plain["gates"] = {**plain["gates"], "citations": "exist"}
    plain["policy"]["breakers"] = [RATE_LIMIT if behind else {"preset": "rate_limit"}]
    if lead:
        plain["topology"]["handover"] = "lead"
    return FabricSpec.model_validate({**plain, **changes})


def with_cell(failure: str, tier: str, *rungs: dict[str, Any], **changes: Any) -> FabricSpec:
    """A fabric with one cell of its own."""
    ladder = {"rungs": list(rungs), "deviation": "it is drilled"}
    return drilled(decision_table={failure: {tier: ladder}}, **changes)


def behind_breaker(
    threshold: int, max_trips: int = 3, scope: str = "agent", only: tuple[str, ...] = (), **changes: Any
) -> FabricSpec:
    """A fabric with a breaker that counts what the provider answers, and with deadlines that any cooldown fits into."""
    signal = {"names": ["server_error"], "mode": "consecutive", "threshold": threshold}
    breaker = {"scope": scope, "signals": [signal], "cooldown_s": COOLDOWN_S, "max_trips": max_trips, "only": only}
    policy = drilled().policy.model_dump(mode="json")
    deadlines = {
        tier: {"call_s": 60, "stage_s": 40_000, "run_s": 90_000} for tier in ("interactive", "batch", "high_stakes")
    }
    return drilled(policy={**policy, "breakers": [breaker], "deadlines": deadlines}, **changes)


COOLDOWN_S = 120.0
"""Longer than any backoff."""
