"""Planted bugs about answers that stream in, as in ``plants.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import dependencies, streamed
from fabric.core.run import CallRecord, Step
from fabric.core.saga import Effect
from simulator.kernel import planting


def _forgotten(step: Step, one: Any) -> CallRecord | None:
    """What a call came to that was made for an answer which broke off."""
    return None


STREAM_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "begun_is_made_again": lambda: planting.attribute(dependencies, "twin", _forgotten),
    "writes_begin_early": lambda: planting.entry(streamed.BEGINS, Effect.IDEMPOTENT, True),
}
"""Every one by name."""
