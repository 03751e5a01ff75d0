"""Reads an MCP server's answers and listings: results for the model, or errors with their outcome.

A listing is read page by page, to the end or to a repeated page.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from mcp import MCPError
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
    PaginatedRequestParams,
    PaginatedResult,
    Prompt,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from fabric.core.texts.text import DEPTH_MAX, clean, count_nesting
from fabric.core.values.fingerprint import encode
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.tools.answers.binary import (
    UNKNOWN_TYPE,
    build_placeholder,
    decode_base64,
    decoded_size,
    is_text,
    placeholder,
    readable,
    replace_bytes,
)
from fabric.tools.answers.outcome import CallBroken, ToolError
from fabric.tools.mcp.failures import TOO_LARGE, NotStarted
from fabric.tools.mcp.offers import McpServerOffer, McpToolOffer, PromptOffer, ResourceOffer

if TYPE_CHECKING:
    from mcp import ClientSession


OUTCOMES: Mapping[int, Outcome] = {
    METHOD_NOT_FOUND: Outcome.REJECTED,
    TOO_LARGE: Outcome.ANSWERED,
}
"""Outcome by error code. All other codes are unclear, the one for invalid parameters too: servers use it for any
misfit in the middle of a call, and arguments that the tool does not take never get this far.
"""


def find_result(answer: CallToolResult, server: str, most: int) -> JSON:
    """Return the structured content with the further content, else the content: one part alone, several as a list.

    Raises ToolError for the tool's own error, whose outcome is unknown, and for more than ``most`` bytes as JSON.
    """
    found = _join_content(answer.structured_content, [_part(one) for one in answer.content])
    if answer.is_error:
        said = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)
        raise ToolError(f"the tool failed: {said if found else 'it does not say why'}", outcome=Outcome.UNKNOWN)
    return bound_result(found, server, most)


def find_resource(answer: ReadResourceResult, server: str, most: int) -> JSON:
    """Return the content of a resource: one part alone, several as a list. Raises ToolError for more than ``most``
    bytes as JSON.
    """
    parts = [_resource_content(one) for one in answer.contents]
    return bound_result(parts[0] if len(parts) == 1 else parts, server, most)


def bound_result(result: JSON, server: str, most: int) -> JSON:
    """Return a result that can be stored. Raises ToolError for one that is no JSON, or has more than ``most`` bytes."""
    try:
        size = len(encode(clean(result)[0]))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(f"the tool's result is refused: {error}", outcome=Outcome.ANSWERED) from None
    if size > most:
        sentence = f"the result of MCP server {server!r} has {size:,} bytes; at most {most:,} are taken; ask for less"
        raise ToolError(sentence, outcome=Outcome.ANSWERED)
    return result


def _join_content(structured: JSON, parts: list[JSON]) -> JSON:
    """Return structure and content as one result; repeated parts appear once."""
    plain = parts[0] if len(parts) == 1 else (parts or None)
    if structured is None:
        return plain
    shown = replace_bytes(structured)
    there = json.dumps(shown, ensure_ascii=False, default=str)
    parts = [one for one in parts if not (_is_left_out(one) and placeholder(one["type"], one["bytes"]) in there)]
    more = [] if _repeats(shown, parts) else [one for one in parts if not _repeats(shown, [one])]
    if not more:
        return shown
    return {"structuredContent": shown, "content": more[0] if len(more) == 1 else more}


def _is_left_out(part: JSON) -> bool:
    return isinstance(part, dict) and "left_out" in part


def _repeats(structured: JSON, parts: list[JSON]) -> bool:
    """Return True where the structure repeats all parts. They are its JSON, its one value, or the items of
    that value.
    """
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
            return _resource_content(one.resource)
        case ResourceLink():
            more = {"type": one.mime_type, "bytes": one.size, "description": one.description}
            return {"uri": str(one.uri), "name": one.name} | {name: each for name, each in more.items() if each}
        case ImageContent() | AudioContent():
            return build_placeholder(one.mime_type, decoded_size(one.data))


def _resource_content(held: TextResourceContents | BlobResourceContents) -> JSON:
    """Return a resource's content: text as it is, bytes of a text's type decoded, all others left out."""
    where, kind = {"uri": str(held.uri)}, held.mime_type or ""
    if isinstance(held, TextResourceContents):
        return where | {"content": _read(held.text, kind)}
    raw = decode_base64(held.blob) if is_text(kind) else None
    if raw is not None:
        return where | {"content": _read(raw.decode("utf-8", "replace"), kind)}
    return where | build_placeholder(kind or UNKNOWN_TYPE, decoded_size(held.blob))


def _read(text: str, kind: str) -> JSON:
    """Return declared JSON parsed where that succeeds, else text."""
    kind = kind.partition(";")[0].strip().lower()
    found = _json(text) if kind == "application/json" or kind.endswith("+json") else None
    return readable(text) if found is None else replace_bytes(found)


def _json(text: str) -> JSON:
    """Return a text as JSON; None for any other text, or one that is nested too deep."""
    if count_nesting(text) > DEPTH_MAX:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def build_error(error: ErrorData, server: str, *, sent: bool) -> ToolError | CallBroken:
    """Return the run's error for an error of the protocol."""
    said = " ".join(error.message.split())
    if error.code == PARSE_ERROR:
        sentence = f"MCP server {server!r} answered what cannot be read: {said}"
        return CallBroken(Cause.MALFORMED_ANSWER, sentence, outcome=Outcome.UNKNOWN if sent else Outcome.REJECTED)
    outcome = OUTCOMES.get(error.code, Outcome.UNKNOWN) if sent else Outcome.REJECTED
    return ToolError(f"MCP server {server!r} says: {said}", outcome=outcome, code=error.code)


OFFERED_MAX = 2_000
"""Largest number of one server's tools, resources and prompts each."""
PAGES_MAX = 500
"""Largest number of pages of one listing. A server with too few entries a page is refused as one that offers too
much.
"""
Page = TypeVar("Page", bound=PaginatedResult)
T = TypeVar("T")


async def pages(ask: Callable[..., Awaitable[Page]], what: str) -> AsyncIterator[Page]:
    """Yield the pages of a listing, up to one with a repeated cursor: its pages would come for ever. Raises
    NotStarted for too many.
    """
    cursor: str | None = None
    given: set[str] = set()
    for _ in range(PAGES_MAX):
        page = await ask(params=PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if cursor is None or cursor in given:
            return
        given.add(cursor)
    raise _too_many(what)


def _too_many(what: str) -> NotStarted:
    sentence = (
        f"it offers more than {OFFERED_MAX:,} {what}, or more than {PAGES_MAX} pages of them; have it offer fewer"
    )
    return NotStarted(Cause.BAD_CONFIGURATION, sentence)


async def list_tools(session: ClientSession) -> dict[str, McpToolOffer]:
    """Return the tools by name. Raises NotStarted for more than ``OFFERED_MAX``, MCPError as the SDK does."""
    found: dict[str, McpToolOffer] = {}
    async for page in pages(session.list_tools, "tools"):
        found |= {tool.name: _tool(tool) for tool in page.tools}
        if len(found) > OFFERED_MAX:
            raise _too_many("tools")
    return found


async def list_resources(session: ClientSession) -> tuple[ResourceOffer, ...]:
    """Return the resources. Raises NotStarted for more than ``OFFERED_MAX``, MCPError as the SDK does."""
    found: list[ResourceOffer] = []
    async for page in pages(session.list_resources, "resources"):
        found += [
            ResourceOffer(str(one.uri), one.name, one.description or "", one.mime_type or "") for one in page.resources
        ]
        if len(found) > OFFERED_MAX:
            raise _too_many("resources")
    return tuple(found)


async def list_templates(session: ClientSession) -> tuple[ResourceOffer, ...]:
    """Return the templates of resources. Raises as ``list_resources`` does."""
    found: list[ResourceOffer] = []
    async for page in pages(session.list_resource_templates, "templates of resources"):
        found += [
            ResourceOffer(one.uri_template, one.name, one.description or "", one.mime_type or "", template=True)
            for one in page.resource_templates
        ]
        if len(found) > OFFERED_MAX:
            raise _too_many("templates of resources")
    return tuple(found)


async def list_prompts(session: ClientSession) -> tuple[PromptOffer, ...]:
    """Return the prompts. Raises as ``list_resources`` does."""
    found: list[PromptOffer] = []
    async for page in pages(session.list_prompts, "prompts"):
        found += [_prompt(one) for one in page.prompts]
        if len(found) > OFFERED_MAX:
            raise _too_many("prompts")
    return tuple(found)


async def list_all(session: ClientSession, tools: Iterable[McpToolOffer]) -> McpServerOffer:
    """Return these tools with everything else that the server offers, and the reasons for missing lists. Raises
    NotStarted.
    """
    able = session.server_capabilities
    unlisted: list[tuple[str, str]] = []

    async def ask_lists(what: str, lists: Callable[[ClientSession], Awaitable[tuple[T, ...]]]) -> tuple[T, ...]:
        try:
            return await lists(session)
        except MCPError as error:
            if error.error.code != METHOD_NOT_FOUND:
                unlisted.append((what, " ".join(error.error.message.split())))
            return ()

    resources: tuple[ResourceOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    if able is not None and able.resources is not None:
        resources = (
            *await ask_lists("resources", list_resources),
            *await ask_lists("resources/templates", list_templates),
        )
    if able is not None and able.prompts is not None:
        prompts = await ask_lists("prompts", list_prompts)
    return McpServerOffer(tuple(tools), resources, prompts, tuple(unlisted))


def _prompt(one: Prompt) -> PromptOffer:
    arguments = one.arguments or []
    required = tuple(each.name for each in arguments if each.required)
    return PromptOffer(one.name, one.description or "", tuple(each.name for each in arguments), required)


def _tool(tool: Tool) -> McpToolOffer:
    hints = tool.annotations
    return McpToolOffer(
        tool.name,
        tool.description or "",
        tool.input_schema,
        hints.read_only_hint if hints else None,
        hints.idempotent_hint if hints else None,
        hints.destructive_hint if hints else None,
    )
