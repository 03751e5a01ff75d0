"""Finds the published fabrics and the drafts that use a model or a tool.

Each list takes one statement. Texts are read once a process, since equal texts name equal parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.policy import find_subject
from fabric.models import Draft, Fabric
from fabric.selectors.reach import match_visible
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml

DRAFTS_MAX = 100
"""Number of drafts that are read, the newest first."""
USES_MAX = 8
"""Largest number of named fabrics, and of drafts, that use a tool."""
P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftUse:
    """A draft that uses a model or a tool."""

    fabric: str
    author: str
    own: bool
    """True: it is the actor's, who can open it."""


@dataclass(frozen=True, slots=True)
class DraftParts:
    """The sound models and tools in a draft's text; other parts may have errors."""

    models: tuple[ModelSpec, ...]
    tools: tuple[str, ...]
    """Targets of the tools (``find_subject``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUses:
    """Other fabrics with a tool of the same target, and drafts; at most ``USES_MAX`` of each."""

    published: tuple[tuple[str, int], ...] = ()
    """Fabric, and number of the revision that new runs pin."""
    drafts: tuple[DraftUse, ...] = ()
    more: int = 0
    """Number of further ones."""


NO_USES = ToolUses()


@lru_cache(maxsize=256)
def read_spec(stored: str) -> FabricSpec:
    """Return the spec of a revision from its stored JSON. Raises ValidationError."""
    return FabricSpec.model_validate_json(stored)


def list_published(actor: Actor) -> list[Fabric]:
    """Return the published fabrics that the actor sees, by name, each with its revision. One statement."""
    rows = Fabric.objects.filter(match_visible(actor, Fabric), published__isnull=False)
    return list(rows.select_related("published").defer("published__source").order_by("name"))


def list_draft_parts(actor: Actor) -> Iterator[tuple[DraftUse, DraftParts]]:
    """Yield the drafts that the actor sees, by fabric, with their parts. One statement."""
    rows = Draft.objects.filter(match_visible(actor, Draft)).order_by("-changed_at", "id")
    for name, author, text in sorted(rows.values_list("name", "author", "text")[:DRAFTS_MAX]):
        yield DraftUse(fabric=name, author=author, own=author == actor.name), _read_parts(text)


def find_tool_uses(actor: Actor, fabric: str, spec: FabricSpec) -> Mapping[str, ToolUses]:
    """Return the uses of a fabric's tools in other fabrics and in drafts, by name of the tool. Two statements."""
    targets = {tool.name: target for tool in spec.tools if (target := find_subject(tool, spec.mcp_servers))}
    if not targets:
        return {}
    published: dict[str, list[tuple[str, int]]] = {}
    for row in list_published(actor):
        if row.name != fabric and row.published is not None:
            for target in _read_targets(row.published.spec):
                published.setdefault(target, []).append((row.name, row.published.number))
    drafts: dict[str, list[DraftUse]] = {}
    for use, parts in list_draft_parts(actor):
        for target in parts.tools:
            drafts.setdefault(target, []).append(use)
    return {name: _cut(published.get(target, []), drafts.get(target, [])) for name, target in targets.items()}


def _cut(published: list[tuple[str, int]], drafts: list[DraftUse]) -> ToolUses:
    more = max(0, len(published) - USES_MAX) + max(0, len(drafts) - USES_MAX)
    return ToolUses(published=tuple(published[:USES_MAX]), drafts=tuple(drafts[:USES_MAX]), more=more)


@lru_cache(maxsize=1024)
def _read_targets(stored: str) -> frozenset[str]:
    """Return the targets of a revision's tools; none where this version cannot read it."""
    try:
        spec = read_spec(stored)
    except ValidationError:
        return frozenset()
    return frozenset(_list_targets(spec.tools, spec.mcp_servers))


@lru_cache(maxsize=256)
def _read_parts(text: str) -> DraftParts:
    try:
        tree = read_yaml(text).value
    except YamlProblem:
        return DraftParts((), ())
    fields = tree if isinstance(tree, dict) else {}
    servers = _list_sound(fields.get("mcp_servers"), McpServer)
    tools = frozenset(_list_targets(_list_sound(fields.get("tools"), ToolSpec), servers))
    return DraftParts(_list_sound(fields.get("models"), ModelSpec), tuple(sorted(tools)))


def _list_targets(tools: Sequence[ToolSpec], servers: Sequence[McpServer]) -> Iterator[str]:
    return (target for tool in tools if (target := find_subject(tool, servers)))


def _list_sound(listed: JSON, kind: type[P]) -> tuple[P, ...]:
    """Return the parts of a list that have no error."""
    found = []
    for one in listed if isinstance(listed, list) else ():
        try:
            found.append(kind.model_validate(one))
        except ValidationError:
            continue
    return tuple(found)
