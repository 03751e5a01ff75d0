"""The path at which an author wrote what pydantic objects to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.core.schema.topology import DEFAULT_KIND
from fabric.core.values.units import JSON


def path_in(tree: JSON, loc: Sequence[int | str]) -> str:
    """Return a place that pydantic names as it was written in ``tree``. For a group of several kinds pydantic adds the
    kind, which is left out.
    """
    path: list[str] = []
    node, entered = tree, False
    for part in loc:
        if not entered and _names_the_kind(node, part):
            entered = True
            continue
        path.append(str(part))
        entered = False
        inside = isinstance(node, Mapping) and part in node
        inside = inside or (isinstance(node, list | tuple) and isinstance(part, int) and part < len(node))
        node = node[part] if inside else None
    return ".".join(path)


def _names_the_kind(node: JSON, part: int | str) -> bool:
    """Return True if ``part`` is the kind of the group at ``node``, or of the group that belongs there."""
    if not isinstance(node, Mapping):
        return isinstance(node, str | int | float) and isinstance(part, str)
    return part not in node and str(node.get("kind", DEFAULT_KIND)) == part
