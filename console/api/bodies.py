"""Bodies: JSON read strictly, before anything else looks at it (reliability.md 2.11 "Parsers").

What one parser takes and another does not is refused: keys twice, NaN, numbers that no 64 bits hold, halves of characters, depth. A scan
bounds the depth and the number of values first, so that nothing here takes longer than the body's length asks for.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from console.api.problems import FieldError, Problem

JSON = Any
DEPTH_MAX = 64
TOKENS_MAX = 20_000
"""Values, names, punctuation and gaps in one body. The largest body that means anything here has fewer than two hundred."""
WORD_CHARS_MAX = 400
"""Of a number, or of anything else outside of strings."""
INTEGER_DIGITS_MAX = 19
INTEGER_MAX = 2**63 - 1

# Strings, spaces and words are passed over whole; possessive, so that each is tried once.
_token = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]|[,:]|\s++|[^\s"\[\]{},:]++', re.DOTALL)


def read_json(body: bytes, content_type: str) -> JSON:
    """The value in a body. Problem 415 when it is not announced as JSON, 400 when it is not JSON that everybody reads alike."""
    _announced(content_type)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is no UTF-8 (byte {error.start:,} is not): send JSON in UTF-8") from None
    _scan(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_number
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        said = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise Problem(400, f"the body is no JSON: {said} at {where}") from None
    _whole_characters(value)
    return value


def _announced(content_type: str) -> None:
    kind, _, parameters = content_type.partition(";")
    charset = re.fullmatch(r'\s*charset\s*=\s*"?([\w-]+)"?\s*', parameters, re.IGNORECASE)
    if kind.strip().lower() != "application/json" or (parameters.strip() and not charset):
        said = (
            f"the body is announced as {kind.strip()[:60]!r}"
            if content_type.strip()
            else "the body has no Content-Type"
        )
        raise Problem(415, f"{said}: send JSON with Content-Type: application/json")
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise Problem(415, f"the body is announced in the charset {charset[1][:30]!r}: send JSON in UTF-8")


def _scan(text: str) -> None:
    depth = 0
    for count, found in enumerate(_token.finditer(text)):
        if count >= TOKENS_MAX:
            raise Problem(400, f"the body has more than {TOKENS_MAX:,} values and marks: send less in one request")
        mark = text[found.start()]
        if mark in "{[":
            depth += 1
            if depth > DEPTH_MAX:
                raise Problem(400, f"the body is nested deeper than {DEPTH_MAX} levels: send it flatter")
        elif mark in "}]":
            depth -= 1
        elif mark != '"' and not mark.isspace() and found.end() - found.start() > WORD_CHARS_MAX:
            raise Problem(400, f"a number or word has more than {WORD_CHARS_MAX} characters: send a shorter one")


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Problem(400, f"the name {twice[:60]!r} stands twice in one object: send it once")
    return made


def _constant(name: str) -> JSON:
    raise Problem(400, f"{name} is no JSON number: send null, or leave it out")


def _integer(digits: str) -> int:
    # The length first: making an integer of a million digits takes its time.
    if len(digits.lstrip("-")) > INTEGER_DIGITS_MAX or not -INTEGER_MAX - 1 <= int(digits) <= INTEGER_MAX:
        raise Problem(400, f"the number {digits[:24]}... does not fit in 64 bits: send a smaller one")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Problem(400, f"the number {digits[:24]} is too large: send a smaller one")
    return value


def _whole_characters(value: JSON, path: str = "") -> None:
    """Refuse halves of surrogate pairs, which no store takes. Recursion is bounded by the scan."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(value[error.start]):04X}"
            message = f"a string holds half a character ({half}): send whole ones"
            raise Problem(400, message, [FieldError(path, message)]) from None
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _whole_characters(item, f"{path}.{number}" if path else str(number))
    elif isinstance(value, dict):
        for name, item in value.items():
            _whole_characters(name, path)
            _whole_characters(item, f"{path}.{name}" if path else name)
