"""What is done where two changed a draft, or a draft and what is published: merged by path, and asked where both changed the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.spec import FabricSpec
from fabric.core.three_way import ABSENT, Absent, Conflict, same, three_way
from fabric.services.errors import Refused
from fabric.services.tree_difference import edits_between
from fabric.services.yaml_edit import Drop, Edit, EditProblem, Put, text_edited, tree_edited
from fabric.services.yaml_tree import Path, YamlProblem, read_yaml

JSON = Any
Choices = Mapping[str, Literal["mine", "theirs"]]


class DraftConflict(Refused):
    """Two changed the same. Nothing was saved; what both have is told, path by path."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        paths = ", ".join(one.path for one in conflicts[:5])
        more = f" and {len(conflicts) - 5} more" if len(conflicts) > 5 else ""
        message = f"{paths}{more} was changed in another window, or by a program, since this page was loaded: look at both, and say which is to stand"
        super().__init__(message, code="conflict", field=conflicts[0].path)
        self.conflicts = tuple(conflicts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered where two changed the same: of the text that the question had shown, and of no later one."""

    choices: Choices
    """Which of two is to stand, by path."""
    asked_of: str
    """The text whose changes were shown as the others'."""


def merged_edits(shown: str, now: str, edits: Sequence[Edit], answer: Answer | None = None) -> str:
    """The text with edits that were meant for an earlier one. Raises DraftConflict, YamlProblem, EditProblem."""
    base, theirs = read_yaml(shown).value, read_yaml(now).value
    mine = tree_edited(base, edits)
    found = three_way(base, mine, theirs, _answered(base, mine, theirs, answer))
    if found.conflicts:
        raise DraftConflict(found.conflicts)
    return text_edited(now, edits_between(theirs, found.value))


def _answered(base: JSON, mine: JSON, theirs: JSON, answer: Answer | None) -> Choices:
    """The choices that hold: one between what stands there and what does not any more says nothing of what does."""
    if answer is None or not answer.choices:
        return {}
    try:
        before = read_yaml(answer.asked_of).value
    except YamlProblem:
        return {}
    was = {one.path: one.theirs for one in three_way(base, mine, before).conflicts}
    now = {one.path: one.theirs for one in three_way(base, mine, theirs).conflicts}
    return {
        path: side
        for path, side in answer.choices.items()
        if path in was and path in now and same(was[path], now[path])
    }


def merged_text(shown: str, now: str, mine: str, answer: Answer | None = None) -> str:
    """Two texts that came of one, as one. Raises DraftConflict; where either is no YAML, there is nothing to merge by: Refused conflict."""
    try:
        base, theirs, own = (read_yaml(text).value for text in (shown, now, mine))
    except YamlProblem:
        message = "the text was changed in another window, or by a program, since this page was loaded, and cannot be merged while it is no YAML: load the page again, and put your change in"
        raise Refused(message, code="conflict", field="text") from None
    found = three_way(base, own, theirs, _answered(base, own, theirs, answer))
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
    theirs = _applied(before, _since(sparse(base), sparse(published))) if base is not None else sparse(published)
    found = three_way(before, mine, theirs, dict(choices or {}))
    new_base = text_edited(base_text, edits_between(before, theirs)) if base is not None else base_text
    return BroughtIn(text_edited(text, edits_between(mine, found.value)), new_base, found.conflicts, found.from_theirs)


def sparse(spec: FabricSpec) -> JSON:
    """A spec as a tree that says only what is no default."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _since(before: JSON, after: JSON, path: Path = ()) -> Iterator[Edit]:
    """What changed between two sparse trees, leaf by leaf: a group that is not there says only that all in it is default."""
    for name in [*before, *(name for name in after if name not in before)]:
        old, new, here = before.get(name, ABSENT), after.get(name, ABSENT), (*path, name)
        if isinstance(old, dict | Absent) and isinstance(new, dict | Absent):
            yield from _since({} if old is ABSENT else old, {} if new is ABSENT else new, here)
        elif new is ABSENT:
            yield Drop(here)
        elif old is ABSENT:
            yield Put(here, new)
        else:
            yield from edits_between(old, new, here)


def _applied(tree: JSON, edits: Iterable[Edit]) -> JSON:
    """Edits on a tree that may write defaults out: what is taken away may not be there, and no group is left with nothing in it."""
    for edit in edits:
        try:
            tree = tree_edited(tree, [edit])
        except EditProblem:
            if not isinstance(edit, Drop):
                raise
        if isinstance(edit, Drop):
            tree = _without_nothing(tree, edit.path)
    return tree


def _without_nothing(tree: JSON, path: Path) -> JSON:
    """The tree without the groups around a path that are empty since it was taken away."""
    for end in range(len(path) - 1, 0, -1):
        around = tree
        for part in path[:end]:
            inside = isinstance(around, list) or (isinstance(around, dict) and part in around)
            around = around[part] if inside else None
        if around != {}:
            break
        tree = tree_edited(tree, [Drop(path[:end])])
    return tree
