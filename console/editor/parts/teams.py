"""The teams of a hierarchy: who leads each, what it may spend, and how it works together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.editor.parts import graph as part_graph
from console.editor.parts import handoff as part_handoff
from console.forms.controls.fields import EditField
from console.forms.controls.schemas import properties_of
from console.forms.drafts.places import KIND_WORDS
from console.forms.drafts.shape import kinds_at, shape_of
from fabric.core.schema.topology import DEFAULT_KIND
from fabric.core.values.units import JSON

TEAMS = "topology.teams"
FIRST = (
    *("planner", "workers", "rounds", "critics", "judge"),
    *("aggregator", "critic", "finalizer"),
)
"""Fields of a team that always have a control, where its kind has them. Of others, those that are written."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing of a list in a team's topology: a brief, an item of a procedure."""

    path: str
    number: int
    noun: str
    fields: tuple[EditField, ...]


@dataclass(frozen=True, slots=True)
class TeamForm:
    """One team."""

    path: str
    lead: str
    fields: tuple[EditField, ...]
    parts: tuple[Part, ...]
    lists: tuple[tuple[str, str], ...]
    """Lists that one more thing can be added to: path and noun."""
    about: tuple[Any, ...]
    graph: dict[str, Any] | None = None
    """The rules of who speaks next, where its members take turns by a graph."""
    passing: dict[str, Any] | None = None
    """The table of who may pass on to whom, where they are peers."""


NOUNS = {"procedure": "item", "briefs": "brief"}


def teams(editing: Editing) -> dict[str, Any]:
    """The teams of a draft, and the workers that lead none yet."""
    found = editing.at(TEAMS)
    written = found if isinstance(found, dict) else {}
    forms = [_team(editing, f"{TEAMS}.{lead}", lead) for lead in written if isinstance(lead, str)]
    workers = [*editing.field("topology.workers").picked]
    workers += [name for one in forms for name in editing.field(f"{one.path}.topology.workers").picked]
    free = [name for name in dict.fromkeys(workers) if name not in written]
    return {"teams": forms, "free": free, "about": editing.about(TEAMS)}


def _team(editing: Editing, path: str, lead: str) -> TeamForm:
    within = f"{path}.topology"
    written = editing.at(within)
    group = written if isinstance(written, dict) else {}
    fields = [*editing.fields(path, "run_usd_micros", "run_tokens"), editing.field(f"{within}.kind", **KIND_WORDS)]
    kind = str(group.get("kind", DEFAULT_KIND))
    has = properties_of(kinds_at(within).get(kind, {}))
    graph = part_graph.build(editing, within) if kind == "graph" else None
    passing = part_handoff.build(editing, within) if kind == "handoff" else None
    names = dict.fromkeys((*(name for name in FIRST if _may(has, name)), *group))
    shown = part_graph.SHOWN if graph is not None else part_handoff.SHOWN if passing is not None else ()
    for name in shown:
        names.pop(name, None)
    parts: list[Part] = []
    lists: list[tuple[str, str]] = []
    for name in names:
        for one in _inside(f"{within}.{name}", group.get(name)):
            if one.rpartition(".")[2] in NOUNS:
                noun = NOUNS[one.rpartition(".")[2]]
                lists.append((one, noun))
                parts += [
                    Part(item, n + 1, noun, tuple(editing.fields(item, *_fields(item))))
                    for n in range(editing.count(one))
                    for item in (f"{one}.{n}",)
                ]
            elif name != "kind":
                fields.append(editing.field(one))
    return TeamForm(path, lead, tuple(fields), tuple(parts), tuple(lists), editing.about(path), graph, passing)


def _may(has: Collection[str], name: str) -> bool:
    """Return True where a kind has such a field. Procedures and debates have no planner."""
    return name in has and not (name == "planner" and {"procedure", "rounds"} & set(has))


def _inside(path: str, value: JSON) -> Iterator[str]:
    """The fields and lists at a place: it itself, or those of the group that it is."""
    shape = shape_of(path)
    if shape is None:
        return
    if shape.kind == "group":
        yield from (f"{path}.{name}" for name in shape.fields if isinstance(value, dict))
    else:
        yield path


def _fields(path: str) -> tuple[str, ...]:
    listed, _, _ = path.rpartition(".")
    shape = shape_of(listed)
    return () if shape is None else shape.fields
