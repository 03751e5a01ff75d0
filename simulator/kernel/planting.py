"""How a bug is planted and taken out again: something else stands in the program for as long as a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Puts ``value`` in place of what a module or class has under a name."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextmanager
def entry(table: Any, key: Any, value: Any) -> Iterator[None]:
    """Puts ``value`` in place of what a table has under a key."""
    kept = table[key]
    table[key] = value
    try:
        yield
    finally:
        table[key] = kept
