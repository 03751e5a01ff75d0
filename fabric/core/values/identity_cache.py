"""Keeps what follows from a frozen value, such as a policy, as long as that very value is in use.

A value's hash costs more than what is looked up here, so a result is kept by the value's identity. A copy with other
numbers is another value, and has results of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
KEPT = 1_024
"""Results kept of each function. A process has a few revisions in use, each with a few stages and agents."""
_caches: list[dict[tuple[Any, ...], tuple[Any, Any]]] = []
"""The results of each function."""


def keep_results(compute: F) -> F:
    """Keep the results of a pure function, by the identity of its first argument and by the others' values."""
    kept: dict[tuple[Any, ...], tuple[Any, Any]] = {}
    _caches.append(kept)

    def find(given: Any, *more: Any) -> Any:
        found = kept.get((id(given), more))
        if found is None:
            if len(kept) >= KEPT:
                kept.clear()
            # The value is kept with its result, so that no other value gets its identity meanwhile.
            found = kept[id(given), more] = (given, compute(given, *more))
        return found[1]

    find.__name__, find.__doc__ = compute.__name__, compute.__doc__
    return find  # type: ignore[return-value]


def forget_results() -> None:
    """Forget all results. A planted bug replaces functions, so it needs that when it comes and when it goes."""
    for kept in _caches:
        kept.clear()
