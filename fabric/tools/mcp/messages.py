"""Reads JSON-RPC messages of MCP servers, and repairs their results, before the SDK judges them.

Sloppy messages with one meaning are read; one answer answers one request. A missing, null or odd field with a plain
meaning loses no answer. The table ``SETTLED`` has the rules, by method. All other parts pass unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeGuard

from mcp_types import INTERNAL_ERROR, ContentBlock, jsonrpc_message_adapter
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from fabric.core.texts.text import clean
from fabric.core.values.units import JSON

EXCERPT_CHARS = 300
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_escape = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Control sequences of terminals (ECMA-48): colours, cursor moves, titles."""


def objects_in(raw: bytes) -> list[dict[str, JSON]] | None:
    """Return the JSON objects of a body, an event or a line: one, or those of a batch. None for anything else."""
    text = raw.removeprefix(BYTE_ORDER_MARK).strip()
    if text.startswith((b"data:", b"event:", b"id:")):
        # The events of a stream, with any declared type.
        return [one for data in _data(text) for one in objects_in(data) or ()] or None
    try:
        found = from_json(text)
    except ValueError:
        found = _clean_json(text) if b"\\u" in text else None
    listed = found if isinstance(found, list) else [found]
    return listed if listed and all(isinstance(one, dict) for one in listed) else None


def _data(text: bytes) -> list[bytes]:
    """Return the data of each event in a body."""
    events = text.replace(b"\r\n", b"\n").split(b"\n\n")
    return [b"\n".join(line[5:] for line in one.split(b"\n") if line.startswith(b"data:")) for one in events]


def _clean_json(text: bytes) -> JSON:
    """Return JSON without half surrogate pairs, which the SDK's reader refuses; None for anything else."""
    try:
        return clean(json.loads(text))[0]
    except (ValueError, RecursionError):
        return None


def drop_escapes(line: bytes) -> bytes:
    """Return a line without the control sequences of terminals."""
    return _escape.sub(b"", line) if b"\x1b" in line else line


def is_answer(message: Mapping[str, JSON]) -> bool:
    """Return True for an answer to a request, which is no request itself."""
    return "method" not in message and ("result" in message or "error" in message)


def is_message(message: Mapping[str, JSON]) -> bool:
    """Return True where the SDK can read it. At any other message the SDK ends the pending request."""
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValueError:
        return False
    return True


def same_id(one: JSON, other: JSON) -> bool:
    """Return True where two ids are of one request. Some servers write a number as a text, or with a point."""
    return not isinstance(one, bool) and one is not None and _plain(one) == _plain(other)


def _plain(given: JSON) -> str:
    if isinstance(given, float) and given.is_integer():
        return str(int(given))
    return str(given)


def nameless(message: Mapping[str, JSON]) -> bool:
    """Return True for an error without a request's id: the server could not tell which it is of."""
    return message.get("id") is None and message.get("error") is not None


def answer_to(message: Mapping[str, JSON], request_id: JSON, method: str) -> dict[str, JSON]:
    """Return an answer as the SDK takes it, with the id of the request."""
    said: dict[str, JSON] = {"jsonrpc": "2.0", "id": request_id}
    if (error := message.get("error")) is not None:
        return said | {"error": _error(error)}
    return said | {"result": repair_result(method, message.get("result"))}


def _error(given: JSON) -> JSON:
    if not isinstance(given, dict):
        return {"code": INTERNAL_ERROR, "message": excerpt(given)}
    code, message = given.get("code"), given.get("message")
    return given | {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else excerpt(message if message is not None else given),
    }


def excerpt(given: JSON, chars: int = EXCERPT_CHARS) -> str:
    """Return the beginning of a server's words, on one line."""
    if isinstance(given, bytes | bytearray):
        given = bytes(given[: chars * 4]).decode("utf-8", "replace")
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return " ".join(text.split())[:chars]


def write_message(message: Mapping[str, JSON]) -> bytes:
    """Return a message on one line, as UTF-8."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


_content: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
UNNAMED = {"name": "unnamed", "version": ""}
UNKNOWN_TYPE = "application/octet-stream"


def repair_result(method: str, result: JSON) -> JSON:
    """Return a result as the SDK reads it. A non-object stays as it is, and the SDK refuses it; a call's text, list
    or null is its content.
    """
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


def _listing_repair(kind: str, one_by: Callable[[dict[str, JSON]], dict[str, JSON] | None]) -> Callable[[JSON], JSON]:
    """Return a repair for a listing of that kind. A cursor that is no text is none, and an entry without its name is
    left out.
    """

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
    kept = _keep_fields(one, text=("title", "description"), objects=("annotations", "_meta"))
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
    kept = _keep_fields(one, text=("uri", "title", "description", "mimeType"))
    return kept | {"name": name if isinstance(name, str) and name else where}


def _template(one: dict[str, JSON]) -> dict[str, JSON] | None:
    where = one.get("uriTemplate")
    if not isinstance(where, str) or not where:
        return None
    name = one.get("name")
    kept = _keep_fields(one, text=("uriTemplate", "title", "description", "mimeType"))
    return kept | {"name": name if isinstance(name, str) and name else where}


def _prompt(one: dict[str, JSON]) -> dict[str, JSON] | None:
    if not isinstance(one.get("name"), str) or not one["name"]:
        return None
    kept = _keep_fields(one, text=("title", "description"))
    listed = one.get("arguments")
    given = [each for each in listed if _is(each)] if isinstance(listed, list) else []
    wanted = [
        _keep_fields(each, text=("description",)) | {"required": each.get("required") is True}
        for each in given
        if isinstance(each.get("name"), str)
    ]
    return kept | {"arguments": wanted}


def _repair_call(result: dict[str, JSON]) -> JSON:
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
    """Return a part of the content; an unknown kind becomes text."""
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


def _keep_fields(one: Mapping[str, JSON], *, text: tuple[str, ...], objects: tuple[str, ...] = ()) -> dict[str, JSON]:
    """Return its name, and those of the given fields that have the right kind."""
    kept = {name: each for name in ("name", *text) if isinstance(each := one.get(name), str)}
    return kept | {name: each for name in objects if _is(each := one.get(name))}


def _is(given: JSON) -> TypeGuard[dict[str, JSON]]:
    return isinstance(given, dict)


SETTLED: Mapping[str, Callable[[dict[str, JSON]], JSON]] = {
    "initialize": _initialize,
    "tools/list": _listing_repair("tools", _tool),
    "tools/call": _repair_call,
    "resources/list": _listing_repair("resources", _resource),
    "resources/templates/list": _listing_repair("resourceTemplates", _template),
    "prompts/list": _listing_repair("prompts", _prompt),
}
