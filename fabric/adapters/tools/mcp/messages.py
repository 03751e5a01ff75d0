"""Reads JSON-RPC messages of MCP servers before the SDK judges them. Messages with one meaning are read, and an answer answers one request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mcp_types import INTERNAL_ERROR, jsonrpc_message_adapter
from pydantic_core import from_json

from fabric.adapters.tools.mcp.settling import settled
from fabric.core.text import clean

JSON = Any
EXCERPT_CHARS = 300
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_escape = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Control sequences of terminals (ECMA-48): colours, cursor moves, titles."""


def objects_in(raw: bytes) -> list[dict[str, JSON]] | None:
    """The JSON objects of a body, an event or a line: one, or those of a batch. None: it is neither."""
    text = raw.removeprefix(BYTE_ORDER_MARK).strip()
    if text.startswith((b"data:", b"event:", b"id:")):
        # The events of a stream, whatever they were announced as.
        return [one for data in _data(text) for one in objects_in(data) or ()] or None
    try:
        found = from_json(text)
    except ValueError:
        found = _cleaned(text) if b"\\u" in text else None
    listed = found if isinstance(found, list) else [found]
    return listed if listed and all(isinstance(one, dict) for one in listed) else None


def _data(text: bytes) -> list[bytes]:
    """The data of each event in a body."""
    events = text.replace(b"\r\n", b"\n").split(b"\n\n")
    return [b"\n".join(line[5:] for line in one.split(b"\n") if line.startswith(b"data:")) for one in events]


def _cleaned(text: bytes) -> JSON:
    """JSON with half a surrogate pair in it, which the SDK's reader refuses; None: it is none."""
    try:
        return clean(json.loads(text))[0]
    except (ValueError, RecursionError):
        return None


def without_escapes(line: bytes) -> bytes:
    """A line without the control sequences of terminals."""
    return _escape.sub(b"", line) if b"\x1b" in line else line


def is_answer(message: Mapping[str, JSON]) -> bool:
    """Returns True where a message answers a request, and is none itself."""
    return "method" not in message and ("result" in message or "error" in message)


def is_message(message: Mapping[str, JSON]) -> bool:
    """Returns True where the SDK can read it. To any other message the SDK answers with the end of the request that is out."""
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValueError:
        return False
    return True


def same_id(one: JSON, other: JSON) -> bool:
    """Returns True where two ids are of one request: some servers write a number as a text, or with a point."""
    return not isinstance(one, bool) and one is not None and _plain(one) == _plain(other)


def _plain(given: JSON) -> str:
    if isinstance(given, float) and given.is_integer():
        return str(int(given))
    return str(given)


def nameless(message: Mapping[str, JSON]) -> bool:
    """Returns True where it is an error that names no request: the server could not tell which it is of."""
    return message.get("id") is None and message.get("error") is not None


def answer_to(message: Mapping[str, JSON], request_id: JSON, method: str) -> dict[str, JSON]:
    """An answer as the SDK takes it, with the id that the request had."""
    said: dict[str, JSON] = {"jsonrpc": "2.0", "id": request_id}
    if (error := message.get("error")) is not None:
        return said | {"error": _error(error)}
    return said | {"result": settled(method, message.get("result"))}


def _error(given: JSON) -> JSON:
    if not isinstance(given, dict):
        return {"code": INTERNAL_ERROR, "message": excerpt(given)}
    code, message = given.get("code"), given.get("message")
    return given | {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else excerpt(message if message is not None else given),
    }


def excerpt(given: JSON, chars: int = EXCERPT_CHARS) -> str:
    """The beginning of what a server said, on one line."""
    if isinstance(given, bytes | bytearray):
        given = bytes(given[: chars * 4]).decode("utf-8", "replace")
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return " ".join(text.split())[:chars]


def written(message: Mapping[str, JSON]) -> bytes:
    """A message on one line, as UTF-8."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
