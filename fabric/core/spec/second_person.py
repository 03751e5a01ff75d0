"""Decides when a second person has to agree to a change of a fabric. Its runs have four eyes before the change, or
after it.
"""

from __future__ import annotations

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON


def second_wanted(published: JSON, spec: FabricSpec) -> tuple[Tier, ...]:
    """Return the tiers of the published and the new fabric in which two people must agree.

    Both count, so removing the four eyes needs two people as well. An empty result: one person may publish. The
    published fabric is its stored JSON; None: none is published.
    """
    named = {*_eyes(published), *(str(tier) for tier in spec.policy.humans.four_eyes if tier in spec.tiers.allowed)}
    return tuple(tier for tier in Tier if tier in named)


def _eyes(stored: JSON) -> set[str]:
    """Return those tiers of a stored spec, which this version need not be able to read in full."""
    if stored is None:
        return set()
    humans = stored.get("policy", {}).get("humans", {})
    return set(humans.get("four_eyes", ())) & set(stored.get("tiers", {}).get("allowed", ()))
