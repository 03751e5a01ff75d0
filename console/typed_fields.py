"""Fields of a typed form: what kind a part of a JSON value is, what stands in its field, and how that is read back without losing its type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from fabric.core.text import parse_json_object

JSON = Any
Kind = Literal["text", "long", "integer", "number", "boolean", "choice", "date", "list", "json", "group"]
SCALARS = ("string", "integer", "number", "boolean")
LONG_CHARS = 72
"""A text of more characters gets more than one line."""


class Absent:
    """A part that is not there: another thing than null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


@dataclass(slots=True)
class Field:
    """One part of the value."""

    name: str
    """In the form."""
    label: str
    path: tuple[str, ...]
    kind: Kind
    schema: Mapping[str, JSON]
    required: bool
    nullable: bool
    was: JSON
    """What is shown; ``ABSENT`` where it is not there."""
    now: str = ""
    """What stands in the form."""
    choices: tuple[tuple[str, str], ...] = ()
    """What is sent, and its word."""
    fields: list[Field] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    value: JSON = ABSENT

    @property
    def changed(self) -> bool:
        """Whether it is another value than was shown."""
        return not same(self.value, self.was)

    @property
    def said(self) -> str:
        """Its type in words, with the bounds that the schema gives."""
        return ", ".join(
            [_type_words(self), *(f"{word} {self.schema[key]}" for key, word in BOUNDS.items() if key in self.schema)]
        )

    @property
    def help(self) -> str:
        """What the schema says of it."""
        return str(self.schema.get("description", ""))

    @property
    def before(self) -> str:
        """What was shown, on one line."""
        return "not given" if self.was is ABSENT else text_of(self.was) or "empty"

    @property
    def optional(self) -> bool:
        """Of yes or no: whether there is a third answer, which a box has not."""
        return self.was is ABSENT or self.was is None

    @property
    def stood(self) -> str:
        """What stood in the form at first."""
        return shown_in(self, self.was)

    @property
    def rows(self) -> int:
        """Lines that it gets on the page."""
        return min(14, max(3, self.now.count("\n") + 1 + len(self.now) // 90))

    @property
    def wide(self) -> bool:
        """Whether it takes the whole width."""
        return self.kind in ("long", "list", "json", "group")


BOUNDS: Mapping[str, str] = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "pattern": "matching",
}
"""Keywords of a schema that are said, and how."""


def same(one: JSON, other: JSON) -> bool:
    """Whether two values are the same JSON: 1, 1.0 and true are three things."""
    if one is ABSENT or other is ABSENT:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def types_of(schema: Mapping[str, JSON]) -> list[str]:
    """The types that a schema names."""
    named = schema.get("type")
    listed = named if isinstance(named, list) else [named]
    found = [one for one in listed if isinstance(one, str)]
    return [*found, "null"] if schema.get("x-null") else found


def allowed_of(schema: Mapping[str, JSON]) -> list[JSON]:
    """The only values that a schema allows; empty: it lists none."""
    if "const" in schema:
        return [schema["const"]]
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else []


def kind_of(schema: Mapping[str, JSON], types: list[str], was: JSON) -> Kind:
    """What field fits; ``json`` fits everything."""
    allowed = allowed_of(schema)
    if allowed and not any(isinstance(one, dict | list) for one in allowed):
        return "choice"
    real = [one for one in types if one != "null"]
    named = real[0] if len(real) == 1 else "" if real else _inferred(was)
    if isinstance(was, dict | list) != (named in ("object", "array")) and was is not ABSENT and was is not None:
        return "json"
    if named == "string":
        return _string_kind(schema, was)
    if named == "object":
        return "group" if isinstance(was, dict) and was else "json"
    if named == "array":
        return "list" if _lines(schema, was) else "json"
    return named if named in ("integer", "number", "boolean") else "json"  # type: ignore[return-value]


def _string_kind(schema: Mapping[str, JSON], was: JSON) -> Kind:
    if schema.get("format") == "date" and (was in (ABSENT, None, "") or _is_date(was)):
        return "date"
    return "long" if isinstance(was, str) and (len(was) > LONG_CHARS or "\n" in was) else "text"


def _inferred(was: JSON) -> str:
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (dict, "object"),
        (list, "array"),
    ):
        if isinstance(was, kind):
            return name
    return ""


def _item_type(schema: Mapping[str, JSON], was: JSON) -> str:
    """The type that all entries of a list have; empty: there is none that a line can be read as."""
    items = schema.get("items")
    named = types_of(items) if isinstance(items, dict) and "enum" not in items else []
    if isinstance(was, list) and was:
        inferred = {_inferred(one) for one in was}
        if inferred <= {"integer", "number"} and named != ["integer"]:
            inferred = {"number"} if named == ["number"] or len(inferred) > 1 else inferred
        named = [*inferred] if not named or set(named) == inferred else []
    return named[0] if len(named) == 1 and named[0] in ("string", "integer", "number") else ""


def _lines(schema: Mapping[str, JSON], was: JSON) -> bool:
    entries = was if isinstance(was, list) else []
    broken = any(
        isinstance(one, str) and (one != one.strip() or not one or "\n" in one or "\r" in one) for one in entries
    )
    return bool(_item_type(schema, was)) and not broken


def _is_date(text: JSON) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except (TypeError, ValueError):
        return False


def _type_words(one: Field) -> str:
    words = {
        "text": "string",
        "long": "string",
        "choice": "one of these",
        "list": f"list of {_item_type(one.schema, one.was)}s, one a line",
        "json": "JSON",
        "group": "object",
    }
    return words.get(one.kind, one.kind)


# -- filling -----------------------------------------------------------------------------------------------------------


def text_of(value: JSON) -> str:
    """A value as it stands in a field."""
    if value is ABSENT or value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def shown_in(one: Field, value: JSON) -> str:
    """A value as it stands in a field's own kind of control."""
    if one.kind == "choice":
        fits = [sent for (sent, _), each in zip(one.choices, allowed_of(one.schema), strict=True) if same(each, value)]
        return fits[0] if fits else ""
    if one.kind == "list" and isinstance(value, list):
        return "\n".join(text_of(each) for each in value)
    if one.kind == "json" and value is not ABSENT:
        return json.dumps(value, ensure_ascii=False, indent=2)
    return text_of(value)


def fill(one: Field, data: Mapping[str, Any] | None, given: JSON) -> None:
    """What was sent, or what is to stand there."""
    if one.kind == "group":
        for each in one.fields:
            fill(each, data, given.get(each.path[-1], ABSENT) if isinstance(given, dict) else ABSENT)
        one.value = object_of(one.fields)
        return
    if data is None:
        one.value, one.now = given, shown_in(one, given)
        return
    sent = str(data.get(one.name, "")).replace("\r\n", "\n")
    if one.kind == "boolean" and not one.optional:
        sent = "true" if sent else "false"
    one.now = sent
    if sent == shown_in(one, one.was).replace("\r\n", "\n") and _fits(one):
        one.value = one.was  # The very value, however it was written.
        return
    try:
        one.value = READ[one.kind](one, sent)
    except ValueError as problem:
        one.errors.append(str(problem))
        one.value = one.was


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
    return one.kind == "choice" or one.kind not in kinds or _inferred(one.was) == kinds[one.kind]


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
    if sent and not _is_date(sent):
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
    lines, kind = [line.strip() for line in sent.split("\n") if line.strip()], _item_type(one.schema, one.was)
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
"""How each kind of field is read, but for groups; total by test. ValueError: a sentence."""


def object_of(fields: list[Field]) -> dict[str, JSON]:
    """The object that fields make."""
    return {one.path[-1]: one.value for one in fields if one.value is not ABSENT}


def sentence_of(text: str) -> str:
    """A remark as a sentence."""
    shown = text[:1].upper() + text[1:]
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."
