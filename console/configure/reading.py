"""What is read back from a control of the editor, as JSON.

Reading never refuses: a number that is none stays in the draft as the text that it is, and the check of the whole says what is wrong with it.
So nothing that was typed is lost, and there is one place that judges.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from console.configure.places import Kind
from console.configure.shape import MISSING, Shape

JSON = Any
SEVERAL = frozenset[Kind]({"picks", "order"})
"""Kinds whose answer is a list of what was picked."""


def read(shape: Shape, sent: Sequence[str]) -> JSON:
    """What was sent of a field, as JSON; ``MISSING``: nothing is to stand there. What does not fit the field's type stays the text that it is."""
    if shape.kind in SEVERAL:
        return list(dict.fromkeys(one for one in sent if one))
    text = (sent[-1] if sent else "").replace("\r\n", "\n")
    if not text.strip():
        return MISSING
    reader = READ.get(shape.kind)
    return text if reader is None else reader(text)


_GROUPED = re.compile(r"-?\d{1,3}(?:[ _,]\d{3})+|-?\d+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _integer(text: str) -> JSON:
    found = text.strip()
    return int(re.sub(r"[ _,]", "", found)) if len(found) < 20 and _GROUPED.fullmatch(found) else found


def _number(text: str) -> JSON:
    found = text.strip()
    if len(found) > 25 or not _NUMBER.fullmatch(found):
        return found
    return float(found) if "." in found else int(found)


def _usd(text: str) -> JSON:
    found = text.strip().removeprefix("$").strip()
    try:
        micros = Decimal(found) * 1_000_000
    except InvalidOperation:
        return found
    fits = micros.is_finite() and micros == micros.to_integral_value() and abs(micros) < 2**63
    return int(micros) if fits and _NUMBER.fullmatch(found) else found


def _boolean(text: str) -> JSON:
    return {"true": True, "false": False}.get(text, text)


def _lines(text: str) -> JSON:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _json(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _stripped(text: str) -> JSON:
    return text.strip()


def _numbers(text: str) -> JSON:
    """Whole numbers, with commas or blanks between them; what is none stays the text that it is, so that it is told."""
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    return [int(part) if part.isascii() and part.isdecimal() and len(part) < 19 else part for part in parts]


READ: Mapping[Kind, Callable[[str], JSON]] = {
    "integer": _integer,
    "number": _number,
    "usd": _usd,
    "boolean": _boolean,
    "lines": _lines,
    "numbers": _numbers,
    "json": _json,
    "name": _stripped,
}
"""How the text of a control is read, where it is not taken as it is."""
