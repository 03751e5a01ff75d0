"""Describes a part of a JSON value: its words, and the control that fits its schema and value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.forms.controls.fields import MISSING, Missing
from console.forms.controls.kinds import CONTROLS, Kind, is_date, leaf_kind, options_of
from console.forms.controls.schemas import SEVERAL, Schema, properties_of, types_of
from fabric.core.values.units import JSON

ROWS_MAX = 60
"""Largest number of items of one list; a longer one is written as JSON."""
PARTS_MAX = 400
"""Parts of all lists of one form together: browsers and servers take so many fields."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the value, before its control is chosen."""

    schema: Schema
    value: JSON
    was: JSON
    path: str
    label: str
    required: bool
    depth: int
    in_rows: bool

    @property
    def known(self) -> JSON:
        """Return the value that says its type, where the schema does not."""
        return self.value if isinstance(self.was, Missing) else self.was


def kind_of(one: Part) -> Kind:
    """Return the kind of control that fits; ``json`` fits everything."""
    real = [name for name in types_of(one.schema) if name != "null"]
    named = real[0] if len(real) == 1 else "" if real else inferred(one.known)
    if options_of(one.schema):
        kind: Kind = "choice"
    elif json_why(one.schema):
        kind = "json"
    elif named == "object":
        begun = one.in_rows and one.required and (isinstance(one.known, Missing) or one.known == {})
        kind = "group" if begun or (isinstance(one.known, dict) and one.known) else "json"
    elif named == "array":
        kind = _list_kind(one.schema.get("items") or {}, one.known if isinstance(one.known, list) else [])
    else:
        kind = leaf_kind(one.schema, named, {})
    kind = "text" if kind == "date" and not all(map(_is_day, (one.value, one.was))) else kind
    return kind if all(_holds(kind, one.schema, each) for each in (one.value, one.was)) else "json"


def _list_kind(items: Schema, entries: list[JSON]) -> Kind:
    few = len(entries) <= ROWS_MAX and parts(entries) <= PARTS_MAX and all(isinstance(one, dict) for one in entries)
    if not {*types_of(items)} - {"object", "null"} and few and (any(entries) or properties_of(items)):
        return "json" if json_why(items) else "items"
    types = {inferred(one) for one in entries}
    same = "number" if types == {"integer", "number"} else next(iter(types), "") if len(types) == 1 else ""
    return leaf_kind({}, "array", items if types_of(items) or items.get("enum") else {"type": same})


def _is_day(value: JSON) -> bool:
    return value in (MISSING, None, "") or is_date(value)


def _holds(kind: Kind, schema: Schema, value: JSON) -> bool:
    """Return True where a control of a kind can show a value and give it back."""
    if isinstance(value, Missing) or value is None or kind == "json":
        return True
    if kind == "group":
        return isinstance(value, dict)
    if isinstance(value, list):
        twice = kind == "picks" and len(set(map(str, value))) < len(value)
        return kind in _ENTRIES and not twice and all(_ENTRIES[kind](one, schema) for one in value)
    return not isinstance(value, dict) and kind not in _ENTRIES and not (isinstance(value, str) and "\0" in value)


def _is_line(value: JSON, schema: Schema) -> bool:
    return isinstance(value, str) and value == value.strip() != "" and not {*value} & {"\n", "\r", "\0"}


_ENTRIES: Mapping[Kind, Callable[[JSON, Schema], bool]] = {
    "items": lambda value, schema: True,
    "lines": _is_line,
    "integers": lambda value, schema: type(value) is int,
    "numbers": lambda value, schema: type(value) in (int, float),
    "picks": lambda value, schema: value in options_of(schema["items"]),
}
"""The entries that a control of several can show and give back."""


def json_why(schema: Schema) -> str:
    """Return why a part is written as JSON, by its schema; empty where the schema does not say."""
    if any(isinstance(schema.get(key), list) for key in SEVERAL) and not options_of(schema):
        return "one of several shapes"
    if len([one for one in types_of(schema) if one != "null"]) > 1:
        return "of several types"
    items = schema.get("items")
    return "its entries one of several shapes" if isinstance(items, dict) and json_why(items) else ""


def inferred(value: JSON) -> str:
    """Return the type of a value in the words of schemas; empty for null, and for nothing."""
    return _TYPES.get(type(value), "")


_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}


def parts(value: JSON) -> int:
    """Return how many parts a value has that are no lists or objects."""
    if isinstance(value, dict):
        return 1 + sum(parts(one) for one in value.values())
    return 1 + sum(parts(one) for one in value) if isinstance(value, list) else 1


def describe(entries: list[JSON]) -> Schema:
    """Return a schema for objects that have none: their parts, each with its type where that is always one."""
    objects = [one for one in entries if isinstance(one, dict)]
    names = list(dict.fromkeys(name for one in objects for name in one))
    types = {name: {inferred(one[name]) for one in objects if name in one} for name in names}
    return {
        "type": "object",
        "properties": {
            name: {"type": next(iter(kinds))} if len(kinds) == 1 and kinds != {""} else {}
            for name, kinds in types.items()
        },
        "required": [name for name in names if all(name in one for one in objects)],
    }


# -- words -------------------------------------------------------------------------------------------------------------

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


def words_of(one: Part, kind: Kind) -> str:
    """Return a type in words, with the bounds that the schema gives."""
    any_shape = "" if types_of(one.schema) else "of any shape"
    why = (json_why(one.schema) or any_shape) if kind == "json" else ""
    bounds = (said.format(one.schema[key]) for key, said in BOUNDS.items() if key in one.schema)
    return ", ".join(filter(None, [CONTROLS[kind].words, why, *bounds]))


def help_of(one: Part) -> str:
    """Return the description that the schema gives."""
    return str(one.schema.get("description", ""))
