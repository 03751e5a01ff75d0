"""What a tool reaches, as one text that patterns are held against: a host and path, a server and its tool, an operator's name.

The author of a fabric picks the names of its tools and servers, so no pattern goes by those. Hosts and paths are compared as servers read them
(RFC 3986 6.2.2: case of the host, default port, escapes, dot segments).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit

from fabric.core.gates import HttpTest
from fabric.core.spec_http import PLACEHOLDER
from fabric.core.spec_mcp import McpServer, parted, server_of
from fabric.core.spec_tools import ToolSpec

KINDS = ("http", "mcp", "callable", "builtin")
"""What a pattern of a tool begins with: the tool's kind."""
READS_PAGES = "http_get"
"""The built-in that goes out to hosts."""
_PORTS = {"http": 80, "https": 443}
_ANY = "*"
_HOLE = "\x00"
"""Stands where a target has an argument: a wildcard alone covers it."""


def subject_of(tool: ToolSpec, servers: Sequence[McpServer] = ()) -> str:
    """Returns what a declared tool reaches: ``http:HOST/PATH``, ``mcp:HOST/PATH#TOOL``, ``mcp:COMMAND ARGS#TOOL``, ``callable:NAME`` or ``builtin:NAME``.

    An argument in the path of an address stands as ``*``. Empty: the tool is the engine's own, of a memory or a conversation.
    """
    if tool.kind == "http":
        return f"http:{_place(tool.target)}"
    if tool.kind == "mcp":
        server = server_of(servers, tool.kind, tool.target)
        where = "" if server is None else _place(server.url) if server.url else " ".join((server.command, *server.args))
        return f"mcp:{where}#{parted(tool.target)[1]}"
    if tool.kind in ("callable", "builtin"):
        return f"{tool.kind}:{tool.target or tool.name}"
    return ""


def goes_out(tool: ToolSpec) -> bool:
    """Whether a tool reaches something beyond the run: every kind but the built-ins that read what the run has."""
    return tool.kind in ("http", "mcp", "callable") or subject_of(tool) == f"builtin:{READS_PAGES}"


def hosts_of(tool: ToolSpec, servers: Sequence[McpServer] = ()) -> Iterator[str]:
    """The hosts that a tool asks, as patterns where its author gave patterns. An empty text: a host that nobody names."""
    if tool.kind == "http":
        yield host_of(tool.target)
    elif tool.kind == "mcp":
        server = server_of(servers, tool.kind, tool.target)
        if server is not None and server.url:
            yield host_of(server.url)
    elif subject_of(tool) == f"builtin:{READS_PAGES}":
        yield from (host_of(f"//{host}") for host in tool.allowed_hosts)


def host_of_test(test: HttpTest) -> str:
    """The host that a check of the oracle asks."""
    return host_of(test.url)


def host_of(url: str) -> str:
    """The host of an address as it is compared: in lower case, without a dot at its end, in ASCII. Empty: there is none."""
    parts = _split(url)
    return "" if parts is None else _host(parts)


def meets(pattern: str, subject: str) -> bool:
    """Whether some text fits both, where ``*`` in either stands for any characters. Case does not count."""
    return _meets(pattern.casefold(), subject.casefold())


def covers(pattern: str, subject: str) -> bool:
    """Whether a pattern fits whatever a subject may turn out to be: a ``*`` of the subject is covered by a ``*`` alone."""
    return _regex(pattern).fullmatch(subject.replace(_ANY, _HOLE)) is not None


@lru_cache(maxsize=1_024)
def _regex(pattern: str) -> re.Pattern[str]:
    # Runs of stars are one: a pattern has no more ways to fit than it has stars.
    return re.compile(".*".join(re.escape(part) for part in re.split(r"\*+", pattern)), re.DOTALL)


def _meets(one: str, other: str) -> bool:
    """Walks both at once; a place is looked at once, so the work is the product of their lengths."""
    now = {0}
    for char in one:
        now = _further(now, other) if char == _ANY else _taken(_skipped(now, other), other, char)
        if not now:
            return False
    return len(other) in _skipped(now, other)


def _skipped(places: set[int], other: str) -> set[int]:
    """The places, and those behind stars that stand for nothing."""
    found = set(places)
    for place in range(len(other)):
        if place in found and other[place] == _ANY:
            found.add(place + 1)
    return found


def _further(places: set[int], other: str) -> set[int]:
    return set(range(min(places), len(other) + 1)) if places else set()


def _taken(places: set[int], other: str, char: str) -> set[int]:
    found = set()
    for place in places:
        if place < len(other) and other[place] == _ANY:
            found.add(place)
        elif place < len(other) and other[place] == char:
            found.add(place + 1)
    return found


def _place(url: str) -> str:
    """Host, port where it is not the scheme's own, and path of an address."""
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
