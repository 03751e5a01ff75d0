"""Draws groups within groups as they are nested: circuit breakers with their signals, retry layers with their edges."""

from __future__ import annotations

from dataclasses import replace

from console.editor.draft import Editing
from console.forms.controls.fields import EditField, Missing, Node, at
from console.forms.controls.kinds import HOLDING
from console.forms.drafts.fields import standing
from console.forms.drafts.shape import shape_of
from fabric.core.spec.policies.stages import ONLY_IN


def node_of(editing: Editing, path: str, label: str = "", item: bool = False) -> Node:
    """A place with everything under it. What the draft does not say is shown as it holds."""
    shape = shape_of(path)
    assert shape is not None
    named = label or shape.label
    own = not isinstance(editing.at(path), Missing)
    if shape.kind == "items" and not item:
        found = at(editing.tree, path)
        held = standing(editing.tree, path) if isinstance(found, Missing) else found
        count = len(held) if isinstance(held, list) else 0
        items = tuple(node_of(editing, f"{path}.{n}", item=True) for n in range(count))
        return Node(path=path, label=named, kind="items", parts=items, own=own)
    every = shape.options if shape.kind == "table" else shape.fields
    names = [
        name for name in every if _belongs(f"{path}.{name}") or not isinstance(editing.at(f"{path}.{name}"), Missing)
    ]
    shapes = {name: shape_of(f"{path}.{name}") for name in names}
    made = {name: editing.field(f"{path}.{name}") for name, one in shapes.items() if one and one.kind not in HOLDING}
    keyed = shape.kind == "table"
    fields = tuple(_called(one, name) if keyed else one for name, one in made.items())
    inside = tuple(
        node_of(editing, f"{path}.{name}", name.replace("_", " ") if keyed else "")
        for name, one in shapes.items()
        if one and one.kind in HOLDING
    )
    return Node(path=path, label=named, kind="table" if keyed else "group", parts=(*fields, *inside), own=own)


def _belongs(path: str) -> bool:
    """Return False for a field without a meaning in a stage. Also for a stage's cells, which the decision table shows.
    Written ones are shown all the same.
    """
    parts = path.split(".")
    if parts[:2] != ["policy", "stages"] or len(parts) < 4:
        return True
    stage, inner = parts[2], ".".join(parts[3:])
    return inner != "decision_table" and (inner not in ONLY_IN or stage in ONLY_IN[inner][0])


def _called(field: EditField, key: str) -> EditField:
    """A field under a key is called by that."""
    return replace(field, shape=replace(field.shape, label=key.replace("_", " ").capitalize()))
