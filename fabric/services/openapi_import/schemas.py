"""Schemas of a document as schemas of arguments: JSON Schema 2020-12, whole in themselves, what they refer to beside them in ``$defs``."""

from __future__ import annotations

import re
from typing import Any

from fabric.services.openapi_import.document import Document, Unreadable

JSON = Any
DEPTH_MAX, NODES_MAX = 60, 200_000
"""Of one operation's arguments: levels of nesting, and parts."""
_OF_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset(
    [
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_OPENAPI_ONLY = frozenset({"example", "examples", "xml", "externalDocs", "discriminator", "nullable"})
_not_in_names = re.compile(r"[^A-Za-z0-9_.-]+")


class Schemas:
    """The schemas of one operation's arguments. ``definitions`` grows with what they refer to."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._nodes = 0
        self.definitions: dict[str, JSON] = {}

    def schema(self, node: JSON, path: str, depth: int = 0) -> JSON:
        """A schema as JSON Schema. Raises Unreadable."""
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            raise Unreadable(path, "its schema is too large")
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise Unreadable(path, "is no schema")
        if isinstance(node.get("$ref"), str):
            referring = {"$ref": f"#/$defs/{self._defined(node['$ref'], path)}"}
            beside = {} if self._document.version == "3.0" else self._fields({**node, "$ref": None}, path, depth)
            return {**beside, **referring}
        return self._fields(node, path, depth)

    def _defined(self, reference: str, path: str) -> str:
        """The name in ``$defs`` of what is referred to; what refers to itself is there once."""
        if (known := self._names.get(reference)) is not None:
            return known
        stem = _not_in_names.sub("_", reference.rpartition("/")[2]) or "schema"
        taken = self._names.values()
        name = next(one for n in range(1, len(taken) + 2) if (one := stem if n == 1 else f"{stem}_{n}") not in taken)
        self._names[reference] = name
        self.definitions[name] = self.schema(self._document.lookup(reference, path), path, 0)
        return name

    def _fields(self, node: dict[str, JSON], path: str, depth: int) -> dict[str, JSON]:
        made: dict[str, JSON] = {}
        for name, value in node.items():
            if name in _OPENAPI_ONLY or name.startswith("x-") or (name == "$ref" and value is None):
                continue
            if name in _OF_SCHEMAS and isinstance(value, dict):
                made[name] = {key: self.schema(item, path, depth + 1) for key, item in value.items()}
            elif name in _LISTS and isinstance(value, list):
                made[name] = [self.schema(item, path, depth + 1) for item in value]
            elif name in _SCHEMAS:
                made[name] = self.schema(value, path, depth + 1)
            else:
                made[name] = value
        return _as_2020(node, made) if self._document.version == "3.0" else made


def _as_2020(node: dict[str, JSON], made: dict[str, JSON]) -> dict[str, JSON]:
    """What OpenAPI 3.0 says in words of its own: that something may be null, and limits that are not reached."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(given := made.get(exclusive), bool):
            del made[exclusive]
            if given and bound in made:
                made[exclusive] = made.pop(bound)
    if node.get("nullable") is True:
        if isinstance(made.get("type"), str):
            made["type"] = [made["type"], "null"]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return made
