"""Cleans text and JSON from outside for storing: model answers, tool results, callers' requests.

NUL and lone surrogates become U+FFFD, NaN becomes null, numbers beyond 64 bits become strings, because PostgreSQL or
the JSON encoder would refuse them later, inside a run. Changes are reported, so that the journal can record
``sanitized``. (docs/security.md, "Parsers")
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from fabric.core.values.units import JSON

DEPTH_MAX = 64
"""Levels of nesting that a JSON value may have."""
JSON_CHARS_MAX = 2_000_000
"""Most characters of an answer that are searched for a JSON object."""
CANDIDATES_MAX = 16
"""Balanced objects tried in one answer before giving up."""
DIGITS_MAX = 1_000
"""Most digits of an integer that is read from text."""
SURE_DIGITS = 19
"""An integer with fewer characters fits in 64 bits."""
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""Integers that are kept as they are: those of 64 bits, signed or not."""
REPLACEMENT = "\ufffd"

_unfit = re.compile("[\x00\ud800-\udfff]")
_structure = re.compile(r'["{}\[\]]')
_string_end = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_opening = re.compile(r'\{\s*["}]')
_fence = re.compile(r"```[ \t]*(?:json|JSON)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)


def clean_text(s: str) -> tuple[str, bool]:
    """Return ``s`` with NUL and lone surrogates replaced by U+FFFD, and True if any was."""
    cleaned, count = _unfit.subn(REPLACEMENT, s)
    return (cleaned, True) if count else (s, False)


def clean(value: JSON) -> tuple[JSON, bool]:
    """Return a JSON value that can be stored, and True if anything in it was changed. Strings and keys as in
    ``clean_text``; NaN and infinities become None; integers beyond 64 bits become strings; tuples become lists.
    Raises ValueError, with one sentence, if it is nested deeper than 64 levels or contains something that is no
    JSON.
    """
    return _clean(value, DEPTH_MAX)


def _clean(value: JSON, room: int) -> tuple[JSON, bool]:
    if value is None or isinstance(value, bool):
        return value, False
    if isinstance(value, str):
        return clean_text(str(value))
    if isinstance(value, int):
        return (int(value), False) if INT_MIN <= value <= INT_MAX else (_decimal(value), True)
    if isinstance(value, float):
        return (float(value), False) if isfinite(value) else (None, True)
    if room == 0:
        raise ValueError(f"the value is nested deeper than {DEPTH_MAX} levels; make it flatter")
    if isinstance(value, dict):
        return _clean_dict(value, room)
    if isinstance(value, list | tuple):
        pairs = [_clean(item, room - 1) for item in value]
        return [item for item, _ in pairs], any(changed for _, changed in pairs)
    raise ValueError(f"a value of type {type(value).__name__} is no JSON; give text, numbers, lists and objects")


def _clean_dict(value: dict[Any, Any], room: int) -> tuple[JSON, bool]:
    cleaned: dict[str, JSON] = {}
    any_changed = False
    for key, item in value.items():
        if not isinstance(key, str):
            raise ValueError(f"an object key of type {type(key).__name__} is no JSON; keys are text")
        name, renamed = clean_text(key)
        cleaned[name], changed = _clean(item, room - 1)
        any_changed = any_changed or renamed or changed
    return cleaned, any_changed


def _decimal(value: int) -> str:
    # str() refuses more than 4300 digits; such a number says nothing that its size does not.
    bits = value.bit_length()
    return str(value) if bits <= 14_000 else f"<an integer of {bits} bits>"


def count_nesting(text: str) -> int:
    """Return the depth of nested brackets in JSON text; strings are skipped. Counts no further than one past 64
    levels. Linear.
    """
    depth = deepest = position = 0
    while deepest <= DEPTH_MAX and (found := _structure.search(text, position)) is not None:
        position = found.end()
        if found.group() == '"':
            string = _string_end.match(text, position)
            if string is None:
                break
            position = string.end()
        else:
            depth += 1 if found.group() in "{[" else -1
            deepest = max(deepest, depth)
    return deepest


def parse_json_object(text: str, *, strict: bool = False) -> tuple[dict[str, JSON] | None, str]:
    """Return the JSON object in a model's answer, cleaned: ``(object, "")``, or ``(None, problem)`` with one
    sentence.

    Strict JSON; else the object in a ```json fence; else the first balanced object in the prose. Duplicate keys, NaN
    and infinities, and more than 64 levels are refused: readers disagree about what they mean. ``strict``: nothing
    may stand around the object, as in the arguments of a tool call.
    """
    if not text.strip():
        return None, "the answer is empty; a JSON object is wanted"
    if len(text) > JSON_CHARS_MAX:
        return None, f"the answer has {len(text)} characters; at most {JSON_CHARS_MAX} are read as JSON"
    whole = text.strip()
    if whole[0] == "{" and whole[-1] == "}" and whole.count("{") + whole.count("[") <= DEPTH_MAX:
        # An object alone, with too few brackets to be too deep: the common case needs no search.
        value, _ = _load(whole)
        if value is not None:
            return value, ""
    if whole[0] == "[" and _is_list(text):
        # The object inside it must not be taken for the answer.
        return None, "the answer is a JSON list; a JSON object is wanted"
    problem = ""
    for number, (start, end) in enumerate(_objects(text)):
        if number == CANDIDATES_MAX:
            break
        if end < 0:
            problem = problem or _describe_unclosed(start, end)
            break
        if strict and (text[:start].strip() or text[end:].strip()):
            return None, "there is text around the JSON object; the object alone is wanted"
        value, wrong = _load(text[start:end])
        if value is not None:
            return value, ""
        problem = problem or wrong
    return None, problem or f"the answer holds no JSON object; it begins with {text.strip()[:40]!r}"


CUT, TOO_DEEP = -1, -2


def _describe_unclosed(start: int, why: int) -> str:
    if why == TOO_DEEP:
        return f"the JSON object is nested deeper than {DEPTH_MAX} levels; make it flatter"
    return f"the JSON is cut off: the object that opens at character {start} never closes"


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that may be objects, the likeliest first. The end is CUT or TOO_DEEP for one that never
    closes.
    """
    position = len(text) - len(text.lstrip())
    fence = None if text.startswith("{", position) else _fence.search(text)
    start = -1 if fence is None else _first(text, fence.start(1), fence.end(1))
    while start >= 0 or (start := _first(text, position, len(text))) >= 0:
        position = _find_closing(text, start)
        yield start, position
        if position < 0:
            return
        start = -1


def _first(text: str, start: int, end: int) -> int:
    """Return the position where the next object seems to open; -1: none. A text that begins with a brace is that
    object, never one inside it.
    """
    while start < end and text[start].isspace():
        start += 1
    if text.startswith("{", start, end):
        return start
    opening = _opening.search(text, start, end)
    return -1 if opening is None else opening.start()


def _is_list(text: str) -> bool:
    start = text.index("[")
    end = _find_closing(text, start)
    return end > 0 and not text[end:].strip()


def _find_closing(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at ``start``, CUT, or TOO_DEEP. Linear; strings are
    skipped, kinds of brackets are not distinguished.
    """
    depth, position = 0, start
    while (found := _structure.search(text, position)) is not None:
        position = found.end()
        mark = found.group()
        if mark == '"':
            string = _string_end.match(text, position)
            if string is None:
                return CUT
            position = string.end()
        elif mark in "{[":
            depth += 1
            if depth > DEPTH_MAX:
                return TOO_DEEP
        else:
            depth -= 1
            if depth == 0:
                return position
    return CUT


def _load(raw: str) -> tuple[dict[str, JSON] | None, str]:
    try:
        value = _strict.decode(raw)
    except json.JSONDecodeError as error:
        return None, f"the JSON is malformed at line {error.lineno}, column {error.colno}: {error.msg.lower()}"
    except ValueError as error:
        return None, f"the JSON is refused: {error}"
    if not isinstance(value, dict):
        return None, "the answer is no JSON object"
    return value if _is_clean(raw) else clean(value)[0], ""


def _is_clean(raw: str) -> bool:
    """Return True if JSON text has nothing that ``clean`` would change: no escapes by number, no lone surrogates.
    Reading checks the numbers.
    """
    if "\\u" in raw or "\x00" in raw:
        return False
    try:
        raw.encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} is there twice")
    return found


def _no_constant(name: str) -> JSON:
    raise ValueError(f"{name} is no JSON number")


def _integer(digits: str) -> int | str:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"an integer has {len(digits)} digits; at most {DIGITS_MAX} are read")
    value = int(digits)
    return value if len(digits) < SURE_DIGITS else clean(value)[0]


_strict = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_int=_integer,
    parse_float=_finite,
    strict=False,  # Line breaks inside a text, which JSON wants escaped, are accepted.
)
