"""Fields of a typed form: what kind a part of a JSON value is, what stands in its field, and how that is read back without losing its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from console.typed_rows import PARTS_MAX, ROWS_MAX, parts

JSON = Any
Kind = Literal["text", "long", "integer", "number", "boolean", "choice", "date", "list", "json", "group", "rows"]
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
    """Of a group its parts, of rows its entries, which are groups, or JSON."""
    key: str = ""
    """Of an entry of rows."""
    why: str = ""
    """Why it is written as JSON; empty: nothing says why."""
    errors: list[str] = field(default_factory=list)
    value: JSON = ABSENT

    @property
    def changed(self) -> bool:
        """Whether it is another value than was shown."""
        return not same(self.value, self.was)

    @property
    def said(self) -> str:
        """Its type in words, with the bounds that the schema gives."""
        bounds = (said.format(self.schema[key]) for key, said in BOUNDS.items() if key in self.schema)
        return ", ".join([_type_words(self), *([self.why] if self.why else []), *bounds])

    @property
    def keys(self) -> tuple[str, ...]:
        """Of rows, the keys of its entries in their order."""
        return tuple(one.key for one in self.fields)

    @property
    def order(self) -> str:
        """The same as the form sends it."""
        return ",".join(self.keys)

    @property
    def moved(self) -> bool:
        """Of rows, whether they are others, or in another order, than were shown."""
        shown = self.was if isinstance(self.was, list) else []
        return self.kind == "rows" and self.keys != tuple(str(n) for n in range(len(shown)))

    @property
    def full(self) -> bool:
        """Of rows, whether there can be no more of them."""
        return self.filled(len(self.fields))

    def filled(self, count: int) -> bool:
        """Whether so many rows are all that there can be."""
        most = self.schema.get("maxItems")
        return count >= (min(most, ROWS_MAX) if isinstance(most, int) else ROWS_MAX)

    @property
    def new(self) -> bool:
        """Of an entry of rows, whether it was added."""
        return bool(self.key) and not self.key.isdigit()

    @property
    def inner(self) -> list[Field]:
        """Of an entry of rows, what is shown of it: its parts, or itself."""
        return self.fields if self.kind == "group" else [self]

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
        return self.kind in ("long", "list", "json", "group", "rows")


BOUNDS: Mapping[str, str] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "characters: {} or more",
    "maxLength": "characters: {} at most",
    "pattern": "matching {}",
    "minItems": "entries: {} or more",
    "maxItems": "entries: {} at most",
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
    if json_why(schema):
        return "json"
    real = [one for one in types if one != "null"]
    named = real[0] if len(real) == 1 else "" if real else inferred(was)
    if isinstance(was, dict | list) != (named in ("object", "array")) and was is not ABSENT and was is not None:
        return "json"
    if named == "string":
        return _string_kind(schema, was)
    if named == "object":
        return "group" if isinstance(was, dict) and was else "json"
    if named == "array":
        return "list" if _lines(schema, was) else "rows" if _objects(schema, was) else "json"
    return named if named in ("integer", "number", "boolean") else "json"  # type: ignore[return-value]


def json_why(schema: Mapping[str, JSON]) -> str:
    """Why a part that no other field fits is written as JSON, as its schema has it; empty: it does not say."""
    if any(isinstance(schema.get(key), list) for key in ("anyOf", "oneOf", "allOf")) and not allowed_of(schema):
        return "one of several shapes"
    if len([one for one in types_of(schema) if one != "null"]) > 1:
        return "of several types"
    items = schema.get("items")
    return "its entries one of several shapes" if isinstance(items, dict) and json_why(items) else ""


def _objects(schema: Mapping[str, JSON], was: JSON) -> bool:
    """Whether all entries of a list are objects with parts of their own, and not too many for fields."""
    entries = was if isinstance(was, list) else []
    if len(entries) > ROWS_MAX or parts(entries) > PARTS_MAX or not all(isinstance(one, dict) for one in entries):
        return False
    found = schema.get("items")
    items: Mapping[str, JSON] = found if isinstance(found, dict) else {}
    if json_why(items) or {*types_of(items)} - {"object", "null"}:
        return False
    return any(entries) or isinstance(items.get("properties"), dict)


def _string_kind(schema: Mapping[str, JSON], was: JSON) -> Kind:
    if isinstance(was, str) and "\0" in was:
        return "json"  # No field of a page carries it.
    if schema.get("format") == "date" and (was in (ABSENT, None, "") or is_date(was)):
        return "date"
    lines = isinstance(was, str) and (len(was) > LONG_CHARS or "\n" in was or "\r" in was)
    return "long" if lines else "text"


def inferred(was: JSON) -> str:
    """The type that a value has, as schemas call it; empty: null."""
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


def item_type(schema: Mapping[str, JSON], was: JSON) -> str:
    """The type that all entries of a list have; empty: there is none that a line can be read as."""
    items = schema.get("items")
    named = types_of(items) if isinstance(items, dict) and "enum" not in items else []
    if isinstance(was, list) and was:
        found = {inferred(one) for one in was}
        if found <= {"integer", "number"} and named != ["integer"]:
            found = {"number"} if named == ["number"] or len(found) > 1 else found
        named = [*found] if not named or set(named) == found else []
    return named[0] if len(named) == 1 and named[0] in ("string", "integer", "number") else ""


def _lines(schema: Mapping[str, JSON], was: JSON) -> bool:
    entries = was if isinstance(was, list) else []
    broken = any(
        isinstance(one, str) and (one != one.strip() or not one or {*one} & {"\n", "\r", "\0"}) for one in entries
    )
    return bool(item_type(schema, was)) and not broken


def is_date(text: JSON) -> bool:
    """Whether a value is a day as forms have it."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except (TypeError, ValueError):
        return False


def _type_words(one: Field) -> str:
    words = {
        "text": "string",
        "long": "string",
        "choice": "one of these",
        "list": f"list of {item_type(one.schema, one.was)}s, one a line",
        "json": "JSON",
        "group": "object",
        "rows": "list of objects",
    }
    return words.get(one.kind, one.kind)


# -- what stands in a field -----------------------------------------------------------------------------------------------------------


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


def sentence_of(text: str) -> str:
    """A remark as a sentence."""
    shown = text[:1].upper() + text[1:]
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."
