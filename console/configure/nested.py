"""Places that hold groups within groups, drawn as they are nested: circuit breakers with their signals, retry layers with their edges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from console.configure.editing import Editing
from console.configure.fields import EditField, at, standing
from console.configure.shape import Missing, Shape, shape_of
from fabric.core.stage_policy import ONLY_IN

LEAVES = frozenset({"group", "items", "table"})


@dataclass(frozen=True, slots=True)
class Node:
    """A group of fields, or a list of such groups."""

    path: str
    label: str
    kind: str
    """``group``, ``items`` or ``table``."""
    fields: tuple[EditField, ...] = ()
    inside: tuple[Node, ...] = ()
    number: int = 0
    """Among the items of its list, from 1; 0: it is no item."""
    last: bool = False
    own: bool = False
    """Whether the draft says anything of it."""

    @property
    def counted(self) -> int:
        """How many things it holds."""
        return len(self.inside)


def node_of(editing: Editing, path: str, label: str = "", number: int = 0, last: bool = False) -> Node:
    """A place with everything under it. What the draft does not say is shown as it holds."""
    shape = shape_of(path)
    assert shape is not None
    named = label or shape.label
    own = not isinstance(editing.at(path), Missing)
    if shape.kind == "items" and not number:
        found = at(editing.tree, path)
        held = standing(editing.tree, path) if isinstance(found, Missing) else found
        count = len(held) if isinstance(held, list) else 0
        items = tuple(node_of(editing, f"{path}.{n}", "", n + 1, n + 1 == count) for n in range(count))
        return Node(path, named, "items", (), items, own=own)
    every = shape.options if shape.kind == "table" else _fields(path, shape)
    names = [
        name for name in every if _belongs(f"{path}.{name}") or not isinstance(editing.at(f"{path}.{name}"), Missing)
    ]
    shapes = {name: shape_of(f"{path}.{name}") for name in names}
    made = {name: editing.field(f"{path}.{name}") for name, one in shapes.items() if one and one.kind not in LEAVES}
    keyed = shape.kind == "table"
    fields = tuple(_called(one, name) if keyed else one for name, one in made.items())
    inside = tuple(
        node_of(editing, f"{path}.{name}", name.replace("_", " ") if keyed else "")
        for name, one in shapes.items()
        if one and one.kind in LEAVES
    )
    return Node(path, named, "table" if keyed else "group", fields, inside, number, last, own)


def _belongs(path: str) -> bool:
    """False for what means nothing in a stage, and for a stage's cells, which the decision table shows. What is written all the same is shown."""
    parts = path.split(".")
    if parts[:2] != ["policy", "stages"] or len(parts) < 4:
        return True
    stage, inner = parts[2], ".".join(parts[3:])
    return inner != "decision_table" and (inner not in ONLY_IN or stage in ONLY_IN[inner][0])


def _called(field: EditField, key: str) -> EditField:
    """A field under a key is called by that."""
    return replace(field, shape=replace(field.shape, label=key.replace("_", " ").capitalize()))


def _fields(path: str, shape: Shape) -> tuple[str, ...]:
    """The fields of a group; an item of a list has those of its list."""
    if shape.fields:
        return shape.fields
    listed = shape_of(path.rpartition(".")[0])
    return listed.fields if listed is not None else ()
