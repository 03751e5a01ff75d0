"""Builds values that fit a JSON Schema: arguments of an offered tool, and answers in a requested form."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fabric.core.values.units import JSON

DEPTH_MAX = 12
"""Largest depth of schemas within schemas; a recursive one ends there."""
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
"""Text for each format, without the words."""


def arguments(parameters: Mapping[str, JSON], words: str) -> dict[str, JSON]:
    """Return the required arguments of a tool, with the words in each text field.

    If no required field takes text, the first other one does.
    """
    made = value({"type": "object", **parameters}, words)
    if "required" in parameters and words not in json.dumps(made, ensure_ascii=False):
        for name, field in _properties(parameters).items():
            if name not in made and value(field, words, root=parameters) == words:
                return {**made, name: words}
    return dict(made)


def value(schema: JSON, words: str, *, root: Mapping[str, JSON] | None = None, depth: int = 0) -> JSON:
    """Return a value that fits the schema, with the words in each text field.

    Patterns and negations are ignored; without a schema the words themselves are returned.
    """
    if not isinstance(schema, Mapping) or depth > DEPTH_MAX:
        return words
    root = schema if root is None else root
    schema = _resolve_schema(schema, root)
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


def _resolve_schema(schema: Mapping[str, JSON], root: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the schema with its reference followed and its first alternative taken."""
    for _ in range(DEPTH_MAX):
        if isinstance(schema.get("$ref"), str):
            schema = {
                **_follow_reference(schema["$ref"], root),
                **{key: at for key, at in schema.items() if key != "$ref"},
            }
        elif some := next((key for key in ("anyOf", "oneOf", "allOf") if schema.get(key)), ""):
            parts = schema[some] if some == "allOf" else schema[some][:1]
            merged = {key: at for key, at in schema.items() if key != some}
            for part in parts:
                merged |= part if isinstance(part, Mapping) else {}
            schema = merged
        else:
            return schema
    return schema


def _follow_reference(reference: str, root: Mapping[str, JSON]) -> Mapping[str, JSON]:
    at: JSON = root
    for step in filter(None, reference.removeprefix("#").split("/")):
        at = at.get(step, {}) if isinstance(at, Mapping) else {}
    return at if isinstance(at, Mapping) else {}


def _kind(schema: Mapping[str, JSON]) -> str:
    """Return the chosen type: the first that is not null."""
    told = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else "string")
    kinds = told if isinstance(told, list) else [told]
    return next((str(one) for one in kinds if one != "null"), "null")


def _number(schema: Mapping[str, JSON], *, whole: bool) -> JSON:
    """Return 1, or the nearest number within the bounds."""
    low = schema.get("minimum", float("-inf"))
    high = schema.get("maximum", float("inf"))
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(over, int | float) and not isinstance(over, bool):
        low = max(low, over + (1 if whole else _find_middle(over, min(high, over + 2))))
    if isinstance(under, int | float) and not isinstance(under, bool):
        high = min(high, under - (1 if whole else _find_middle(max(low, under - 2), under)))
    step = schema.get("multipleOf") or 0
    found = min(max(1, low), high)
    if step:
        found = -(-found // step) * step
    return int(found) if whole or found == int(found) else found


def _find_middle(low: float, high: float) -> float:
    """Return the middle of two bounds."""
    return (high - low) / 2


def _text(schema: Mapping[str, JSON], words: str) -> str:
    said = OF_A_FORMAT.get(schema.get("format", ""), words)
    said += "." * (int(schema.get("minLength", 0)) - len(said))
    return said[: int(schema["maxLength"])] if "maxLength" in schema else said
