"""Keeps the factory of the source of live runs. The console sets it at its start, and loads no hub for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from console.live.reader import RunKey, Source


class Reach(Source, Protocol):
    """A source that also returns the ends of journals, for the poll."""

    def may_have_changed(self) -> bool:
        """Return False if certainly nothing was written since the last call. It is cheap."""
        ...

    def reach(self, keys: Iterable[RunKey]) -> Mapping[RunKey, int]:
        """Return the last sequence number of each of these runs."""
        ...


def _no_source() -> Reach:
    raise RuntimeError("No source of live runs is set: the console sets one when it starts.")


_factories: list[Callable[[], Reach]] = [_no_source]


def set_source(new_source: Callable[[], Reach]) -> None:
    """Set the factory of the source from which each hub reads runs."""
    _factories[:] = [new_source]


def new_source() -> Reach:
    """Return a new source. Raises RuntimeError if no factory is set."""
    return _factories[0]()
