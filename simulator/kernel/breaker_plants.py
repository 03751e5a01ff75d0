"""Planted bugs of circuit breakers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fabric.core.breaker import passing
from simulator.kernel.memory_guards import MemoryGuards


@contextmanager
def _open_passes() -> Iterator[None]:
    """Whoever meets a breaker that is not closed goes past it all the same."""
    kept = passing._looked

    def passes(gate: Any, row: Any, standing: Any) -> Any:
        return passing.Met(gate, row)

    vars(passing)["_looked"] = passes
    try:
        yield
    finally:
        vars(passing)["_looked"] = kept


@contextmanager
def _permit_for_all() -> Iterator[None]:
    """A probe's permit is given to whoever asks."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, **asked: Any) -> bool:
        kept(self, *where, **asked)
        return True

    MemoryGuards.permit = gives  # type: ignore[method-assign]
    try:
        yield
    finally:
        MemoryGuards.permit = kept  # type: ignore[method-assign]


@contextmanager
def _one_probe_more() -> Iterator[None]:
    """One permit more is given than there are."""
    kept = MemoryGuards.permit

    def gives(self: MemoryGuards, *where: str, most: int = 1, **asked: Any) -> bool:
        return kept(self, *where, most=most + 1, **asked)

    MemoryGuards.permit = gives  # type: ignore[method-assign]
    try:
        yield
    finally:
        MemoryGuards.permit = kept  # type: ignore[method-assign]


@contextmanager
def _retry_after_unheard() -> Iterator[None]:
    """What an endpoint says to wait is forgotten: its breaker lets a probe out when its cooldown is over."""
    kept = MemoryGuards.tell

    def tells(self: MemoryGuards, counts: Any) -> None:
        kept(self, [one for one in counts if not one.until])

    MemoryGuards.tell = tells  # type: ignore[method-assign]
    try:
        yield
    finally:
        MemoryGuards.tell = kept  # type: ignore[method-assign]


BREAKER_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "open_breaker_passes": _open_passes,
    "permit_for_all": _permit_for_all,
    "one_probe_more": _one_probe_more,
    "retry_after_unheard": _retry_after_unheard,
}
"""By name."""
