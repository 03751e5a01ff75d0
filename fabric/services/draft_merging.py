"""What is done where two changed a draft, or a draft and what is published: merged by path, and asked where both changed the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.spec import FabricSpec
from fabric.core.three_way import Conflict, three_way
from fabric.services.errors import Refused
from fabric.services.tree_difference import edits_between
from fabric.services.yaml_edit import Drop, Edit, EditProblem, text_edited, tree_edited
from fabric.services.yaml_tree import YamlProblem, read_yaml

JSON = Any
Choices = Mapping[str, Literal["mine", "theirs"]]


class DraftConflict(Refused):
    """Two changed the same. Nothing was saved; what both have is told, path by path."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        paths = ", ".join(one.path for one in conflicts[:5])
        more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
        message = f"{paths}{more} was changed by somebody else since this page was loaded: look at both, and say which is to stand"
        super().__init__(message, code="conflict", field=conflicts[0].path)
        self.conflicts = tuple(conflicts)


def merged_edits(shown: str, now: str, edits: Sequence[Edit], choices: Choices | None = None) -> str:
    """The text with edits that were meant for an earlier one. Raises DraftConflict, YamlProblem, EditProblem."""
    base, theirs = read_yaml(shown).value, read_yaml(now).value
    found = three_way(base, tree_edited(base, edits), theirs, dict(choices or {}))
    if found.conflicts:
        raise DraftConflict(found.conflicts)
    return text_edited(now, edits_between(theirs, found.value))


def merged_text(shown: str, now: str, mine: str, choices: Choices | None = None) -> str:
    """Two texts that came of one, as one. Raises DraftConflict; where either is no YAML, there is nothing to merge by: Refused conflict."""
    try:
        base, theirs, own = (read_yaml(text).value for text in (shown, now, mine))
    except YamlProblem:
        message = "the text was changed by somebody else since this page was loaded, and cannot be merged while it is no YAML: load the page again, and put your change in"
        raise Refused(message, code="conflict", field="text") from None
    found = three_way(base, own, theirs, dict(choices or {}))
    if found.conflicts:
        raise DraftConflict(found.conflicts)
    return text_edited(mine, edits_between(own, found.value))


@dataclass(frozen=True, slots=True)
class BroughtIn:
    """A draft with what was published meanwhile in it."""

    text: str
    """With every choice made; what is still asked stands as the draft had it."""
    base_text: str
    """What the draft is a change of from now on."""
    conflicts: tuple[Conflict, ...]
    """What both changed and nobody has chosen between."""
    taken: tuple[str, ...]
    """Paths that came in."""


def brought_in(
    *, base_text: str, text: str, base: FabricSpec | None, published: FabricSpec, choices: Choices | None = None
) -> BroughtIn:
    """A draft's text with what was published since it began. ``base``: the revision that it began from; None: there was none.

    What was published is told as changes against ``base``, so that a default that one side writes out and the other leaves out is no change.
    Raises YamlProblem where the draft is no YAML.
    """
    before, mine = read_yaml(base_text).value, read_yaml(text).value
    since = edits_between(sparse(base) if base is not None else {}, sparse(published))
    theirs = _applied(before, since) if base is not None else sparse(published)
    found = three_way(before, mine, theirs, dict(choices or {}))
    new_base = text_edited(base_text, edits_between(before, theirs)) if base is not None else base_text
    return BroughtIn(text_edited(text, edits_between(mine, found.value)), new_base, found.conflicts, found.from_theirs)


def sparse(spec: FabricSpec) -> JSON:
    """A spec as a tree that says only what is no default."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _applied(tree: JSON, edits: Sequence[Edit]) -> JSON:
    """Edits on a tree that writes some defaults out: what is taken away may not be there."""
    for edit in edits:
        try:
            tree = tree_edited(tree, [edit])
        except EditProblem:
            if not isinstance(edit, Drop):
                raise
    return tree
