"""Loading without looking for garbage: what is imported stays, and to look through it again and again is a tenth of the web server's start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Keeps the collector off during the block. What there is at its end no later collection looks through either, while a page is waited for."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
