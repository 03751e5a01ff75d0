"""Values that fit a JSON Schema: the arguments of a tool that is on offer, and answers in the form that is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

JSON = Any

DEPTH_MAX = 12
"""Of schemas within schemas; one that contains itself ends there."""
FITS: Mapping[str, JSON] = {"boolean": False, "null": None}
OF_A_FORMAT: Mapping[str, str] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "somebody@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000001",
}
"""What a text of this form is, whatever the words are."""


def arguments(parameters: Mapping[str, JSON], words: str) -> dict[str, JSON]:
    """What a tool requires, the words wherever it takes text; where nothing that it requires takes text, in the first field that does."""
    made = value({"type": "object", **parameters}, words)
    if "required" in parameters and words not in json.dumps(made, ensure_ascii=False):
        for name, field in _properties(parameters).items():
            if name not in made and value(field, words, root=parameters) == words:
                return {**made, name: words}
    return dict(made)


def value(schema: JSON, words: str, *, root: Mapping[str, JSON] | None = None, depth: int = 0) -> JSON:
    """A value that fits the schema, the words wherever it takes text. Patterns and negations are not looked at; no schema at all takes the words."""
    if not isinstance(schema, Mapping) or depth > DEPTH_MAX:
        return words
    root = schema if root is None else root
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = _kind(schema)
    if kind in FITS:
        return FITS[kind]
    if kind in ("integer", "number"):
        return _number(schema, whole=kind == "integer")
    if kind == "array":
        inner = schema.get("items") or {}
        return [value(inner, words, root=root, depth=depth + 1) for _ in range(int(schema.get("minItems", 0)))]
    if kind == "object":
        fields = _properties(schema)
        return {
            name: value(fields.get(name, {}), words, root=root, depth=depth + 1)
            for name in schema.get("required", fields)
        }
    return _text(schema, words)


def _properties(schema: Mapping[str, JSON]) -> Mapping[str, JSON]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _resolved(schema: Mapping[str, JSON], root: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The schema with its reference followed and its first alternative taken."""
    for _ in range(DEPTH_MAX):
        if isinstance(schema.get("$ref"), str):
            schema = {**_referred(schema["$ref"], root), **{key: at for key, at in schema.items() if key != "$ref"}}
        elif some := next((key for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), ""):
            parts = schema[some] if some == "allOf" else schema[some][:1]
            merged = {key: at for key, at in schema.items() if key != some}
            for part in parts:
                merged |= part if isinstance(part, Mapping) else {}
            schema = merged
        else:
            return schema
    return schema


def _referred(reference: str, root: Mapping[str, JSON]) -> Mapping[str, JSON]:
    at: JSON = root
    for step in filter(None, reference.removeprefix("#").split("/")):
        at = at.get(step, {}) if isinstance(at, Mapping) else {}
    return at if isinstance(at, Mapping) else {}


def _kind(schema: Mapping[str, JSON]) -> str:
    """The type that is taken of those that fit: the first that is not null."""
    told = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "string")
    kinds = told if isinstance(told, list) else [told]
    return next((str(one) for one in kinds if one != "null"), "null")


def _number(schema: Mapping[str, JSON], *, whole: bool) -> JSON:
    """1, or the number nearest to it that the bounds allow."""
    low = schema.get("minimum", float("-inf"))
    high = schema.get("maximum", float("inf"))
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(over, int | float) and not isinstance(over, bool):
        low = max(low, over + (1 if whole else _within(over, min(high, over + 2))))
    if isinstance(under, int | float) and not isinstance(under, bool):
        high = min(high, under - (1 if whole else _within(max(low, under - 2), under)))
    step = schema.get("multipleOf") or 0
    found = min(max(1, low), high)
    if step:
        found = -(-found // step) * step
    return int(found) if whole or found == int(found) else found


def _within(low: float, high: float) -> float:
    """Half the way between two bounds."""
    return (high - low) / 2


def _text(schema: Mapping[str, JSON], words: str) -> str:
    said = OF_A_FORMAT.get(schema.get("format", ""), words)
    said += "." * (int(schema.get("minLength", 0)) - len(said))
    return said[: int(schema["maxLength"])] if "maxLength" in schema else said
