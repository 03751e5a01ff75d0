"""Planted bugs of circuit breakers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core.breaker import passing
from fabric.core.breaker.policy import Breaker
from simulator.kernel.memory_guards import MemoryGuards
from simulator.kernel.planting import attribute


def _open_passes() -> AbstractContextManager[None]:
    """Whoever meets a breaker that is not closed goes past it all the same."""
    return attribute(passing, "looked_at", lambda gate, row, standing: passing.Met(gate, row))


def _permit_for_all() -> AbstractContextManager[None]:
    """A probe's permit is given to whoever asks."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, **asked: Any) -> bool:
        kept(self, *where, **asked)
        return True

    return attribute(MemoryGuards, "permit", gives)


def _one_probe_more() -> AbstractContextManager[None]:
    """One permit more is given than there are."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, most: int = 1, **asked: Any) -> bool:
        return kept(self, *where, most=most + 1, **asked)

    return attribute(MemoryGuards, "permit", gives)


def _retry_after_unheard() -> AbstractContextManager[None]:
    """What an endpoint says to wait is forgotten: its breaker lets a probe out when its cooldown is over."""
    kept = MemoryGuards.tell

    def tells(self: MemoryGuards, counts: Any) -> None:
        kept(self, [one for one in counts if not one.until])

    return attribute(MemoryGuards, "tell", tells)


def _named_for_all() -> AbstractContextManager[None]:
    """What a breaker names is not looked at: it stands in front of all of its scope."""
    return attribute(Breaker, "before", lambda _breaker, _name: True)


def _named_for_none() -> AbstractContextManager[None]:
    """A breaker that names what it stands in front of stands in front of nothing."""
    return attribute(Breaker, "before", lambda breaker, _name: not breaker.only)


BREAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "open_breaker_passes": _open_passes,
    "permit_for_all": _permit_for_all,
    "one_probe_more": _one_probe_more,
    "retry_after_unheard": _retry_after_unheard,
    "named_breaker_for_all": _named_for_all,
    "named_breaker_for_none": _named_for_none,
}
"""By name."""
