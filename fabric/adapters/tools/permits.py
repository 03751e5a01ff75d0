"""What an operator lets fabrics do beyond asking public addresses: functions to call, commands to run as MCP servers, and environment variables to hand out.

A fabric is written by people who may not run code on this machine and may not read its secrets, so all three are lists of the operator's
(FABRIC_TOOLS, FABRIC_MCP_COMMANDS, FABRIC_TOOL_VARIABLES), empty unless set. Publication asks them, and so does the worker before each start and each call.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2

from fabric.adapters.known_secrets import KNOWN, of_variable
from fabric.adapters.tools import named
from fabric.adapters.tools.outbound import authority

if TYPE_CHECKING:
    from fabric.core.spec_mcp import McpServer
    from fabric.core.spec_tools import ToolSpec

OPEN_END = "..."
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM")
"""Variables that every command and every function is given: what a program needs to find its files, and no secret of the installation's."""


@dataclass(frozen=True, slots=True)
class Permits:
    """The operator's word. ``commands`` are words as a shell parts them; one that ends with ``...`` lets any words follow."""

    commands: tuple[tuple[str, ...], ...] = ()
    variables: frozenset[str] = frozenset()
    """``NAME``: for commands and functions. ``NAME@host:port``: as a header to that host, and to no other."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    tools: named.Named = field(default_factory=lambda: named.tools_of({}))
    """Functions by the names that fabrics use."""

    def callable_problems(self, spec: ToolSpec) -> Iterator[tuple[str, str]]:
        """Why a fabric's callable tool may not be called: the field and a sentence each."""
        yield from named.problems(spec, self.tools)
        if (found := self.tools.get(spec.target)) is not None and (problem := self._ungranted(found.variables)):
            yield "target", problem

    def command_problem(self, server: McpServer) -> str:
        """Why a stdio server may not be started; empty when it may. One sentence."""
        words = (server.command, *server.args)
        if not any(_covers(allowed, words) for allowed in self.commands):
            line = shlex.join(words)
            return f"the command {line[:300]!r} is not allowed; have the operator add it to FABRIC_MCP_COMMANDS"
        return self._ungranted(server.variables)

    def headers_problem(self, url: str, headers_from: Mapping[str, str]) -> str:
        """Why headers may not go to an address; empty when they may. One sentence."""
        where = authority(httpx2.URL(url))
        for header, name in headers_from.items():
            if header.lower() in RESERVED:
                return f"the header {header} is not a fabric's to set; leave it out"
            if f"{name}@{where}" not in self.variables:
                return f"{where} is sent the variable {name}, which is not allowed; have the operator add {name}@{where} to FABRIC_TOOL_VARIABLES"
        return ""

    def environment_of(self, variables: Iterable[str]) -> dict[str, str]:
        """What a process is given that is to have those variables. LookupError with one sentence when one is not set here."""
        found = {name: self.environment[name] for name in INHERITED if name in self.environment}
        return found | dict(self._values(variables))

    def headers(self, headers_from: Mapping[str, str]) -> dict[str, str]:
        """The headers with their values. LookupError with one sentence when a variable is not set here."""
        values = dict(self._values(headers_from.values()))
        return {header: values[name] for header, name in headers_from.items()}

    def _ungranted(self, names: Iterable[str]) -> str:
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
            KNOWN.add("variables of tools", of_variable(value))
            yield name, value


NOTHING = Permits()
"""What holds unless the operator says otherwise."""
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
