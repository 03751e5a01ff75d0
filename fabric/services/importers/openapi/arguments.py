"""Turns an operation's parameters and body into the arguments of a tool: one schema, and the place of each.

A document's schemas become self-contained JSON Schema 2020-12, with references resolved into ``$defs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fabric.core.values.units import JSON
from fabric.services.importers.openapi.document import OpenApiDocument, UnreadablePart
from fabric.services.importers.tool_declarations import LeftOut
from fabric.tools.http.endpoint import NOT_BY_ARGUMENT

_STYLES = {"path": "simple", "query": "form", "header": "simple"}
"""Style of values by place: OpenAPI's default, and the only one of an HTTP tool."""
BODY = "body"


@dataclass(slots=True)
class Arguments:
    """Arguments of a tool."""

    schema: dict[str, JSON]
    places: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def build_arguments(
    document: OpenApiDocument, item: dict[str, JSON], operation: dict[str, JSON], where: str
) -> Arguments:
    """Return the arguments of an operation. Raises UnreadablePart where a required one cannot be taken over."""
    schemas = Schemas(document)
    properties: dict[str, JSON] = {}
    required: list[str] = []
    made = Arguments({})
    for path, one in _parameters(document, item, operation, where):
        try:
            name, place, schema = _parameter(document, one, path, schemas, made.places)
        except UnreadablePart as error:
            if one.get("required") is True:
                raise UnreadablePart(where, f"it cannot be called without {path}, which {error.reason}") from None
            made.left_out.append(LeftOut(path, error.reason))
            continue
        if isinstance(text := one.get("description"), str) and text.strip() and isinstance(schema, dict):
            schema = {"description": text.strip()[:500], **schema}
        properties[name], made.places[name] = schema, place
        required += [name] if one.get("required") is True or place == "path" else []
    _add_body(document, operation, where, schemas, made, properties, required)
    made.schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if schemas.definitions:
        made.schema["$defs"] = schemas.definitions
    return made


def _parameters(
    document: OpenApiDocument, item: dict[str, JSON], operation: dict[str, JSON], where: str
) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield the parameters of the path and of the operation; of two with one name and place the operation's."""
    found: dict[tuple[JSON, JSON], tuple[str, dict[str, JSON]]] = {}
    for listed, at in ((item.get("parameters"), where.rpartition(".")[0]), (operation.get("parameters"), where)):
        for n, given in enumerate(listed if isinstance(listed, list) else ()):
            path = f"{at}.parameters.{n}"
            one = document.resolve(given, path)
            if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not isinstance(one.get("in"), str):
                raise UnreadablePart(path, "is no parameter, which has a name and says where it is (in)")
            found[one["name"], one["in"]] = (path, one)
    yield from found.values()


def _parameter(
    document: OpenApiDocument, one: dict[str, JSON], path: str, schemas: Schemas, taken: dict[str, str]
) -> tuple[str, str, JSON]:
    name, place = one["name"], one["in"]
    if place not in _STYLES:
        raise UnreadablePart(path, f"travels as a {place}, which no tool sends")
    if place == "header" and name.lower() in NOT_BY_ARGUMENT:
        raise UnreadablePart(path, f"is the header {name}, which is not an argument's to set")
    if name in taken or not 0 < len(name) <= 100:
        raise UnreadablePart(
            path, f"is called {name[:100]!r}, as another parameter is" if name in taken else "has no usable name"
        )
    if "schema" not in one:
        raise UnreadablePart(path, "is written as a document of its own (content), not as a plain value")
    style, explode = one.get("style", _STYLES[place]), one.get("explode", place == "query")
    schema = document.resolve(one["schema"], path)
    several = isinstance(schema, dict) and schema.get("type") in ("array", "object")
    if style != _STYLES[place] or (several and (place != "query" or schema["type"] == "object" or explode is not True)):
        raise UnreadablePart(
            path, f"is written in a way that no tool writes (style {style}, explode {str(explode).lower()})"
        )
    return name, place, schemas.schema(one["schema"], path)


def _add_body(
    document: OpenApiDocument,
    operation: dict[str, JSON],
    where: str,
    schemas: Schemas,
    made: Arguments,
    properties: dict[str, JSON],
    required: list[str],
) -> None:
    if operation.get("requestBody") is None:
        return
    path = f"{where}.requestBody"
    body = document.resolve(operation["requestBody"], path)
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, dict):
        raise UnreadablePart(path, "has no content")
    media = next((one for kind, one in content.items() if _is_json(kind)), None)
    if media is None:
        reason = f"takes {', '.join(content)[:100] or 'nothing'}, and tools send JSON"
        if body.get("required") is True:
            raise UnreadablePart(path, reason)
        made.left_out.append(LeftOut(path, reason))
        return
    name = BODY if BODY not in properties else "request_body"
    schema = media.get("schema", True) if isinstance(media, dict) else True
    properties[name], made.places[name] = schemas.schema(schema, path), "body"
    required += [name] if body.get("required") is True else []


def _is_json(kind: str) -> bool:
    plain = kind.partition(";")[0].strip().lower()
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")


DEPTH_MAX, NODES_MAX = 60, 200_000
"""Limits of one operation's arguments: levels of nesting, and parts."""
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
    """Schemas of one operation's arguments. ``definitions`` grows with the referenced ones."""

    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document
        self._names: dict[str, str] = {}
        self._nodes = 0
        self.definitions: dict[str, JSON] = {}

    def schema(self, node: JSON, path: str, depth: int = 0) -> JSON:
        """Return a schema as JSON Schema. Raises UnreadablePart."""
        self._nodes += 1
        if depth > DEPTH_MAX or self._nodes > NODES_MAX:
            raise UnreadablePart(path, "its schema is too large")
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict):
            raise UnreadablePart(path, "is no schema")
        if isinstance(node.get("$ref"), str):
            referring = {"$ref": f"#/$defs/{self._define(node['$ref'], path)}"}
            beside = {} if self._document.version == "3.0" else self._fields({**node, "$ref": None}, path, depth)
            return {**beside, **referring}
        return self._fields(node, path, depth)

    def _define(self, reference: str, path: str) -> str:
        """Return the name of a referenced schema in ``$defs``; one that refers to itself is there once."""
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
        return _convert_to_2020(node, made) if self._document.version == "3.0" else made


def _convert_to_2020(node: dict[str, JSON], made: dict[str, JSON]) -> dict[str, JSON]:
    """Return OpenAPI 3.0's nullable values and exclusive bounds in the terms of JSON Schema 2020-12."""
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
