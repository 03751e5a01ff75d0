"""Planted bugs of a call's attempts, and of a call that a person has made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import call_time
from fabric.core.evolve import calls
from fabric.core.frozen import replace
from fabric.core.run import Step
from simulator.kernel import planting


def _attempts_forget_time() -> AbstractContextManager[None]:
    """Each attempt of a call has its own time, however long those before took."""

    def left_s(pending: Any, timeout: float) -> float:
        return call_time.SHARE * timeout

    return planting.attribute(call_time, "left_s", left_s)


def _kept_step_forgets() -> AbstractContextManager[None]:
    """A step whose failed call is made again begins anew."""
    kept = calls._kept

    def forgets(before: Step | None, fact: Any) -> Step:
        return replace(kept(before, fact), history=(), turns=0)

    return planting.attribute(calls, "_kept", forgets)


CALL_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "attempts_forget_time": _attempts_forget_time,
    "kept_step_forgets": _kept_step_forgets,
}
"""By name."""
