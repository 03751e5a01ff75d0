"""What an MCP server's answer is to a model: a result, or an error with what it says about whether the call was done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import (
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ErrorData,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from fabric.adapters.tools.mcp.failing import TOO_LARGE
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.core.fingerprint import encode
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.core.text import DEPTH_MAX, nesting

JSON = Any

OUTCOMES: Mapping[int, Outcome] = {
    METHOD_NOT_FOUND: Outcome.REJECTED,
    TOO_LARGE: Outcome.ANSWERED,
}
"""What an error code says about whether the call was done. All others say nothing, the one for invalid parameters among them: servers give it for
whatever does not fit in the middle of a call too, and arguments that the tool does not take never get this far.
"""


def result_of(answer: CallToolResult, server: str, most: int) -> JSON:
    """The structured content where there is some, else the content: one part alone, several as a list.

    ToolError for what the tool itself calls an error, of which nobody knows whether it was done before that, and for more than ``most`` bytes as JSON.
    """
    parts = [_part(one) for one in answer.content]
    plain = parts[0] if len(parts) == 1 else parts
    if answer.is_error:
        said = plain if isinstance(plain, str) else json.dumps(plain or answer.structured_content, ensure_ascii=False)
        raise ToolError(f"the tool failed: {said}", outcome=Outcome.UNKNOWN)
    structured = answer.structured_content
    result = structured if structured is not None else (plain if parts else None)
    try:
        size = len(encode(result))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool's result is refused: {error}", outcome=Outcome.ANSWERED) from None
    if size > most:
        sentence = f"the result of MCP server {server!r} has {size:,} bytes; at most {most:,} are taken; ask for less"
        raise ToolError(sentence, outcome=Outcome.ANSWERED)
    return result


def _part(one: ContentBlock) -> JSON:
    match one:
        case TextContent():
            return one.text
        case EmbeddedResource(resource=TextResourceContents() as held):
            return {"uri": str(held.uri), "content": _read(held.text, held.mime_type or "")}
        case EmbeddedResource():
            return {
                "uri": str(one.resource.uri),
                "type": one.resource.mime_type or "binary",
                "left_out": "it is no text",
            }
        case ResourceLink():
            return {"uri": str(one.uri), "name": one.name}
    # Pictures and sounds: models are given text alone.
    return {"type": one.mime_type, "left_out": "it is no text"}


def _read(text: str, kind: str) -> JSON:
    """JSON where it is announced as such and is some, else text."""
    kind = kind.partition(";")[0].strip().lower()
    if not (kind == "application/json" or kind.endswith("+json")) or nesting(text) > DEPTH_MAX:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def error_of(error: ErrorData, server: str, *, sent: bool) -> ToolError | CallBroken:
    """What an error of the protocol is to the run."""
    said = " ".join(error.message.split())
    if error.code == PARSE_ERROR:
        sentence = f"MCP server {server!r} answered what cannot be read: {said}"
        return CallBroken(Cause.MALFORMED_ANSWER, sentence, outcome=Outcome.UNKNOWN if sent else Outcome.REJECTED)
    outcome = OUTCOMES.get(error.code, Outcome.UNKNOWN) if sent else Outcome.REJECTED
    return ToolError(f"MCP server {server!r} says: {said}", outcome=outcome, code=error.code)
