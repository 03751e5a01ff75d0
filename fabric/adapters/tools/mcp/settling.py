"""Results of MCP servers, made fit for the SDK's strict models: a field that is missing, null or odd loses no answer where its meaning is plain.

The table ``SETTLED`` has the rules, by method. Everything that it does not name goes on as it came.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from mcp_types import ContentBlock
from pydantic import TypeAdapter, ValidationError

JSON = Any
_content: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
UNNAMED = {"name": "unnamed", "version": ""}
UNKNOWN_TYPE = "application/octet-stream"


def settled(method: str, result: JSON) -> JSON:
    """A result as the SDK reads it. A non-object stays as it is, and the SDK refuses it; a call's text, list or null is its content."""
    by = SETTLED.get(method)
    if method == "tools/call" and isinstance(result, list | str | None):
        result = {"content": result}
    return by(result) if by is not None and isinstance(result, dict) else result


def _initialize(result: dict[str, JSON]) -> JSON:
    info = result.get("serverInfo")
    named = {"name": str(info.get("name") or "unnamed"), "version": str(info.get("version") or "")} if _is(info) else {}
    capabilities = result.get("capabilities")
    able = {name: one for name, one in capabilities.items() if isinstance(one, dict)} if _is(capabilities) else {}
    return result | {"capabilities": able, "serverInfo": named or UNNAMED}


def _listed(kind: str, one_by: Callable[[dict[str, JSON]], dict[str, JSON] | None]) -> Callable[[JSON], JSON]:
    """A listing of that kind: a cursor that is no text is none, and an entry without its name is left out."""

    def settle(result: dict[str, JSON]) -> JSON:
        listed = result.get(kind)
        given = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        cursor = result.get("nextCursor")
        found = {name: each for name, each in result.items() if name != "nextCursor"}
        found[kind] = [each for one in given if (each := one_by(one)) is not None]
        return found | ({"nextCursor": cursor} if isinstance(cursor, str) and cursor else {})

    return settle


def _tool(one: dict[str, JSON]) -> dict[str, JSON] | None:
    if not isinstance(one.get("name"), str) or not one["name"]:
        return None
    kept = _kept(one, text=("title", "description"), objects=("annotations", "_meta"))
    schema = one.get("inputSchema")
    kept["inputSchema"] = {"type": "object"} | schema if _is(schema) else {"type": "object"}
    output = one.get("outputSchema")
    if _is(output) and output.get("type") == "object":
        kept["outputSchema"] = output
    if _is(hints := kept.get("annotations")):
        kept["annotations"] = {name: hint for name, hint in hints.items() if isinstance(hint, bool)}
    return kept


def _resource(one: dict[str, JSON]) -> dict[str, JSON] | None:
    where = one.get("uri")
    if not isinstance(where, str) or not where:
        return None
    name = one.get("name")
    kept = _kept(one, text=("uri", "title", "description", "mimeType"))
    return kept | {"name": name if isinstance(name, str) and name else where}


def _template(one: dict[str, JSON]) -> dict[str, JSON] | None:
    where = one.get("uriTemplate")
    if not isinstance(where, str) or not where:
        return None
    name = one.get("name")
    kept = _kept(one, text=("uriTemplate", "title", "description", "mimeType"))
    return kept | {"name": name if isinstance(name, str) and name else where}


def _prompt(one: dict[str, JSON]) -> dict[str, JSON] | None:
    if not isinstance(one.get("name"), str) or not one["name"]:
        return None
    kept = _kept(one, text=("title", "description"))
    listed = one.get("arguments")
    given = [each for each in listed if _is(each)] if isinstance(listed, list) else []
    wanted = [
        _kept(each, text=("description",)) | {"required": each.get("required") is True}
        for each in given
        if isinstance(each.get("name"), str)
    ]
    return kept | {"arguments": wanted}


def _called(result: dict[str, JSON]) -> JSON:
    content = result.get("content")
    if result.get("resultType") == "input_required" or not isinstance(content, list | dict | str | None):
        return result
    found = {
        name: one for name, one in result.items() if name not in ("structuredContent", "isError", "is_error", "_meta")
    }
    found["content"] = [_block(one) for one in _blocks(content)]
    if content is None and result.get("structuredContent") is None:
        # A result in a field of its own, as ``toolResult`` was before 2025.
        own = {name: one for name, one in found.items() if name not in ("content", "resultType") and one is not None}
        found["content"] = [_block(next(iter(own.values())) if len(own) == 1 else own)] if own else []
    found["isError"] = any(result.get(name) in _TRUE for name in ("isError", "is_error"))
    structured = result.get("structuredContent")
    if structured is not None:
        # Before 2026 the protocol knows objects alone here; the key is the one that the official SDKs wrap with.
        plain = isinstance(structured, dict) or "resultType" in result
        found["structuredContent"] = structured if plain else {"result": structured}
    return found


def _blocks(content: JSON) -> list[JSON]:
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def _block(one: JSON) -> JSON:
    """A part of the content; a kind that the protocol does not know goes on as text."""
    if isinstance(one, str):
        return {"type": "text", "text": one}
    if _is(one):
        kept = {name: each for name, each in one.items() if name not in ("annotations", "_meta")}
        if not one.get("type") and isinstance(one.get("text"), str):
            kept["type"] = "text"
        tried = kept | {
            name: each for name, each in _DEFAULTS.get(str(one.get("type")), {}).items() if not one.get(name)
        }
        if one.get("type") == "resource_link" and not one.get("name"):
            tried["name"] = str(one.get("uri"))
        try:
            _content.validate_python(tried, by_name=False)
        except ValidationError:
            return {"type": "text", "text": json.dumps(one, ensure_ascii=False)}
        return tried
    return {"type": "text", "text": json.dumps(one, ensure_ascii=False)}


_TRUE = (True, 1, "true", "True")
"""Values that servers write for true."""
_DEFAULTS: Mapping[str, Mapping[str, JSON]] = {
    "text": {"text": ""},
    "image": {"mimeType": UNKNOWN_TYPE},
    "audio": {"mimeType": UNKNOWN_TYPE},
}


def _kept(one: Mapping[str, JSON], *, text: tuple[str, ...], objects: tuple[str, ...] = ()) -> dict[str, JSON]:
    """Its name, and of those fields the ones that are of their kind."""
    kept = {name: each for name in ("name", *text) if isinstance(each := one.get(name), str)}
    return kept | {name: each for name in objects if _is(each := one.get(name))}


def _is(given: JSON) -> TypeGuard[dict[str, JSON]]:
    return isinstance(given, dict)


SETTLED: Mapping[str, Callable[[dict[str, JSON]], JSON]] = {
    "initialize": _initialize,
    "tools/list": _listed("tools", _tool),
    "tools/call": _called,
    "resources/list": _listed("resources", _resource),
    "resources/templates/list": _listed("resourceTemplates", _template),
    "prompts/list": _listed("prompts", _prompt),
}
