"""Declares the policy of a workspace, which binds all its fabrics. Only owners set it. Its rules are ``rules.RULES``.

A missing field sets no rule. Money is micro-dollars. Patterns match the target of a tool as one text: a host and path,
a server and its tool, an operator's name. The author of a fabric chooses the names of its tools and servers, so
patterns never match those. Hosts and paths are compared as servers read them (RFC 3986 6.2.2: case of the host, default
port, escapes, dot segments).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Micros, Positive, SpecGroup
from fabric.core.spec.http import PLACEHOLDER
from fabric.core.spec.mcp import McpServer, find_server, split_target
from fabric.core.spec.policies.gates import HttpTest
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Tier

KINDS = ("http", "mcp", "callable", "builtin")
"""Kinds of tools, one of which begins each pattern."""
READS_PAGES = "http_get"
"""The built-in that goes out to hosts."""
_PORTS = {"http": 80, "https": 443}
_ANY = "*"
_HOLE = "\x00"
"""Placeholder of an argument in a target; only a wildcard covers it."""


def find_subject(tool: ToolSpec, servers: Sequence[McpServer] = ()) -> str:
    """Return the target of a declared tool: ``http:HOST/PATH``, ``mcp:HOST/PATH#TOOL``, ``mcp:COMMAND ARGS#TOOL``,
    ``callable:NAME`` or ``builtin:NAME``. An argument in the path of an address becomes ``*``. "": the tool is
    the engine's own, of a memory or a conversation.
    """
    if tool.kind == "http":
        return f"http:{_place(tool.target)}"
    if tool.kind == "mcp":
        server = find_server(servers, tool.kind, tool.target)
        where = "" if server is None else _place(server.url) if server.url else " ".join((server.command, *server.args))
        return f"mcp:{where}#{split_target(tool.target)[1]}"
    if tool.kind in ("callable", "builtin"):
        return f"{tool.kind}:{tool.target or tool.name}"
    return ""


def goes_out(tool: ToolSpec) -> bool:
    """Return True if a tool reaches something beyond the run. Only built-ins that read the run's own data do not."""
    return tool.kind in ("http", "mcp", "callable") or find_subject(tool) == f"builtin:{READS_PAGES}"


def list_hosts(tool: ToolSpec, servers: Sequence[McpServer] = ()) -> Iterator[str]:
    """Yield the hosts that a tool calls. A host is a pattern where its author wrote one; "": it cannot be named."""
    if tool.kind == "http":
        yield read_host(tool.target)
    elif tool.kind == "mcp":
        server = find_server(servers, tool.kind, tool.target)
        if server is not None and server.url:
            yield read_host(server.url)
    elif find_subject(tool) == f"builtin:{READS_PAGES}":
        yield from (read_host(f"//{host}") for host in tool.allowed_hosts)


def host_of_test(test: HttpTest) -> str:
    """Return the host that a check of the oracle calls."""
    return read_host(test.url)


def read_host(url: str) -> str:
    """Return the host of an address in the form for comparing: lower case, no final dot, ASCII. "": there is none."""
    parts = _split(url)
    return "" if parts is None else _host(parts)


def patterns_meet(pattern: str, subject: str) -> bool:
    """Return True if some text matches both, where ``*`` in either stands for any characters. Case does not count."""
    return _meets(pattern.casefold(), subject.casefold())


def pattern_covers(pattern: str, subject: str) -> bool:
    """Return True if a pattern matches every possible text of a subject. Only a ``*`` covers a ``*`` of the subject."""
    return _regex(pattern).fullmatch(subject.replace(_ANY, _HOLE)) is not None


@lru_cache(maxsize=1_024)
def _regex(pattern: str) -> re.Pattern[str]:
    # Several stars in a row are one, which bounds the ways of matching.
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\*+", pattern)), re.DOTALL)


def _meets(one: str, other: str) -> bool:
    """Match both patterns in one walk. Each pair of positions is visited once, so the work is the product of their
    lengths.
    """
    now = {0}
    for char in one:
        now = _further(now, other) if char == _ANY else _take_char(_skip_stars(now, other), other, char)
        if not now:
            return False
    return len(other) in _skip_stars(now, other)


def _skip_stars(places: set[int], other: str) -> set[int]:
    """Return the positions, and those behind stars that match nothing."""
    found = set(places)
    for place in range(len(other)):
        if place in found and other[place] == _ANY:
            found.add(place + 1)
    return found


def _further(places: set[int], other: str) -> set[int]:
    return set(range(min(places), len(other) + 1)) if places else set()


def _take_char(places: set[int], other: str, char: str) -> set[int]:
    found = set()
    for place in places:
        if place < len(other) and other[place] == _ANY:
            found.add(place)
        elif place < len(other) and other[place] == char:
            found.add(place + 1)
    return found


def _place(url: str) -> str:
    """Return the host, the port if it is not the scheme's own, and the path of an address."""
    parts = _split(PLACEHOLDER.sub(_HOLE, url))
    if parts is None:
        return ""
    path = posixpath.normpath(unquote(parts.path) or "/")
    return f"{_host(parts)}{_port(parts)}/{path.lstrip('/').replace(_HOLE, _ANY)}"


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url.strip().replace("\\", "/"))
        _ = parts.port
    except ValueError:
        return None
    return parts


def _host(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".").lower()
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host


def _port(parts: SplitResult) -> str:
    port = parts.port
    return "" if port is None or port == _PORTS.get(parts.scheme) else f":{port}"


ENTRIES_MAX = 200
_PAGE = "docs/specification/budgets.md"
LimitName = Literal[
    "hops",
    "recursion",
    "turns",
    "calls_per_turn",
    "sub_agents_alive",
    "sub_agents_spawned",
    "plan_branches",
    "replans_per_stage",
    "run_events",
    "run_payload_bytes",
    "pending_calls",
    "claims_without_progress",
    "corrections_per_step",
]
"""The limits that a policy may hold down: fields of ``policy.Limits``, by test."""
Protection = Literal["credentials", "screening", "loop_detector", "progress", "deadlock_monitor", "cost_velocity"]
"""The protections that a policy may keep on."""


_HOST = re.compile(r"(\*\.)?[A-Za-z0-9._-]+")


def _is_tool(given: str) -> str:
    kind, colon, rest = given.partition(":")
    if not colon or kind not in KINDS or not rest.strip():
        raise ValueError(
            f"{given[:80]!r} is no pattern of a tool: begin with {', '.join(f'{one}:' for one in KINDS)}, as in http:api.example.com/pay/*"
        )
    if kind != "http":
        return given
    host, slash, path = rest.partition("/")
    return f"{kind}:{host.lower()}{slash}{path}"


def _is_host(given: Any) -> Any:
    if isinstance(given, str) and not _HOST.fullmatch(given.strip()):
        raise ValueError(f"{given[:80]!r} is no host: give a name such as api.example.com, or *.example.com")
    return given.strip().lower().rstrip(".") if isinstance(given, str) else given


def _is_origin(given: str) -> str:
    try:
        parts = urlsplit(given)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        port = None
        parts = urlsplit("")
    if not parts.hostname or port is None or parts.path.strip("/") or parts.query or parts.username is not None:
        raise ValueError(f"{given[:80]!r} is no endpoint: give scheme, host and port, as in https://api.openai.com:443")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


ToolPattern = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]*$"),
    AfterValidator(_is_tool),
]
HostPattern = Annotated[
    str,
    BeforeValidator(_is_host),
    StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.*_-]+$"),
]
ToolPatterns = Annotated[tuple[ToolPattern, ...], Field(max_length=ENTRIES_MAX)]
HostPatterns = Annotated[tuple[HostPattern, ...], Field(max_length=ENTRIES_MAX)]
Origin = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300), AfterValidator(_is_origin)]
Waivers = Literal["author", "four_eyes", "nobody"]
"""Permission to waive the approval of an irreversible tool. It is the author's, that of a fabric with four eyes in all
tiers, or no one's.
"""


_REFUSED = "no fabric with a larger cap is published, and its runs get this one"


class PolicyCaps(SpecGroup):
    """The largest caps that fabrics may have."""

    run_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a run",
        Unit.USD,
        "A run may spend at most this amount.",
        stops="a fabric with a larger cap cannot be published, and its runs get this one",
        source=_PAGE,
    )
    session_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a session",
        Unit.USD,
        "All runs of a session together may spend at most this amount.",
        stops="a fabric with a larger cap cannot be published, and its runs get this one",
        source=_PAGE,
    )
    tiers: dict[Tier, Micros] = declare_limit(
        {},
        "Money of a run in a tier",
        Unit.USD,
        "A run of a tier may spend at most this amount.",
        stops="a fabric with a larger cap cannot be published, and its runs get this one",
        source=_PAGE,
    )


class KeyCapGiven(SpecGroup):
    """The caps of the keys of one endpoint."""

    day_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a key, a day",
        Unit.USD,
        "All calls with this key may spend at most this amount in a day (UTC).",
        stops="a call that may need more is refused, in every run of the workspace",
        source=_PAGE,
    )
    month_usd_micros: Micros | None = declare_limit(
        None,
        "Money of a key, a month",
        Unit.USD,
        "All calls with this key may spend at most this amount in a calendar month (UTC).",
        stops="a call that may need more is refused, in every run of the workspace",
        source=_PAGE,
    )


class WorkspacePolicy(SpecGroup):
    """Rules for every fabric of a workspace. A missing field sets no rule."""

    irreversible: ToolPatterns = Field(
        default=(),
        description="Tools whose calls cannot be undone, for every fabric: http:HOST/PATH, mcp:HOST/PATH#TOOL, mcp:COMMAND ARGS#TOOL, callable:NAME; * matches any characters.",
    )
    tools: ToolPatterns | None = Field(
        default=None,
        description="The tools that fabrics may call, in the same spelling. None: any. Built-in tools that read a run's own documents need no entry.",
    )
    hosts: HostPatterns | None = Field(
        default=None,
        description="The hosts that tools, MCP servers, checks and models may use: api.example.com or *.example.com. None: any.",
    )
    four_eyes: tuple[Tier, ...] = Field(
        default=(), description="Tiers in which two people must approve, in every fabric that has these tiers."
    )
    waivers: Waivers = Field(
        default="author",
        description="Fabrics that may waive the approval of an irreversible tool. four_eyes: only fabrics whose tiers all have four eyes.",
    )
    caps: PolicyCaps = Field(default=PolicyCaps(), description="The largest caps.")
    limits: dict[LimitName, Positive] = Field(default={}, description="The highest values of policy.limits.")
    protections: tuple[Protection, ...] = Field(
        default=(), description="Protections that no fabric may switch off, or weaken below the product's defaults."
    )

    keys: dict[Origin, KeyCapGiven] = Field(
        default={},
        max_length=ENTRIES_MAX,
        description="Caps of the keys of endpoints, by scheme, host and port, such as https://api.openai.com:443.",
    )

    @property
    def says_nothing(self) -> bool:
        """Return True if the policy has no rule."""
        return self == NOTHING


NOTHING = WorkspacePolicy()
