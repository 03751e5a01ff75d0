"""An operation's parameters and body as the arguments of a tool: one schema, and where each of them travels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fabric.adapters.tools.http_endpoint import NOT_BY_ARGUMENT
from fabric.services.openapi_import.document import Document, Unreadable
from fabric.services.openapi_import.schemas import Schemas
from fabric.services.tool_declarations import LeftOut

JSON = Any
_STYLES = {"path": "simple", "query": "form", "header": "simple"}
"""How values are written, by place: what OpenAPI supposes where nothing is said, and what an HTTP tool does."""
BODY = "body"


@dataclass(slots=True)
class Arguments:
    """What a tool is called with."""

    schema: dict[str, JSON]
    places: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)


def arguments_of(document: Document, item: dict[str, JSON], operation: dict[str, JSON], where: str) -> Arguments:
    """The arguments of an operation. Raises Unreadable where one that it cannot do without is not taken over."""
    schemas = Schemas(document)
    properties: dict[str, JSON] = {}
    required: list[str] = []
    made = Arguments({})
    for path, one in _parameters(document, item, operation, where):
        try:
            name, place, schema = _parameter(document, one, path, schemas, made.places)
        except Unreadable as error:
            if one.get("required") is True:
                raise Unreadable(where, f"it cannot be called without {path}, which {error.reason}") from None
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
    document: Document, item: dict[str, JSON], operation: dict[str, JSON], where: str
) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Those of the path and of the operation; of two with one name and place the operation's."""
    found: dict[tuple[JSON, JSON], tuple[str, dict[str, JSON]]] = {}
    for listed, at in ((item.get("parameters"), where.rpartition(".")[0]), (operation.get("parameters"), where)):
        for n, given in enumerate(listed if isinstance(listed, list) else ()):
            path = f"{at}.parameters.{n}"
            one = document.resolved(given, path)
            if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not isinstance(one.get("in"), str):
                raise Unreadable(path, "is no parameter, which has a name and says where it is (in)")
            found[one["name"], one["in"]] = (path, one)
    yield from found.values()


def _parameter(
    document: Document, one: dict[str, JSON], path: str, schemas: Schemas, taken: dict[str, str]
) -> tuple[str, str, JSON]:
    name, place = one["name"], one["in"]
    if place not in _STYLES:
        raise Unreadable(path, f"travels as a {place}, which no tool sends")
    if place == "header" and name.lower() in NOT_BY_ARGUMENT:
        raise Unreadable(path, f"is the header {name}, which is not an argument's to set")
    if name in taken or not 0 < len(name) <= 100:
        raise Unreadable(
            path, f"is called {name[:100]!r}, as another parameter is" if name in taken else "has no usable name"
        )
    if "schema" not in one:
        raise Unreadable(path, "is written as a document of its own (content), not as a plain value")
    style, explode = one.get("style", _STYLES[place]), one.get("explode", place == "query")
    schema = document.resolved(one["schema"], path)
    several = isinstance(schema, dict) and schema.get("type") in ("array", "object")
    if style != _STYLES[place] or (several and (place != "query" or schema["type"] == "object" or explode is not True)):
        raise Unreadable(
            path, f"is written in a way that no tool writes (style {style}, explode {str(explode).lower()})"
        )
    return name, place, schemas.schema(one["schema"], path)


def _add_body(
    document: Document,
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
    body = document.resolved(operation["requestBody"], path)
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, dict):
        raise Unreadable(path, "has no content")
    media = next((one for kind, one in content.items() if _is_json(kind)), None)
    if media is None:
        reason = f"takes {', '.join(content)[:100] or 'nothing'}, and tools send JSON"
        if body.get("required") is True:
            raise Unreadable(path, reason)
        made.left_out.append(LeftOut(path, reason))
        return
    name = BODY if BODY not in properties else "request_body"
    schema = media.get("schema", True) if isinstance(media, dict) else True
    properties[name], made.places[name] = schemas.schema(schema, path), "body"
    required += [name] if body.get("required") is True else []


def _is_json(kind: str) -> bool:
    plain = kind.partition(";")[0].strip().lower()
    return plain in ("application/json", "*/*", "application/*") or plain.endswith("+json")
