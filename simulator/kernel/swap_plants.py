"""Planted bugs of failover."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fabric.core import calls, failover
from fabric.core.failover import Target
from fabric.core.taxonomy import Tier


@contextmanager
def _in_place(module: Any, name: str, value: Any) -> Iterator[None]:
    kept = vars(module)[name]
    vars(module)[name] = value
    try:
        yield
    finally:
        vars(module)[name] = kept


def _swap_unapproved() -> AbstractContextManager[None]:
    """High-stakes swaps as the other tiers do."""
    return _in_place(failover, "ASKS_FIRST", dict.fromkeys(Tier, False))


def _swap_for_anything() -> AbstractContextManager[None]:
    """Whatever went wrong, another model is asked."""
    return _in_place(failover, "TARGETS", dict.fromkeys(failover.TARGETS, Target.ANY))


@contextmanager
def _swap_silently() -> Iterator[None]:
    """The other model is asked, and no event says so."""
    kept = calls.model_of

    def model_of(work: Any, step: Any) -> str:
        found = kept(work, step)
        again = any(one.failed and one.issued.step_id == step.id for one in work.run.pending.values())
        fallbacks = work.compiled.spec.model(found).fallbacks
        return fallbacks[0] if again and fallbacks else found

    with _in_place(calls, "model_of", model_of):
        yield


SWAP_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "swap_unapproved": _swap_unapproved,
    "swap_for_anything": _swap_for_anything,
    "swap_silently": _swap_silently,
}
"""By name."""
