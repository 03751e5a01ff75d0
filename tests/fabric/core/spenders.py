"""A fabric whose one worker spends more in a minute than it may: eight turns of a call each, then its answer."""

from __future__ import annotations

from string import ascii_lowercase

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.cost import Price
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import PRICES, tree
from tests.fabric.core.scripts import call, gives, say, summary

DAY = {tier: {"call_s": 120, "stage_s": 3_600, "run_s": 86_400} for tier in ("interactive", "batch", "high_stakes")}
CHEAP = {**PRICES, "thrifty": Price(100_000, 200_000), "nearly": Price(990_000, 1_900_000)}
CAP = 60_000
MINUTE = 6_000
"""Seven calls of 900 micro-dollars in a quarter of a minute are more."""


def spender(
    *, cheaper: str = "", turns: int = 8, cap: int = CAP, table: JSON = None, budget: JSON = None, **policy: JSON
) -> tuple[FabricSpec, dict[str, JSON]]:
    """The fabric, and what its worker answers. ``cheaper``: the model that stands behind its own."""
    policy.setdefault("cost_velocity", {"usd_micros_per_minute": MINUTE})
    given = tree(roles=(), budget={"run_usd_micros": cap, **(budget or {})}, deadlines=DAY, table=table, **policy)
    if cheaper:
        given["models"][0]["cheaper"] = cheaper
        given["models"].append({"name": cheaper, "provider": "scripted"})
    answers = [say("", call(q=f"question {letter * 5}"), input_tokens=860) for letter in ascii_lowercase[:turns]]
    # What it finds differs each time, so that it gets on.
    found = [gives(f"found {letter * 5}") for letter in ascii_lowercase]
    return FabricSpec.model_validate(given), {"worker": [*answers, summary()], "look": found}
