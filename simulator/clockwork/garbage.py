"""Collects garbage after a simulated world, and not during it: almost all of its objects are needed until then."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collect_after(*, whole: bool = False) -> Iterator[None]:
    """Collect the garbage of what happens within, at its end. ``whole``: look through all older objects too."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(2 if whole else 1)
        if enabled:
            gc.enable()
