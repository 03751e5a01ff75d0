"""A form for a JSON value, made from its JSON schema and from the value that is shown: types are kept on the way back.

Every part of the value is one field, or a group of them; what fits no field is written as JSON. A field whose text is what stood in it gives back
the very value that was shown, byte for byte; any other text is read as the field's type. Where no schema says what a part is, the value does.
Names of fields are positions and come from schema and value alone, so that the form that was sent is the form that was shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from console.typed_fields import (
    ABSENT,
    JSON,
    Field,
    allowed_of,
    inferred,
    json_why,
    kind_of,
    sentence_of,
    text_of,
    types_of,
)
from console.typed_reading import fill, object_of
from console.typed_rows import KEYS, PARTS_MAX, acted, described, keys_at_first, keys_sent, press_of

DEPTH_MAX = 4
FIELDS_MAX = 60
"""Of one form; a value with more parts is written as JSON."""
REFS_MAX = 8
LABEL_CHARS_MAX = 80
MARK = "typed"
"""Name of the hidden field that says that the form was sent: a box that is not ticked sends nothing."""


class TypedForm:
    """The form of one object. ``data``: what was sent; ``given``: a value that is to stand in it, where that is another than is shown."""

    def __init__(
        self, schema: Mapping[str, JSON] | None, shown: JSON, data: Mapping[str, Any] | None = None, given: JSON = None
    ) -> None:
        self.shown = shown
        self._root: Mapping[str, JSON] = schema or {}
        self._left, self._left_in_rows, self._in_rows = FIELDS_MAX, PARTS_MAX, 0
        self._data = data if data is not None and data.get(MARK) else None
        self._press = press_of(self._data)
        self.problems: list[str] = []
        """What is wrong with it as a whole."""
        given = given if isinstance(given, dict) else shown
        top = self._resolved(self._root)
        self.fields = self._fields(top, shown, "e", (), 0, given) if isinstance(shown, dict) else []
        if self._left < 0:  # Too many to be looked through one by one.
            self.fields = []
        for one in self.fields:
            fill(one, self._data, given.get(one.path[-1], ABSENT))
        if self._press[0] is not None:
            for one in self.leaves:  # Whoever adds a row has not come to writing it.
                one.errors = one.errors if one.now.strip() else []

    @property
    def leaves(self) -> list[Field]:
        """Every field that is no group, and no rows."""
        return [one for one in self.all if one.kind not in ("group", "rows")]

    @property
    def all(self) -> list[Field]:
        """Every field, those that hold others before what they hold."""
        return _all(self.fields)

    @property
    def value(self) -> dict[str, JSON]:
        """The object as it stands in the form; only what has no errors is worth asking."""
        return object_of(self.fields, self.shown)

    @property
    def wrong(self) -> bool:
        """Whether anything in it has an error."""
        return bool(self.problems) or any(one.errors for one in self.all)

    @property
    def changed(self) -> int:
        """How many fields have another value than was shown, and how many lists other rows."""
        return sum(one.changed for one in self.leaves) + sum(one.moved for one in self.all)

    @property
    def rows(self) -> bool:
        """Whether there are rows in it, which buttons of their own change."""
        return any(one.kind == "rows" for one in self.all)

    def blame(self, problems: list[str]) -> None:
        """Puts what a schema's check said at the fields that it is about: ``path.to.field: what is wrong``; the rest at the form."""
        for problem in problems:
            place, colon, rest = problem.partition(": ")
            path = tuple(part for part in re.split(r"[./\[\]]+", place) if part)
            fits = [one for one in self.all if colon and path[: len(one.path)] == one.path]
            nearest = max(fits, key=lambda one: len(one.path), default=None)
            (nearest.errors if nearest else self.problems).append(sentence_of(rest if nearest else problem))

    # -- building ------------------------------------------------------------------------------------------------------

    def _fields(
        self, schema: Mapping[str, JSON], shown: JSON, prefix: str, path: tuple[str, ...], depth: int, given: JSON
    ) -> list[Field]:
        named = schema.get("properties")
        properties: dict[str, JSON] = dict(named) if isinstance(named, dict) else {}
        listed = schema.get("required")
        required = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()
        found = []
        there = shown if isinstance(shown, dict) else {}
        for number, name in enumerate([*properties, *(key for key in there if key not in properties)]):
            self._left -= not self._in_rows
            self._left_in_rows -= bool(self._in_rows)
            if self._left < 0:
                return []
            part, was = self._resolved(properties.get(name, {})), there.get(name, ABSENT)
            here = given.get(name, ABSENT) if isinstance(given, dict) else ABSENT
            found.append(self._field(part, was, f"{prefix}-{number}", (*path, name), name in required, depth, here))
        return found

    def _field(
        self,
        schema: Mapping[str, JSON],
        was: JSON,
        name: str,
        path: tuple[str, ...],
        required: bool,
        depth: int,
        given: JSON,
    ) -> Field:
        if isinstance(schema.get("items"), dict):
            schema = {**schema, "items": self._resolved(schema["items"])}
        types = types_of(schema)
        one = Field(
            name=name,
            label=path[-1][:LABEL_CHARS_MAX],
            path=path,
            kind=kind_of(schema, types, was),
            schema=schema,
            required=required,
            nullable="null" in types or was is None,
            was=was,
        )
        if one.kind == "json" and was is ABSENT and required and self._in_rows and types == ["object"]:
            one.kind = "group"  # Of a row that is new, whose schema says what it has.
        if one.kind == "choice":
            one.choices = tuple((str(n), text_of(each)) for n, each in enumerate(allowed_of(schema)))
        elif one.kind == "group":
            inside = self._fields(schema, was, name, path, depth + 1, given) if depth < DEPTH_MAX else []
            one.kind, one.fields = ("group", inside) if inside else ("json", [])
        elif one.kind == "rows" and depth < DEPTH_MAX:
            self._rows(one, given, depth)
        elif one.kind == "rows":
            one.kind = "json"
        if one.kind == "json":
            one.why = json_why(schema) or ("of any shape" if not types else "")
        return one

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _rows(self, one: Field, given: JSON, depth: int) -> None:
        """Fills a list of objects with its entries: those that were sent, or those that stand there at first."""
        shown = one.was if isinstance(one.was, list) else []
        items = self._resolved(one.schema.get("items", {}))
        if not isinstance(items.get("properties"), dict):
            items = {**items, **described(shown, inferred)}
        self._in_rows += 1
        for place, key in enumerate(self._keys(one, shown, given)):
            was = shown[int(key)] if key.isdigit() else ABSENT
            here = given[place] if isinstance(given, list) and place < len(given) else ABSENT
            path, name = (*one.path, str(place)), f"{one.name}-{key}"
            row = self._field({} if key.startswith("j") else items, was, name, path, True, depth + 1, here)
            row.key, row.label = key, f"{one.label} {place + 1}"[:LABEL_CHARS_MAX]
            one.fields.append(row)
        self._in_rows -= 1

    def _keys(self, one: Field, shown: list[JSON], given: JSON) -> tuple[str, ...]:
        if self._data is None:
            return keys_at_first(shown, given if isinstance(given, list) else [])
        try:
            keys = keys_sent(str(self._data.get(one.name + KEYS, "")), len(shown))
        except ValueError as problem:
            one.errors.append(str(problem))
            return tuple(str(n) for n in range(len(shown)))
        act, name, key = self._press
        if act is None or name != one.name or (act == "add" and (one.filled(len(keys)) or self._left_in_rows <= 0)):
            return keys
        return acted(keys, act, key)

    def _resolved(self, schema: JSON) -> Mapping[str, JSON]:
        """A schema without references, and without choices of which only one is not null."""
        for _ in range(REFS_MAX):
            if not isinstance(schema, dict):
                return {}
            if isinstance(schema.get("$ref"), str):
                schema = {**_at(self._root, schema["$ref"]), **{k: v for k, v in schema.items() if k != "$ref"}}
                continue
            several = next(
                (schema[key] for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list)), None
            )
            real = [one for one in several or [] if isinstance(one, dict) and one.get("type") != "null"]
            if len(real) != 1:
                return schema
            rest = {key: each for key, each in schema.items() if key not in ("anyOf", "oneOf", "allOf")}
            null = {"x-null": True} if several and len(real) != len(several) else {}
            schema = {**real[0], **rest, **null}
        return {}


def _at(root: Mapping[str, JSON], ref: str) -> dict[str, JSON]:
    found: JSON = root
    for part in ref.removeprefix("#").split("/"):
        if part:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) and ref.startswith("#") else {}


def _all(fields: list[Field]) -> list[Field]:
    return [each for one in fields for each in (one, *_all(one.fields))]
