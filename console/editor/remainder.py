"""Reads as much as possible of a topology with mistakes. It cuts the mistakes out, from the inside, until the rest is a
topology of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from pydantic import TypeAdapter, ValidationError

from console.forms.controls.fields import MISSING, at
from console.forms.drafts.places import KEYED
from console.forms.drafts.shape import place_of, shape_of
from fabric.core.schema.topology import TopologySpec
from fabric.core.spec.topologies.kinds import Topology
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.document import FabricProblem, list_problems

ROUNDS_MAX = 12
"""So often parts are cut out: another part may rest on one that goes."""
_TOPOLOGY: TypeAdapter[TopologySpec] = TypeAdapter(Topology)


def readable(topology: JSON, agents: frozenset[str]) -> tuple[TopologySpec | None, list[str]]:
    """Return the topology without its mistakes, and a sentence for each thing that was left out. None: too little is
    left to be one of its kind.

    ``agents``: the names there are. A worker who speaks first and is missing is the first of the workers.
    """
    root: JSON = {"topology": deepcopy(topology)}
    said: list[str] = []
    for _ in range(ROUNDS_MAX):
        try:
            read: TopologySpec = _TOPOLOGY.validate_python(root["topology"])
        except ValidationError as error:
            found = list_problems(error, root, ("topology",))
        else:
            found = list(_find_unknown_agents(read, agents))
            if not found:
                return read, said
        if not _cut(root, found, said):
            break
    return None, []


def _find_unknown_agents(read: TopologySpec, agents: frozenset[str]) -> Iterator[FabricProblem]:
    """The roles of agents that there are not."""
    for field, name in read.roles().items():
        if name not in agents:
            yield FabricProblem(f"topology.{field}", f"{name!r} is no agent of this fabric")


def _cut(root: JSON, found: list[FabricProblem], said: list[str]) -> bool:
    """Cut out what the problems are about; False where nothing can be."""
    places = {place: one for one in found if (place := _whole(one.path)) is not None}
    done = False
    # Backwards: what stands behind it in its list keeps its place until then.
    for place, one in sorted(places.items(), key=lambda item: _parts(item[0]), reverse=True):
        around, _, last = place.rpartition(".")
        inside = at(root, around)
        if at(root, place) is MISSING:
            done |= _begun(root, place)
            continue
        if isinstance(inside, list):
            del inside[int(last)]
        else:
            del inside[last]
        said.append(f"{place} is left out: {one.sentence}."[:200])
        done = True
    return done


def _parts(place: str) -> list[tuple[bool, int, str]]:
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in place.split(".")]


def _whole(path: str) -> str | None:
    """Return the smallest thing around a path that a topology can do without. It is a list's item, a table's row, or a
    field. None: the topology needs it. None: the topology needs it.
    """
    parts = path.split(".")
    own = 4 if parts[1:2] == ["teams"] and parts[3:4] == ["topology"] and len(parts) > 4 else 1
    for end in range(len(parts), own + 1, -1):
        if parts[end - 1].isdecimal() or place_of(".".join(parts[: end - 1])) in KEYED:
            return ".".join(parts[:end])
    if parts[own : own + 1] and parts[own] not in ("kind", "workers"):
        return ".".join(parts[: own + 1])
    return ".".join(parts[:3]) if own == 4 else None


def _begun(root: JSON, place: str) -> bool:
    """Return True where a missing value could be put in: the first worker, where an agent is named."""
    shape = shape_of(place)
    around, _, last = place.rpartition(".")
    workers, inside = at(root, f"{around}.workers"), at(root, around)
    if (
        shape is None
        or shape.refers != "agents"
        or not (isinstance(workers, list) and workers and isinstance(inside, dict))
    ):
        return False
    inside[last] = workers[0]
    return True
