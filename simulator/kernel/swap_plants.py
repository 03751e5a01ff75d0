"""Planted bugs of failover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import calls, failover, swap
from fabric.core.failover import Target
from fabric.core.taxonomy import Tier
from fabric.core.verdict import Trip
from simulator.kernel import planting


def _swap_unapproved() -> AbstractContextManager[None]:
    """High-stakes swaps as the other tiers do."""
    return planting.attribute(failover, "ASKS_FIRST", dict.fromkeys(Tier, False))


def _swap_for_anything() -> AbstractContextManager[None]:
    """Whatever went wrong, another model is asked."""
    return planting.attribute(failover, "TARGETS", dict.fromkeys(failover.TARGETS, Target.ANY))


def _swap_silently() -> AbstractContextManager[None]:
    """The other model is asked for the next attempt, and no event says so."""
    kept = calls.ask_model

    def ask_model(work: Any, step: Any, *, turn: int, attempt: int = 1) -> list[Trip]:
        own = calls.model_of(work, step)
        named = work.compiled.spec.model(own).fallbacks if attempt > 1 else ()
        # Only the call goes elsewhere: whoever asks in between whose step it is hears the truth.
        with planting.attribute(calls, "model_of", lambda work, step: named[0] if named else own):
            return kept(work, step, turn=turn, attempt=attempt)

    return planting.attribute(calls, "ask_model", ask_model)


def _swap_into_open() -> AbstractContextManager[None]:
    """A model is asked although a circuit breaker in front of it is known to be open."""
    kept = failover.choose

    def choose(lost: Any, models: Any, prices: Any, refuses: Any) -> failover.Failover:
        def but_breakers(name: str) -> failover.PassedOver | None:
            said: failover.PassedOver | None = refuses(name)
            return None if said is None or said.ruled_out == "breaker" else said

        return kept(lost, models, prices, but_breakers)

    return planting.attribute(swap, "choose", choose)


SWAP_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "swap_unapproved": _swap_unapproved,
    "swap_for_anything": _swap_for_anything,
    "swap_silently": _swap_silently,
    "swap_into_open": _swap_into_open,
}
"""By name."""
