"""What an MCP server's answer is to a model: a result, or an error with what it says about whether the call was done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_types import (
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ErrorData,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from fabric.adapters.tools.answers.binary import (
    UNKNOWN_TYPE,
    decoded,
    decoded_size,
    is_text,
    left_out,
    placeholder,
    readable,
    without_bytes,
)
from fabric.adapters.tools.mcp.failing import TOO_LARGE
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.core.fingerprint import encode
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.core.text import DEPTH_MAX, clean, nesting

JSON = Any

OUTCOMES: Mapping[int, Outcome] = {
    METHOD_NOT_FOUND: Outcome.REJECTED,
    TOO_LARGE: Outcome.ANSWERED,
}
"""What an error code says about whether the call was done. All others say nothing, the one for invalid parameters among them: servers give it for
whatever does not fit in the middle of a call too, and arguments that the tool does not take never get this far.
"""


def result_of(answer: CallToolResult, server: str, most: int) -> JSON:
    """The structured content where there is some, with what the content says beside it, else the content: one part alone, several as a list.

    ToolError for the tool's own error, whose outcome is not known, and for more than ``most`` bytes as JSON.
    """
    found = _joined(answer.structured_content, [_part(one) for one in answer.content])
    if answer.is_error:
        said = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
        raise ToolError(f"the tool failed: {said if found else 'it does not say why'}", outcome=Outcome.UNKNOWN)
    return bounded(found, server, most)


def resource_of(answer: ReadResourceResult, server: str, most: int) -> JSON:
    """Returns the content of a resource: one part alone, several as a list. ToolError for more than ``most`` bytes as JSON."""
    parts = [_held(one) for one in answer.contents]
    return bounded(parts[0] if len(parts) == 1 else parts, server, most)


def bounded(result: JSON, server: str, most: int) -> JSON:
    """A result that may be kept. ToolError for one that is no JSON, or has more than ``most`` bytes."""
    try:
        size = len(encode(clean(result)[0]))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool's result is refused: {error}", outcome=Outcome.ANSWERED) from None
    if size > most:
        sentence = f"the result of MCP server {server!r} has {size:,} bytes; at most {most:,} are taken; ask for less"
        raise ToolError(sentence, outcome=Outcome.ANSWERED)
    return result


def _joined(structured: JSON, parts: list[JSON]) -> JSON:
    """Structure and content as one result; parts that say the same stand there once."""
    plain = parts[0] if len(parts) == 1 else (parts or None)
    if structured is None:
        return plain
    shown = without_bytes(structured)
    there = json.dumps(shown, ensure_ascii=False, default=str)
    parts = [one for one in parts if not (_is_left_out(one) and placeholder(one["type"], one["bytes"]) in there)]
    more = [] if _repeats(shown, parts) else [one for one in parts if not _repeats(shown, [one])]
    if not more:
        return shown
    return {"structuredContent": shown, "content": more[0] if len(more) == 1 else more}


def _is_left_out(part: JSON) -> bool:
    return isinstance(part, dict) and "left_out" in part


def _repeats(structured: JSON, parts: list[JSON]) -> bool:
    """Returns True where all that the parts say stands in the structure: as its JSON, as the one value in it, or as the items of that value."""
    alone = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        alone += structured.values()
    said = [one for one in parts if not (isinstance(one, str) and not one.strip())]
    if len(said) == 1:
        return _says(said[0], alone)
    return any(isinstance(one, list) and len(one) == len(said) and all(map(_is_same, said, one)) for one in alone)


def _says(part: JSON, values: Iterable[JSON]) -> bool:
    return any(_is_same(part, one) for one in values)


def _is_same(part: JSON, value: JSON) -> bool:
    if not isinstance(part, str):
        return bool(part == value)
    if part == value or part.strip() == str(value):
        return True
    read = _json(part)
    return read is not None and bool(read == value)


def _part(one: ContentBlock) -> JSON:
    match one:
        case TextContent():
            return readable(one.text)
        case EmbeddedResource():
            return _held(one.resource)
        case ResourceLink():
            more = {"type": one.mime_type, "bytes": one.size, "description": one.description}
            return {"uri": str(one.uri), "name": one.name} | {name: each for name, each in more.items() if each}
        case ImageContent() | AudioContent():
            return left_out(one.mime_type, decoded_size(one.data))


def _held(held: TextResourceContents | BlobResourceContents) -> JSON:
    """A resource's content: text as it is, bytes of a text's type decoded, all others left out."""
    where, kind = {"uri": str(held.uri)}, held.mime_type or ""
    if isinstance(held, TextResourceContents):
        return where | {"content": _read(held.text, kind)}
    raw = decoded(held.blob) if is_text(kind) else None
    if raw is not None:
        return where | {"content": _read(raw.decode("utf-8", "replace"), kind)}
    return where | left_out(kind or UNKNOWN_TYPE, decoded_size(held.blob))


def _read(text: str, kind: str) -> JSON:
    """JSON where it is announced as such and is some, else text."""
    kind = kind.partition(";")[0].strip().lower()
    found = _json(text) if kind == "application/json" or kind.endswith("+json") else None
    return readable(text) if found is None else without_bytes(found)


def _json(text: str) -> JSON:
    """A text as JSON; None: it is none, or nested too deep."""
    if nesting(text) > DEPTH_MAX:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def error_of(error: ErrorData, server: str, *, sent: bool) -> ToolError | CallBroken:
    """What an error of the protocol is to the run."""
    said = " ".join(error.message.split())
    if error.code == PARSE_ERROR:
        sentence = f"MCP server {server!r} answered what cannot be read: {said}"
        return CallBroken(Cause.MALFORMED_ANSWER, sentence, outcome=Outcome.UNKNOWN if sent else Outcome.REJECTED)
    outcome = OUTCOMES.get(error.code, Outcome.UNKNOWN) if sent else Outcome.REJECTED
    return ToolError(f"MCP server {server!r} says: {said}", outcome=outcome, code=error.code)
