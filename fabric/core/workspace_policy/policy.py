"""A workspace's policy: what holds for each of its fabrics, whoever wrote it. Owners alone set it. Its rules are ``rules.RULES``.

A field that is not given says nothing. Money is micro-dollars.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from fabric.core.spec_parts import Micros, Positive, SpecGroup
from fabric.core.taxonomy import Tier
from fabric.core.workspace_policy.subjects import KINDS

ENTRIES_MAX = 200
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
"""Who may waive the approval of an irreversible tool: the fabric's author, a fabric all of whose tiers have four eyes, or nobody."""


class PolicyCaps(SpecGroup):
    """The largest caps that fabrics may have."""

    run_usd_micros: Micros | None = Field(default=None, description="Most that a run may spend, micro-dollars.")
    session_usd_micros: Micros | None = Field(
        default=None, description="Most that the runs of a session may spend together, micro-dollars."
    )
    tiers: dict[Tier, Micros] = Field(default={}, description="Most that a run of a tier may spend, micro-dollars.")


class KeyCapGiven(SpecGroup):
    """What may be spent with the keys of an endpoint."""

    day_usd_micros: Micros | None = Field(default=None, description="Most in a day (UTC), micro-dollars.")
    month_usd_micros: Micros | None = Field(default=None, description="Most in a calendar month (UTC), micro-dollars.")


class WorkspacePolicy(SpecGroup):
    """What holds for every fabric of a workspace. A field that is not given says nothing."""

    irreversible: ToolPatterns = Field(
        default=(),
        description="Tools whose calls cannot be undone, whatever a fabric says: http:HOST/PATH, mcp:HOST/PATH#TOOL, mcp:COMMAND ARGS#TOOL, "
        "callable:NAME; * stands for any characters.",
    )
    tools: ToolPatterns | None = Field(
        default=None,
        description="The tools that fabrics may call, in the same spelling. None: any. Built-in tools that read a run's own documents need no entry.",
    )
    hosts: HostPatterns | None = Field(
        default=None,
        description="The hosts that tools, MCP servers, checks and models of fabrics may name: api.example.com or *.example.com. None: any.",
    )
    four_eyes: tuple[Tier, ...] = Field(
        default=(), description="Tiers in which two people agree, in every fabric that has them."
    )
    waivers: Waivers = Field(
        default="author",
        description="Who may waive the approval of an irreversible tool. four_eyes: only fabrics all of whose tiers have four eyes.",
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
        """Whether no rule holds anything."""
        return self == NOTHING


NOTHING = WorkspacePolicy()
