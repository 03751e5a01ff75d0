"""Reading a typed form back: what was sent becomes the value again, without losing its type. What was not touched gives back the very value that was shown."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from console.typed_fields import (
    ABSENT,
    JSON,
    Field,
    Kind,
    allowed_of,
    inferred,
    is_date,
    item_type,
    sentence_of,
    shown_in,
)
from fabric.core.text import parse_json_object


def fill(one: Field, data: Mapping[str, Any] | None, given: JSON) -> None:
    """What was sent, or what is to stand there."""
    if one.kind in ("group", "rows"):
        _fill_inside(one, data, given)
        return
    if data is None:
        one.value, one.now = given, shown_in(one, given)
        return
    sent = _lines(str(data.get(one.name, "")))
    if one.kind == "boolean" and not one.optional:
        sent = "true" if sent else "false"
    one.now = sent
    if sent == _lines(shown_in(one, one.was)) and _fits(one):
        one.value = one.was  # The very value, however it was written.
        return
    try:
        one.value = READ[one.kind](one, sent)
    except ValueError as problem:
        one.errors.append(str(problem))
        one.value = one.was


def _lines(text: str) -> str:
    """A text with the line ends that forms come back with."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fill_inside(one: Field, data: Mapping[str, Any] | None, given: JSON) -> None:
    if one.kind == "group":
        for each in one.fields:
            fill(each, data, given.get(each.path[-1], ABSENT) if isinstance(given, dict) else ABSENT)
        one.value = object_of(one.fields, one.was)
        return
    listed = given if isinstance(given, list) else []
    for place, each in enumerate(one.fields):
        fill(each, data, listed[place] if place < len(listed) else ABSENT)
    entries = [each.value for each in one.fields if each.value is not ABSENT]
    stays_away = not entries and not isinstance(one.was, list) and not (one.was is ABSENT and one.required)
    one.value = given if data is None else one.was if stays_away else entries


def _fits(one: Field) -> bool:
    """Whether what was shown is of the field's type at all: only then it may stay as it was."""
    if one.was is ABSENT:
        return not one.required
    kinds: Mapping[str, str] = {
        "text": "string",
        "long": "string",
        "date": "string",
        "integer": "integer",
        "boolean": "boolean",
    }
    if one.was is None:
        return one.nullable
    return one.kind == "choice" or one.kind not in kinds or inferred(one.was) == kinds[one.kind]


def _nothing(one: Field) -> JSON:
    """What an emptied field means."""
    if one.was is None and one.nullable:
        return None
    if not one.required:
        return ABSENT
    if one.nullable:
        return None
    raise ValueError("This has to be given.")


def _read_text(one: Field, sent: str) -> JSON:
    if sent or (isinstance(one.was, str) and one.kind != "date"):
        return sent
    return _nothing(one)


def _read_date(one: Field, sent: str) -> JSON:
    if sent and not is_date(sent):
        raise ValueError("Give a day such as 2026-12-04.")
    return sent or _nothing(one)


NUMBER = re.compile(r"-?(0|[1-9]\d{0,300})(\.\d{1,300})?([eE][+-]?\d{1,3})?")


def _number(sent: str, *, whole: bool) -> JSON:
    text = sent.strip()
    found = NUMBER.fullmatch(text)
    if found is None or (whole and (found[2] or found[3])):
        raise ValueError("Give a whole number, such as 12." if whole else "Give a number, such as 12.5.")
    value = json.loads(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("This number is too large.")
    return value


def _read_integer(one: Field, sent: str) -> JSON:
    return _number(sent, whole=True) if sent.strip() else _nothing(one)


def _read_number(one: Field, sent: str) -> JSON:
    return _number(sent, whole=False) if sent.strip() else _nothing(one)


def _read_boolean(one: Field, sent: str) -> JSON:
    return sent == "true" if sent in ("true", "false") else _nothing(one)


def _read_choice(one: Field, sent: str) -> JSON:
    allowed = allowed_of(one.schema)
    if sent.isascii() and sent.isdecimal() and len(sent) < 6 and int(sent) < len(allowed):
        return allowed[int(sent)]
    if one.required and not one.nullable:
        raise ValueError("Pick one of these.")
    return _nothing(one)


def _read_list(one: Field, sent: str) -> JSON:
    lines, kind = [line.strip() for line in sent.split("\n") if line.strip()], item_type(one.schema, one.was)
    if not lines and one.was is ABSENT and not one.required:
        return ABSENT
    return lines if kind == "string" else [_number(line, whole=kind == "integer") for line in lines]


def _read_json(one: Field, sent: str) -> JSON:
    if not sent.strip():
        return _nothing(one)
    try:
        json.loads(sent)
    except json.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: line {error.lineno}, column {error.colno}: {error.msg.lower()}.") from None
    except (RecursionError, ValueError):
        raise ValueError("This JSON cannot be read: it is too deep, or a number in it is too long.") from None
    # The program's one strict reader reads objects: a value of any kind is read as the only one of an object.
    found, problem = parse_json_object(f'{{"value": {sent}\n}}', strict=True)
    if found is None or list(found) != ["value"]:
        raise ValueError(sentence_of(problem))
    return found["value"]


READ: Mapping[Kind, Callable[[Field, str], JSON]] = {
    "text": _read_text,
    "long": _read_text,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "choice": _read_choice,
    "date": _read_date,
    "list": _read_list,
    "json": _read_json,
}
"""How each kind of field is read, but for groups and rows; total by test. ValueError: a sentence."""


def object_of(fields: list[Field], was: JSON = None) -> dict[str, JSON]:
    """The object that fields make, its parts in the order in which they were shown, then those that are new."""
    made = {one.path[-1]: one.value for one in fields if one.value is not ABSENT}
    shown = [name for name in was if name in made] if isinstance(was, dict) else []
    return {name: made[name] for name in dict.fromkeys([*shown, *made])}
