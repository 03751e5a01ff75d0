"""The interpreter's own settings, which hosting runs changes for the whole process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_it_was() -> Iterator[None]:
    """Takes back what ``fabric.adapters.tuning`` did inside the block.

    A test process hosts runs many times. What is frozen is never collected, so each time would keep the files of all before it open for good.
    """
    threshold, interval, frozen = gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count()
    try:
        yield
    finally:
        if gc.get_freeze_count() != frozen:
            gc.unfreeze()
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
