"""Evaluates JSONPath (RFC 9535) by python-jsonpath, with limits: no path takes long or fills the memory.

Regular expressions in a path are refused, because the library matches them by backtracking. Tolerances have a type
``regex``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from fabric.core.values.units import JSON

if TYPE_CHECKING:
    from jsonpath import JSONPath, JSONPathEnvironment
    from jsonpath.exceptions import JSONPathError

_TOKEN = re.compile(r",? '?TOKEN_\w+'?")
PATH_CHARS_MAX = 200
"""Length of a path. Brackets can be nested half as deep, which the library's stack can take."""
DESCENTS_MAX = 2
"""Number of steps ``..`` in a path: each visits everything below all results of the one before."""
FOUND_MAX = 10_000
"""Largest number of values that a path may find."""


@lru_cache(maxsize=1)
def _environment() -> JSONPathEnvironment:
    from jsonpath import JSONPathEnvironment  # 3 MB, for probes that have a path.

    environment = JSONPathEnvironment()
    for name in ("match", "search"):
        del environment.function_extensions[name]
    return environment


@lru_cache(maxsize=64)
def parse_path(text: str) -> JSONPath:
    """Parse a path. Raises ValueError, one sentence, if it is invalid or too long."""
    path = text.strip()
    if not path:
        raise ValueError("the path is empty; write one like $.steps[0].state")
    if len(path) > PATH_CHARS_MAX:
        raise ValueError(f"the path has {len(path)} characters; at most {PATH_CHARS_MAX} are read: make it shorter")
    from jsonpath import JSONPath
    from jsonpath.exceptions import JSONPathError
    from jsonpath.token import TOKEN_DDOT, TOKEN_RE

    try:
        kinds = [token.kind for token in _environment().lexer.tokenize(path)]
        found = _environment().compile(path)
    except JSONPathError as error:
        raise ValueError(_sentence(path, error)) from None
    if TOKEN_RE in kinds:
        raise ValueError(f"the path {path!r} has a regular expression; write a tolerance of type regex")
    if kinds.count(TOKEN_DDOT) > DESCENTS_MAX:
        raise ValueError(f"the path {path!r} has more than {DESCENTS_MAX} steps '..'; name the fields on the way")
    if not isinstance(found, JSONPath):
        raise ValueError(f"the path {path!r} joins two paths; write a tolerance for each")
    return found


def _sentence(path: str, error: JSONPathError) -> str:
    from jsonpath.exceptions import JSONPathSyntaxError

    reason = _TOKEN.sub("", str(error).partition("\n")[0])
    index = error.token.index if isinstance(error, JSONPathSyntaxError) and error.token else -1
    at = f" at character {(index if index >= 0 else len(path) - 1) + 1}"
    return f"the path {path!r} cannot be read{at}: {reason}"


def find_values(path: JSONPath, value: JSON) -> Sequence[JSON]:
    """Return all values that a path finds, in order.

    Raises ValueError, one sentence, for too many values, or too deep nesting.
    """
    from jsonpath.exceptions import JSONPathError

    try:
        found = (
            [one.obj for one in islice(path.finditer(value), FOUND_MAX + 1)] if isinstance(value, dict | list) else []
        )
    except JSONPathError as error:
        raise ValueError(f"the path {path} cannot be followed: {str(error).partition(chr(10))[0]}") from None
    if len(found) > FOUND_MAX:
        raise ValueError(f"the path {path} leads to more than {FOUND_MAX:,} values; make it narrower")
    return found


def same(one: JSON, other: JSON) -> bool:
    """Return True if two JSON values are equal; true and 1 differ, 1 and 1.0 are equal."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)
