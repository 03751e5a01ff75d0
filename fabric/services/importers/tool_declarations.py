"""Makes declarations of tools and names for a fabric from the words of other systems.

A name becomes lower-case, and safe in a URL, a file name and a tool list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.nodes import write_yaml

NAME_CHARS = 63
_not_in_names = re.compile(r"[^a-z0-9_-]+")
_humps = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool with the notes that its author needs before publication."""

    tool: ToolSpec
    notes: tuple[str, ...]
    """Sentences without a full stop."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part that was not taken over."""

    path: str
    """Place of the part."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def tool_name(wanted: str, taken: Iterable[str]) -> str:
    """Return an unused name for a tool: ``getPetById`` is ``get_pet_by_id``."""
    plain = _not_in_names.sub("_", _humps.sub("_", wanted).lower()).strip("_-")
    stem = (plain if plain[:1].isalpha() else f"tool_{plain}".rstrip("_"))[:NAME_CHARS]
    used = set(taken)
    ends = ("", *(f"_{n}" for n in range(2, len(used) + 3)))
    return next(name for end in ends if (name := stem[: NAME_CHARS - len(end)] + end) not in used)


def yaml_of(found: Iterable[DeclaredTool], servers: Iterable[McpServer] = ()) -> str:
    """Return the groups ``mcp_servers`` (where there are any) and ``tools`` as YAML, each tool below the notes about
    it.
    """
    declared = [dump_given(one) for one in servers]
    text = write_yaml({"mcp_servers": declared}) if declared else ""
    text += "tools:\n"
    for one in found:
        text += "".join(f"  # {' '.join(note.split())}\n" for note in one.notes)
        text += write_yaml([dump_given(one.tool)])
    return text


def dump_given(group: BaseModel) -> JSON:
    """Return a group of fields as JSON, with the given fields only."""
    return group.model_dump(mode="json", by_alias=True, exclude_unset=True)


LONGEST = 63
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{LONGEST - 1}}}")


class ImportedNames:
    """Names given so far, of agents and of tools apart."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = dict(given or {})
        self._owners: dict[tuple[str, str], str] = {}
        self.renamed: dict[str, str] = {}
        """Names here by the source's names, where they differ."""

    def choose_name(self, what: str, theirs: Any) -> str:
        """Return the name used here. Raises ValueError with one sentence where there is none, or where it is taken."""
        if not isinstance(theirs, str) or not theirs:
            raise ValueError(f"names no {what}: {theirs!r}")
        ours = self._given.get(theirs) or _slug(theirs)
        if not _NAME.fullmatch(ours):
            raise ValueError(f"{theirs!r} cannot be made a name; give the {what} another one")
        owner = self._owners.setdefault((what, ours), theirs)
        if owner != theirs:
            raise ValueError(f"{theirs!r} and {owner!r} would both be named {ours!r}; give one of them another name")
        if ours != theirs:
            self.renamed[theirs] = ours
        return ours


def _slug(theirs: str) -> str:
    if _NAME.fullmatch(theirs):
        return theirs
    plain = re.sub(r"[^a-z0-9_]+", "-", theirs.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"n-{plain}")[:LONGEST]
