"""Reads the listings of an MCP server page by page, to the end or to a page that repeats."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from mcp import MCPError
from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams, PaginatedResult, Prompt, Tool

from fabric.adapters.tools.mcp.failing import NotStarted
from fabric.adapters.tools.mcp.offer import Offer, Offered, PromptOffer, ResourceOffer
from fabric.core.taxonomy import Cause

if TYPE_CHECKING:
    from mcp import ClientSession

OFFERED_MAX = 2_000
"""Tools that one server may offer, and resources, and prompts."""
PAGES_MAX = 500
"""Pages of one listing. A server that gives fewer entries a page than this many pages can carry is refused as one that offers too much."""
Page = TypeVar("Page", bound=PaginatedResult)
T = TypeVar("T")


async def pages(ask: Callable[..., Awaitable[Page]], what: str) -> AsyncIterator[Page]:
    """The pages of a listing. One whose cursor was given before is the last: the same pages would come for ever. Raises NotStarted for too many."""
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


async def list_tools(session: ClientSession) -> dict[str, Offer]:
    """The tools by name. Raises NotStarted for more than ``OFFERED_MAX``, MCPError as the SDK does."""
    found: dict[str, Offer] = {}
    async for page in pages(session.list_tools, "tools"):
        found |= {tool.name: _tool(tool) for tool in page.tools}
        if len(found) > OFFERED_MAX:
            raise _too_many("tools")
    return found


async def list_resources(session: ClientSession) -> tuple[ResourceOffer, ...]:
    """The resources. Raises NotStarted for more than ``OFFERED_MAX``, MCPError as the SDK does."""
    found: list[ResourceOffer] = []
    async for page in pages(session.list_resources, "resources"):
        found += [
            ResourceOffer(str(one.uri), one.name, one.description or "", one.mime_type or "") for one in page.resources
        ]
        if len(found) > OFFERED_MAX:
            raise _too_many("resources")
    return tuple(found)


async def list_templates(session: ClientSession) -> tuple[ResourceOffer, ...]:
    """The templates of resources. Raises as ``list_resources`` does."""
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
    """The prompts. Raises as ``list_resources`` does."""
    found: list[PromptOffer] = []
    async for page in pages(session.list_prompts, "prompts"):
        found += [_prompt(one) for one in page.prompts]
        if len(found) > OFFERED_MAX:
            raise _too_many("prompts")
    return tuple(found)


async def list_all(session: ClientSession, tools: Iterable[Offer]) -> Offered:
    """Those tools, and what else the server says that it has. What it does not list is named with its reason. Raises NotStarted."""
    able = session.server_capabilities
    unlisted: list[tuple[str, str]] = []

    async def asked(what: str, lists: Callable[[ClientSession], Awaitable[tuple[T, ...]]]) -> tuple[T, ...]:
        try:
            return await lists(session)
        except MCPError as error:
            if error.error.code != METHOD_NOT_FOUND:
                unlisted.append((what, " ".join(error.error.message.split())))
            return ()

    resources: tuple[ResourceOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    if able is not None and able.resources is not None:
        resources = (*await asked("resources", list_resources), *await asked("resources/templates", list_templates))
    if able is not None and able.prompts is not None:
        prompts = await asked("prompts", list_prompts)
    return Offered(tuple(tools), resources, prompts, tuple(unlisted))


def _prompt(one: Prompt) -> PromptOffer:
    arguments = one.arguments or []
    required = tuple(each.name for each in arguments if each.required)
    return PromptOffer(one.name, one.description or "", tuple(each.name for each in arguments), required)


def _tool(tool: Tool) -> Offer:
    hints = tool.annotations
    return Offer(
        tool.name,
        tool.description or "",
        tool.input_schema,
        hints.read_only_hint if hints else None,
        hints.idempotent_hint if hints else None,
        hints.destructive_hint if hints else None,
    )
