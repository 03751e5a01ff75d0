"""Patterns and numbers of conditions on text. A pattern is one that a search through a few hundred characters always finishes."""

from __future__ import annotations

import re
from functools import cache

PATTERN_MAX = 200
"""Characters of a pattern."""
LOOKED_AT = 500
"""Characters of a text that a pattern is looked for in."""
UNBOUNDED_MAX = 2
"""Repetitions without an upper bound in one pattern: more make a search too long."""
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?|\)(?P<group>[*+?{])|(?P<open>[*+]|\{\d*,\})|.", re.DOTALL)


@cache
def pattern_of(text: str) -> re.Pattern[str]:
    """A compiled pattern. ValueError with one sentence where it is none, or where a search for it might not end soon."""
    if len(text) > PATTERN_MAX:
        raise ValueError(f"has {len(text)} characters as a pattern; at most {PATTERN_MAX} are taken")
    unbounded = 0
    for part in _PART.finditer(text):
        if part[0] == "(?" or part["group"] or re.fullmatch(r"\\[1-9]", part[0]):
            raise ValueError(f"{text!r} repeats a group, looks around or refers back; write a plainer pattern")
        unbounded += part["open"] is not None
    if unbounded > UNBOUNDED_MAX:
        raise ValueError(f"{text!r} has {unbounded} open repetitions; at most {UNBOUNDED_MAX} are taken")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no pattern: {error}") from None


def found(pattern: str, text: str) -> bool:
    """Returns True where a pattern matches anywhere in the beginning of a text."""
    return pattern_of(pattern).search(text[:LOOKED_AT]) is not None


def number_of(text: str) -> float | None:
    """The number that a text is; None: it is none."""
    try:
        return float(text)
    except ValueError:
        return None
