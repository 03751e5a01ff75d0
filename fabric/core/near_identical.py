"""When two calls are near-identical: paraphrases of one call, which hashes of arguments cannot tell (S0 "Loop Detector", semantics.md 4, detector C).

A call is cut into words, each under the name of its argument, so that swapped arguments differ. Two calls are near-identical when their numbers and dates
are the same, in the same order, and the Jaccard index of their other words is at least 0.8. A scan over pages, days or ids is never near-identical.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fabric.core.fingerprint import canonical
from fabric.core.frozen import value

JSON = Any
SIMILARITY = 0.8
"""Least Jaccard index of two calls that count as one (semantics.md 4)."""

_WORD = re.compile(r"\w+")
_NAMED = frozenset(
    _WORD.findall(
        "january february march april may june july august september october november december "
        "jan feb mar apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday "
        "mon tue wed thu fri sat sun today tomorrow yesterday zero one two three four five six seven eight nine ten "
        "eleven twelve first second third fourth fifth sixth seventh eighth ninth tenth"
    )
)
"""Numbers and dates that have no digit in them."""


@value()
class Words:
    """A call's arguments as near-identity sees them."""

    numbers: tuple[str, ...]
    """Words that name a number or a date, in their order, each under its argument."""
    others: frozenset[str]


def words_of(args: JSON) -> Words:
    """The words of a call's arguments, or of its raw text."""
    numbers: list[str] = []
    others: set[str] = set()
    for path, text in _texts("", canonical(args)):
        for found in _WORD.findall(text):
            word = found.lower()
            if word in _NAMED or (not word.isalpha() and any(char.isdigit() for char in word)):
                numbers.append(f"{path}={word}")
            else:
                others.add(f"{path}={word}")
    return Words(tuple(numbers), frozenset(others))


def near_identical(one: Words, other: Words, similarity: float = SIMILARITY) -> bool:
    """Whether the calls differ in wording alone; ``similarity``: least Jaccard index of their other words."""
    if one.numbers != other.numbers:
        return False
    either = one.others | other.others
    return not either or len(one.others & other.others) / len(either) >= similarity


def _texts(path: str, given: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(given, dict):
        for key in sorted(given):
            yield from _texts(f"{path}.{key}", given[key])
    elif isinstance(given, list):
        for item in given:
            yield from _texts(path, item)
    else:
        yield path, given if isinstance(given, str) else str(given)
