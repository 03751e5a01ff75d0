"""Finds near-identical calls: paraphrases of one call, which hashes of arguments cannot find.

Sources: S0 "Loop Detector"; docs/specification/protections.md, detector C; docs/specification/failures.md, row semantic
no-progress. A call is cut into words, each under the name of its argument, so that swapped arguments differ. Two calls
are near-identical if their numbers and dates are equal, in equal order, and the Jaccard index of their other words is
at least 0.8. A scan over pages, days or ids is never near-identical.

An agent's turns have one question in other words, different questions, or a scan over numbers, dates or ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from fabric.core.values.fingerprint import canonical, names_an_item
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

SIMILARITY = 0.8
"""Least Jaccard index of two calls that count as one (docs/specification/protections.md)."""

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
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


def read_words(args: JSON) -> Words:
    """Return the words of a call's arguments, or of its raw text."""
    numbers: list[str] = []
    others: set[str] = set()
    for path, text in _texts("", canonical(args)):
        if text.isascii() and _DIGIT.search(text) is None:  # The common case, in which words alone name numbers.
            words = _WORD.findall(text.lower())
            numbers += [f"{path}={word}" for word in words if word in _NAMED]
            others.update([f"{path}={word}" for word in words if word not in _NAMED])
            continue
        for found in _WORD.findall(text):
            word = found.lower()
            if word in _NAMED or (not word.isalpha() and any(char.isdigit() for char in word)):
                numbers.append(f"{path}={word}")
            else:
                others.add(f"{path}={word}")
    return Words(tuple(numbers), frozenset(others))


def near_identical(one: Words, other: Words, similarity: float = SIMILARITY) -> bool:
    """Return True if the calls differ in wording alone. ``similarity``: least Jaccard index of their other words."""
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


SHARED_MIN = 1 / 3
"""Least Jaccard index of the words of two turns that count as alike."""


class Likeness(StrEnum):
    """Likeness of the arguments of turns in a row."""

    ALIKE = "alike"
    APART = "apart"
    SCAN = "scan"


def likeness(turns: Sequence[JSON], period: int = 1) -> Likeness:
    """Return the likeness of turns in a row. A turn is the arguments of its calls, by tool. ``period``: turns of one
    round; each is compared with its turn of the round before.

    SCAN: each turn has other numbers, dates or ids as whole arguments than every other turn; one such place in a
    round is enough. APART: at least half of the pairs have other numbers or dates in them, or share less than a third
    of their words.
    """
    if any(_scans(turns[place::period]) for place in range(period)):
        return Likeness.SCAN
    words = [read_words(turn) for turn in turns]
    apart = [not near_identical(one, other, SHARED_MIN) for one, other in zip(words, words[period:], strict=False)]
    return Likeness.APART if apart and 2 * sum(apart) >= len(apart) else Likeness.ALIKE


def _scans(turns: Sequence[JSON]) -> bool:
    items = [tuple(_items("", turn)) for turn in turns]
    return all(items) and len(set(items)) == len(items) > 1


def _items(path: str, given: JSON) -> Iterator[str]:
    """Yield the whole arguments that name an item, each under its name."""
    if isinstance(given, dict):
        for key in sorted(given):
            yield from _items(f"{path}.{key}", given[key])
    elif isinstance(given, list):
        for item in given:
            yield from _items(path, item)
    elif names_an_item(given):
        yield f"{path}={given}"
