"""How alike an agent's turns ask: a question in other words, other questions, or a scan over numbers, dates or ids (semantics.md 2, row semantic no-progress)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from fabric.core.echoes import names_an_item
from fabric.core.near_identical import near_identical, words_of

JSON = Any
SHARED_MIN = 1 / 3
"""Least Jaccard index of the words of two turns that ask the same."""


class Likeness(StrEnum):
    """The ways in which a row of turns asks."""

    ALIKE = "alike"
    APART = "apart"
    SCAN = "scan"


def likeness(turns: Sequence[JSON], period: int = 1) -> Likeness:
    """How alike the turns are that stand in a row. A turn is what its calls were made with, by tool; ``period``: turns of one round, each of which is held against
    the one of the round before.

    A scan: each turn names other numbers, dates or ids as whole arguments than every other turn; of a round one such place is enough. Apart: of the pairs at least
    half have other numbers or dates in them, or share less than a third of their words.
    """
    if any(_scans(turns[place::period]) for place in range(period)):
        return Likeness.SCAN
    words = [words_of(turn) for turn in turns]
    apart = [not near_identical(one, other, SHARED_MIN) for one, other in zip(words, words[period:], strict=False)]
    return Likeness.APART if apart and 2 * sum(apart) >= len(apart) else Likeness.ALIKE


def _scans(turns: Sequence[JSON]) -> bool:
    items = [tuple(_items("", turn)) for turn in turns]
    return all(items) and len(set(items)) == len(items) > 1


def _items(path: str, given: JSON) -> Iterator[str]:
    """The whole arguments that name an item, each under its name."""
    if isinstance(given, dict):
        for key in sorted(given):
            yield from _items(f"{path}.{key}", given[key])
    elif isinstance(given, list):
        for item in given:
            yield from _items(path, item)
    elif names_an_item(given):
        yield f"{path}={given}"
