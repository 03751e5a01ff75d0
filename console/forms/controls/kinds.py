"""The kinds of controls: how each reads its text as JSON, shows JSON as text, and is drawn.

A reader raises ValueError with one sentence for a text that does not fit. Reviews show it beside the field. The editor
keeps the text in the draft, where the check of the whole fabric finds it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

from console.forms.controls.schemas import Schema, allowed_of
from console.site.sentences import sentence
from fabric.core.texts.text import parse_json_object
from fabric.core.values.units import JSON

Kind = Literal[
    "name", "text", "prose", "code", "date", "integer", "number", "usd", "boolean", "choice", "reference", "picks", "order",
    "lines", "integers", "numbers", "json", "pairs", "parameters", "group", "items", "table",
]  # fmt: skip
"""Kinds of controls. ``picks``: any of some, ``order``: several of some in order; ``group``: named fields, ``items``: a
list of groups, ``table``: groups by key; ``pairs``: texts by key, ``parameters``: the schema of a tool's arguments.
"""
_GROUPED = re.compile(r"-?\d{1,3}([ _,]\d{3})+", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,300})(\.\d{1,300})?([eE][+-]?\d{1,3})?", re.ASCII)
_DOLLARS = re.compile(r"-?\d{1,20}(\.\d{1,20})?", re.ASCII)


# -- text to JSON ------------------------------------------------------------------------------------------------------


def read_integer(text: str) -> int:
    """Return a whole number; thousands may stand apart, as in ``20,000``."""
    found = text.strip()
    if _GROUPED.fullmatch(found):
        found = re.sub(r"[ _,]", "", found)
    parts = _NUMBER.fullmatch(found)
    if parts is None or parts[2] or parts[3]:
        raise ValueError("Give a whole number, such as 12.")
    return int(found)


def read_number(text: str) -> int | float:
    """Return a number, whole where it is written so."""
    found = text.strip()
    if not is_number(found):
        raise ValueError("Give a number, such as 12.5.")
    value: int | float = json.loads(found)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("This number is too large.")
    return value


def is_number(text: str) -> bool:
    """Return True for the text of one number."""
    return _NUMBER.fullmatch(text) is not None


def read_dollars(text: str) -> int:
    """Return an amount of dollars as micro-dollars. An amount of less than a micro-dollar does not fit."""
    found = text.strip().removeprefix("$").strip()
    if _DOLLARS.fullmatch(found):
        micros = Decimal(found) * 1_000_000
        if micros == micros.to_integral_value():
            return int(micros)
    raise ValueError("Give an amount of dollars, such as 12.50.")


def read_boolean(text: str) -> bool:
    """Return yes or no, as the control sends it."""
    if text not in ("true", "false"):
        raise ValueError("Pick yes or no.")
    return text == "true"


def read_date(text: str) -> str:
    """Return a day."""
    if not is_date(text):
        raise ValueError("Give a day such as 2026-12-04.")
    return text


def is_date(text: JSON) -> bool:
    """Return True for a day as forms have it."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except (TypeError, ValueError):
        return False


def read_lines(text: str) -> list[str]:
    """Return the lines of a text without those that are empty."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_integers(text: str) -> list[int]:
    """Return whole numbers between commas, blanks or line ends."""
    return [read_integer(part) for part in split(text)]


def read_numbers(text: str) -> list[int | float]:
    """Return numbers between commas, blanks or line ends."""
    return [read_number(part) for part in split(text)]


def split(text: str) -> list[str]:
    """Return the parts of a list between commas, blanks or line ends."""
    return [part for part in re.split(r"[,\s]+", text) if part]


def read_json(text: str) -> JSON:
    """Return a JSON value of any kind."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: line {error.lineno}, column {error.colno}: {error.msg.lower()}.") from None
    except (RecursionError, ValueError):
        raise ValueError("This JSON cannot be read: it is too deep, or a number in it is too long.") from None
    # The program's one strict reader reads objects: a value of any kind is read as the only one of an object.
    found, problem = parse_json_object(f'{{"value": {text}\n}}', strict=True)
    if found is None or list(found) != ["value"]:
        raise ValueError(sentence(problem))
    return found["value"]


# -- JSON to text ------------------------------------------------------------------------------------------------------


def plain(value: JSON) -> str:
    """Return a value on one line: texts as they are."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def dollars(micros: JSON) -> str:
    """Return micro-dollars as dollars, at least two places and no more than are needed."""
    if not isinstance(micros, int) or isinstance(micros, bool):
        return plain(micros)
    text = format((Decimal(micros) / 1_000_000).normalize(), "f")
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def _number(value: JSON) -> str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else plain(value)


def _indented(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _joined(by: str) -> Callable[[JSON], str]:
    return lambda value: by.join(map(plain, value)) if isinstance(value, list) else plain(value)


# -- the kinds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Control:
    """A kind of control."""

    drawn: str
    """Its template in ``templates/forms/controls``; empty for what holds other controls."""
    words: str
    """Its type, beside the label of a value that has no words of its own."""
    read: Callable[[str], JSON] = str
    """From its text, which is not empty."""
    show: Callable[[JSON], str] = plain
    """To its text, from a value that is not null."""
    empty: Callable[[], JSON] = str
    """Makes the smallest value."""
    keys: Literal["", "numeric", "decimal"] = ""
    """The keyboard that a phone offers."""
    mono: bool = False
    wrong: str = ""
    """End of the sentence on a text that does not fit, with an example. The text is its beginning."""


CONTROLS: Mapping[Kind, Control] = {
    "name": Control("line", "string", str.strip),
    "text": Control("line", "string"),
    "prose": Control("area", "string"),
    "code": Control("area", "string", mono=True),
    "date": Control("line", "date", read_date),
    "integer": Control(
        "line", "integer", read_integer, keys="numeric", wrong="is no whole number; give one such as 12"
    ),
    "number": Control(
        "line", "number", read_number, _number, keys="decimal", wrong="is no number; give one such as 12.5"
    ),
    "usd": Control(
        "line",
        "dollars",
        read_dollars,
        dollars,
        keys="decimal",
        wrong="is no amount of dollars; write it with a point, such as 12.50",
    ),
    "boolean": Control("select", "boolean", read_boolean),
    "choice": Control("select", "one of these"),
    "reference": Control("select", "one of these"),
    "picks": Control("picks", "any of these", empty=list),
    "order": Control("order", "some of these, in order", empty=list),
    "lines": Control("area", "list of strings, one a line", read_lines, _joined("\n"), list),
    "integers": Control("line", "list of integers", read_integers, _joined(", "), list),
    "numbers": Control("line", "list of numbers", read_numbers, _joined(", "), list),
    "json": Control("area", "JSON", read_json, _indented, dict, mono=True),
    "pairs": Control(
        "rows",
        "names with values",
        read_json,
        _indented,
        dict,
        mono=True,
        wrong='is no JSON of names and values; give one such as {"Authorization": "CRM_TOKEN"}',
    ),
    "parameters": Control("rows", "rows, or a JSON schema", read_json, _indented, dict, mono=True),
    "group": Control("", "object", empty=dict),
    "items": Control("", "list of objects", empty=list),
    "table": Control("", "object", empty=dict),
}
"""All that the program knows of a kind of control; total by test."""
SEVERAL = frozenset[Kind]({"picks", "order"})
"""Kinds whose answer is a list of picks."""
HOLDING = frozenset[Kind]({"group", "items", "table"})
"""Kinds that hold other controls."""
NUMBERS = frozenset[Kind]({"integer", "number", "usd"})


def leaf_kind(schema: Schema, named: str, items: Schema) -> Kind:
    """Return the kind of a value that holds no other controls. ``named``: its type; ``items``: the schema of its
    entries.
    """
    if options_of(schema):
        return "choice"
    if named == "array" and (picks := options_of(items)) and all(isinstance(one, str) for one in picks.values()):
        return "picks"
    if named == "string":
        return "date" if schema.get("format") == "date" else "text"
    return _KINDS.get(named if named != "array" else f"array of {items.get('type')}", "json")


_KINDS: Mapping[str, Kind] = {
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "array of string": "lines",
    "array of integer": "integers",
    "array of number": "numbers",
}


def options_of(schema: Schema) -> dict[str, JSON]:
    """Return the only values that a schema allows, by the texts that a control sends for them. Empty: they
    need JSON.
    """
    allowed = allowed_of(schema)
    found = {plain(one): one for one in allowed if not isinstance(one, dict | list)}
    return found if len(found) == len(allowed) and "" not in found else {}
