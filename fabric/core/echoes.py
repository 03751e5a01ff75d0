"""A result without what the call itself had brought: a tool that repeats its question answers each question differently, and says nothing new (semantics.md 4).

Only texts are taken out, and of those no number, date or id: a scan over them stays a scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fabric.core.frozen import value

JSON = Any
ECHO = "<argument>"
"""Stands where a result repeats an argument."""
CONTAINED_CHARS_MIN = 8
"""A shorter argument is found in longer texts by chance."""

_ITEM = re.compile(r"[\w.:#@/-]+")


def names_an_item(given: JSON) -> bool:
    """Returns True for an argument that is a number, a date or an id and nothing else. A scan goes through such arguments."""
    if isinstance(given, str):
        return any(char.isdigit() for char in given) and _ITEM.fullmatch(given) is not None
    return isinstance(given, int | float) and not isinstance(given, bool)


def without_echoes(result: JSON, args: JSON) -> JSON:
    """``result`` with texts of ``args`` replaced, both in canonical form; keys stay.

    A text without a digit is replaced where it is a whole text of the result, and from 8 characters on within a longer one. A text with a digit is replaced
    under its own argument's name alone, and only where it is more than a number, a date or an id.
    """
    pairs = {(key, text) for key, text in _texts("", args) if text and not names_an_item(text)}
    plain = {text for _, text in pairs if not any(char.isdigit() for char in text)}
    if not pairs:
        return result
    within = tuple(
        sorted((text for text in plain if len(text) >= CONTAINED_CHARS_MIN), key=lambda text: (-len(text), text))
    )
    return _replaced(_Echoes(frozenset(pairs), frozenset(plain), within), "", result)


@value()
class _Echoes:
    """Texts that may be echoes in a result."""

    pairs: frozenset[tuple[str, str]]
    """Texts that count under the name of their argument."""
    whole: frozenset[str]
    within: tuple[str, ...]
    """Texts that count within a longer one, the longest first."""


def _texts(key: str, given: JSON) -> Iterator[tuple[str, str]]:
    if isinstance(given, str):
        yield key, given
    elif isinstance(given, dict):
        for name, item in given.items():
            yield from _texts(name, item)
    elif isinstance(given, list):
        for item in given:
            yield from _texts(key, item)


def _replaced(echoes: _Echoes, key: str, given: JSON) -> JSON:
    if isinstance(given, str):
        if given in echoes.whole or (key, given) in echoes.pairs:
            return ECHO
        for text in echoes.within:
            if text in given:
                given = given.replace(text, ECHO)
        return given
    if isinstance(given, dict):
        return {name: _replaced(echoes, name, item) for name, item in given.items()}
    if isinstance(given, list):
        return [_replaced(echoes, key, item) for item in given]
    return given
