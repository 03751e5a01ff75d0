"""When a second person has to agree to a change of a fabric: where its runs have four eyes, before the change or after it."""

from __future__ import annotations

from typing import Any

from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier

JSON = Any


def second_wanted(published: JSON, spec: FabricSpec) -> tuple[Tier, ...]:
    """The tiers that a run may ask for and in which two people agree, of what is published (its stored JSON; None: nothing is) or of what is to be.

    Both, so that taking the four eyes away needs two people as well. Empty: whoever may publish does so alone.
    """
    named = {*_eyes(published), *(str(tier) for tier in spec.policy.humans.four_eyes if tier in spec.tiers.allowed)}
    return tuple(tier for tier in Tier if tier in named)


def _eyes(stored: JSON) -> set[str]:
    """The same of a spec as it is stored, which this version of the program need not be able to read in full."""
    if stored is None:
        return set()
    humans = stored.get("policy", {}).get("humans", {})
    return set(humans.get("four_eyes", ())) & set(stored.get("tiers", {}).get("allowed", ()))
