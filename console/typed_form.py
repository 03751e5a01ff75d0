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
    fill,
    kind_of,
    object_of,
    sentence_of,
    text_of,
    types_of,
)

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
        self._left = FIELDS_MAX
        self.fields = self._fields(self._resolved(self._root), shown, "e", (), 0) if isinstance(shown, dict) else []
        if self._left < 0:  # Too many to be looked through one by one.
            self.fields = []
        self.problems: list[str] = []
        """What is wrong with it as a whole."""
        sent = data is not None and bool(data.get(MARK))
        for one in self.fields:
            fill(
                one,
                data if sent and data is not None else None,
                given.get(one.path[-1], ABSENT) if isinstance(given, dict) else one.was,
            )

    @property
    def leaves(self) -> list[Field]:
        """Every field that is no group."""
        return _leaves(self.fields)

    @property
    def value(self) -> dict[str, JSON]:
        """The object as it stands in the form; only what has no errors is worth asking."""
        return object_of(self.fields)

    @property
    def wrong(self) -> bool:
        """Whether anything in it has an error."""
        return bool(self.problems) or any(one.errors for one in [*self.leaves, *self.fields])

    @property
    def changed(self) -> int:
        """How many fields have another value than was shown."""
        return sum(one.changed for one in self.leaves)

    def blame(self, problems: list[str]) -> None:
        """Puts what a schema's check said at the fields that it is about: ``path.to.field: what is wrong``; the rest at the form."""
        for problem in problems:
            place, colon, rest = problem.partition(": ")
            path = tuple(part for part in re.split(r"[./\[\]]+", place) if part)
            fits = [one for one in self.leaves if colon and path[: len(one.path)] == one.path]
            (fits[0].errors if fits else self.problems).append(sentence_of(rest if fits else problem))

    # -- building ------------------------------------------------------------------------------------------------------

    def _fields(
        self, schema: Mapping[str, JSON], shown: JSON, prefix: str, path: tuple[str, ...], depth: int
    ) -> list[Field]:
        named = schema.get("properties")
        properties: dict[str, JSON] = dict(named) if isinstance(named, dict) else {}
        listed = schema.get("required")
        required = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()
        found = []
        for number, name in enumerate([*properties, *(key for key in shown if key not in properties)]):
            self._left -= 1
            if self._left < 0:
                return []
            part, was = self._resolved(properties.get(name, {})), shown.get(name, ABSENT)
            found.append(self._field(part, was, f"{prefix}-{number}", (*path, name), name in required, depth))
        return found

    def _field(
        self, schema: Mapping[str, JSON], was: JSON, name: str, path: tuple[str, ...], required: bool, depth: int
    ) -> Field:
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
        if one.kind == "choice":
            one.choices = tuple((str(n), text_of(each)) for n, each in enumerate(allowed_of(schema)))
        elif one.kind == "group":
            inside = self._fields(schema, was, name, path, depth + 1) if depth < DEPTH_MAX else []
            one.kind, one.fields = ("group", inside) if inside else ("json", [])
        return one

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


def _leaves(fields: list[Field]) -> list[Field]:
    return [leaf for one in fields for leaf in (_leaves(one.fields) if one.kind == "group" else [one])]
