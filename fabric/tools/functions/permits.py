"""Reads the operator's permits to fabrics: functions to call, commands for MCP servers, and environment variables to
pass on.

Authors of fabrics may neither run code on this machine nor read its secrets, so all three are lists of the operator's
(FABRIC_TOOLS, FABRIC_MCP_COMMANDS, FABRIC_TOOL_VARIABLES), empty unless set. Publication checks them, and so does the
worker before each start and call.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2

from fabric.http.transport import authority
from fabric.secrets.known_secrets import KNOWN, list_variable_secrets
from fabric.tools.functions import named_tools as named

if TYPE_CHECKING:
    from fabric.core.spec.mcp import McpServer
    from fabric.core.spec.tools import ToolSpec

OPEN_END = "..."
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM")
"""Variables that every command and every function gets. A program needs them to find its files, and none is a
secret.
"""


@dataclass(frozen=True, slots=True)
class Permits:
    """Permits of the operator. ``commands`` are words as a shell splits them; after a final ``...`` any words may
    follow.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    variables: frozenset[str] = frozenset()
    """``NAME``: for commands and functions. ``NAME@host:port``: as a header to that host, and to no other."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    tools: named.Named = field(default_factory=lambda: named.build_tools({}))
    """Functions by the names that fabrics use."""

    def callable_problems(self, spec: ToolSpec) -> Iterator[tuple[str, str]]:
        """Yield field and sentence where a fabric's callable tool may not be called."""
        yield from named.problems(spec, self.tools)
        if (found := self.tools.get(spec.target)) is not None and (problem := self._find_ungranted(found.variables)):
            yield "target", problem

    def command_problem(self, server: McpServer) -> str:
        """Return the reason why a stdio server may not be started, in one sentence; empty when it may."""
        words = (server.command, *server.args)
        if not any(_covers(allowed, words) for allowed in self.commands):
            line = shlex.join(words)
            return f"the command {line[:300]!r} is not allowed; have the operator add it to FABRIC_MCP_COMMANDS"
        return self._find_ungranted(server.variables)

    def headers_problem(self, url: str, headers_from: Mapping[str, str]) -> str:
        """Return the reason why headers may not go to an address, in one sentence; empty when they may."""
        where = authority(httpx2.URL(url))
        for header, name in headers_from.items():
            if header.lower() in RESERVED:
                return f"the header {header} is not a fabric's to set; leave it out"
            if f"{name}@{where}" not in self.variables:
                return f"{where} is sent the variable {name}, which is not allowed; have the operator add {name}@{where} to FABRIC_TOOL_VARIABLES"
        return ""

    def environment_of(self, variables: Iterable[str]) -> dict[str, str]:
        """Return the environment of a process with these variables. Raises LookupError with one sentence when one is
        not set here.
        """
        found = {name: self.environment[name] for name in INHERITED if name in self.environment}
        return found | dict(self._values(variables))

    def headers(self, headers_from: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with their values. Raises LookupError with one sentence when a variable is not set
        here.
        """
        values = dict(self._values(headers_from.values()))
        return {header: values[name] for header, name in headers_from.items()}

    def _find_ungranted(self, names: Iterable[str]) -> str:
        for name in names:
            if name not in self.variables:
                return f"it is given the variable {name}, which is not allowed; have the operator add {name} to FABRIC_TOOL_VARIABLES"
        return ""

    def _values(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            value = self.environment.get(name, "")
            if not value:
                raise LookupError(
                    f"the variable {name} is not set in this process's environment; set it and start again"
                )
            KNOWN.add("variables of tools", list_variable_secrets(value))
            yield name, value


NOTHING = Permits()
"""Permits of an operator who set none."""
RESERVED = frozenset(
    [
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept",
        "accept-encoding",
        "idempotency-key",
        "x-fabric-call",
        "mcp-session-id",
        "mcp-protocol-version",
        "last-event-id",
    ]
)
"""Headers that the call itself sets, in lower case."""


def _covers(allowed: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if allowed[-1] == OPEN_END:
        return words[: len(allowed) - 1] == allowed[:-1]
    return words == allowed
