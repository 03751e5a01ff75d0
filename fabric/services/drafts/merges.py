"""The merge brings what was published meanwhile into a draft, by path. Where both changed the same its
author chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.three_way import ABSENT, Absent, Conflict, three_way
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.edits import (
    DropEdit,
    Edit,
    EditProblem,
    PutEdit,
    edits_between,
    text_edited,
    tree_edited,
)
from fabric.services.fabrics.yaml.tree import Path, read_yaml

Choices = Mapping[str, Literal["mine", "theirs"]]


class DraftConflict(Refused):
    """A draft and a publication since then changed the same paths. Nothing was saved; each conflict has both values."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        paths = ", ".join(one.path for one in conflicts[:5])
        more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
        message = f"{paths}{more} was changed in the draft and in what was published meanwhile: look at both, and say which is to stand"
        super().__init__(message, code="conflict", field=conflicts[0].path)
        self.conflicts = tuple(conflicts)


@dataclass(frozen=True, slots=True)
class BroughtIn:
    """A draft with later publications merged in."""

    text: str
    """Text with every choice made; paths without a choice stay as the draft had them."""
    base_text: str
    """Text that the draft changes from now on."""
    conflicts: tuple[Conflict, ...]
    """Paths that both sides changed and that have no choice yet."""
    taken: tuple[str, ...]
    """Merged paths."""


def brought_in(
    *, base_text: str, text: str, base: FabricSpec | None, published: FabricSpec, choices: Choices | None = None
) -> BroughtIn:
    """Return a draft's text with what was published since it began. ``base``: the revision that it began from; None:
    there was none.

    The publication is read as changes against ``base``, so a default that one side writes out and the other leaves
    out is no change. Raises YamlProblem where the draft is no YAML.
    """
    before, mine = read_yaml(base_text).value, read_yaml(text).value
    theirs = (
        _apply_edits(before, _list_changes(sparse(base), sparse(published))) if base is not None else sparse(published)
    )
    found = three_way(before, mine, theirs, dict(choices or {}))
    new_base = text_edited(base_text, edits_between(before, theirs)) if base is not None else base_text
    return BroughtIn(text_edited(text, edits_between(mine, found.value)), new_base, found.conflicts, found.from_theirs)


def sparse(spec: FabricSpec) -> JSON:
    """Return a spec as a tree without its defaults."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _list_changes(before: JSON, after: JSON, path: Path = ()) -> Iterator[Edit]:
    """Yield the changes between two sparse trees, leaf by leaf. In an absent group everything has its default."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new, here = before.get(name, ABSENT), after.get(name, ABSENT), (*path, name)
        if isinstance(old, dict | Absent) and isinstance(new, dict | Absent):
            yield from _list_changes({} if old is ABSENT else old, {} if new is ABSENT else new, here)
        elif new is ABSENT:
            yield DropEdit(here)
        elif old is ABSENT:
            yield PutEdit(here, new)
        else:
            yield from edits_between(old, new, here)


def _apply_edits(tree: JSON, edits: Iterable[Edit]) -> JSON:
    """Return a tree with edits. The tree may write defaults out, so a dropped path may be missing; no group stays
    empty.
    """
    for edit in edits:
        try:
            tree = tree_edited(tree, [edit])
        except EditProblem:
            if not isinstance(edit, DropEdit):
                raise
        if isinstance(edit, DropEdit):
            tree = _drop_empty_groups(tree, edit.path)
    return tree


def _drop_empty_groups(tree: JSON, path: Path) -> JSON:
    """Return the tree without groups that became empty around a dropped path."""
    for end in range(len(path) - 1, 0, -1):
        around = tree
        for part in path[:end]:
            inside = isinstance(around, list) or (isinstance(around, dict) and part in around)
            around = around[part] if inside else None
        if around != {}:
            break
        tree = tree_edited(tree, [DropEdit(path[:end])])
    return tree
