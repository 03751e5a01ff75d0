"""Reads the JSON of tools' answers: text with one meaning is read, all else is refused in one sentence."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from fabric.core.text import DEPTH_MAX, DIGITS_MAX, nesting

JSON = Any
JSON_TYPES = frozenset(["application/json", "text/json", "application/x-json", "text/x-json"])
LINES_TYPES = frozenset(
    [
        *("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl"),
        *("application/jsonlines", "application/x-jsonlines", "application/json-lines", "application/stream+json"),
        *("application/x-json-stream", "application/json-seq", "application/jsonl+json"),
    ]
)
"""A JSON value a line; RFC 7464 puts a record separator before each."""
GUARD = ")]}'"
"""Guards that some servers put before JSON, with a comma or a line's end or without. No JSON begins so, so each has one meaning."""
MARK, SEPARATOR = "\ufeff", "\x1e"


class NotJson(ValueError):
    """Text that is no JSON, or none that is read. The message goes on from "the answer's JSON "."""


def is_json(kind: str) -> bool:
    """Returns True where a media type says that the body is one JSON value (RFC 6839, 3.1)."""
    return kind in JSON_TYPES or (kind.endswith("+json") and kind not in LINES_TYPES)


def is_json_lines(kind: str) -> bool:
    """Returns True where a media type says that each line is a JSON value."""
    return kind in LINES_TYPES


def value_of(text: str) -> JSON:
    """The one JSON value in a text. Raises NotJson.

    Control characters in strings are read. NaN and infinities are left as they are; a number too large for a float becomes its text.
    """
    text = text.lstrip(MARK).strip()
    if text.startswith(GUARD):
        text = text[len(GUARD) :].removeprefix(",").strip()
    if nesting(text) > DEPTH_MAX:
        raise NotJson(f"is nested deeper than {DEPTH_MAX} levels")
    try:
        value, end = _decoder.raw_decode(text)
    except json.JSONDecodeError as error:
        cut = " (it ends too early)" if error.pos >= len(text) else ""
        raise NotJson(
            f"cannot be read at line {error.lineno}, column {error.colno}{cut}: {error.msg.lower()}"
        ) from None
    if rest := text[end:].strip():
        more = "a second value" if rest[0] in '{["' else "something else"
        raise NotJson(f"goes on with {more} behind its end at character {end:,}; one value is wanted")
    return value


def values_of(text: str) -> list[JSON]:
    """The JSON values of the lines. Raises NotJson, which names the line."""
    values = []
    for number, line in enumerate(text.lstrip(MARK).split("\n"), start=1):
        if line := line.strip(f"{SEPARATOR} \t\r"):
            try:
                values.append(value_of(line))
            except NotJson as error:
                raise NotJson(f"is one value a line, and line {number:,} {error}") from None
    return values


def _integer(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise NotJson(f"has a number of {len(digits):,} digits; at most {DIGITS_MAX:,} are read")
    return int(digits)


def _number(digits: str) -> float | str:
    value = float(digits)
    return value if isfinite(value) else digits[:DIGITS_MAX]


_decoder = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_number)
