"""Declarations of tools as they are pasted into a fabric: made of what an MCP server or an OpenAPI document says, and still their author's to judge."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fabric.core.spec_mcp import McpServer
from fabric.core.spec_tools import ToolSpec
from fabric.services.yaml_render import block_lines

JSON = Any
NAME_CHARS = 63
_not_in_names = re.compile(r"[^a-z0-9_-]+")
_humps = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool with what its author has to know before it is published."""

    tool: ToolSpec
    notes: tuple[str, ...]
    """Sentences without a full stop."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was not taken over."""

    path: str
    """Where it stands."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def tool_name(wanted: str, taken: Iterable[str]) -> str:
    """A name for a tool that nothing else has: ``getPetById`` is ``get_pet_by_id``."""
    plain = _not_in_names.sub("_", _humps.sub("_", wanted).lower()).strip("_-")
    stem = (plain if plain[:1].isalpha() else f"tool_{plain}".rstrip("_"))[:NAME_CHARS]
    used = set(taken)
    ends = ("", *(f"_{n}" for n in range(2, len(used) + 3)))
    return next(name for end in ends if (name := stem[: NAME_CHARS - len(end)] + end) not in used)


def yaml_of(found: Iterable[Declared], servers: Iterable[McpServer] = ()) -> str:
    """Groups ``mcp_servers``, where there are any, and ``tools`` as YAML, each tool below what there is to know of it."""
    lines: list[str] = []
    if declared := [as_written(one) for one in servers]:
        lines += ["mcp_servers:", *block_lines(declared, 2)]
    lines.append("tools:")
    for one in found:
        lines += [f"  # {' '.join(note.split())}" for note in one.notes]
        lines += block_lines([as_written(one.tool)], 2)
    return "\n".join(lines) + "\n"


def as_written(group: BaseModel) -> JSON:
    """A group of fields as JSON, with those that were given and no other."""
    return group.model_dump(mode="json", by_alias=True, exclude_unset=True)
