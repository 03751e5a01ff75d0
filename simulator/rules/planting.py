"""A planted bug stands in the program for as long as a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fabric.core.values.identity_cache import forget_results


@contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put a value in the place of an attribute of a module or class."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    forget_results()
    try:
        yield
    finally:
        setattr(owner, name, kept)
        forget_results()


@contextmanager
def entry(table: Any, key: Any, value: Any) -> Iterator[None]:
    """Put a value in the place of an entry of a table."""
    kept = table[key]
    table[key] = value
    forget_results()
    try:
        yield
    finally:
        table[key] = kept
        forget_results()
