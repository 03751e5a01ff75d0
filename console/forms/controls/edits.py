"""A page sends fields and at most one button; they become edits of the value that the page showed.

A button is a word and a path: ``add agents``, ``remove agents.2``, ``up agents.2``, ``down agents.2``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from console.forms.controls.fields import FIELD, MISSING, SHOWN, EditField, Missing, at, path_of, unlined
from console.forms.controls.positions import moved
from console.forms.controls.rows import list_sent_rows, read_rows
from fabric.core.texts.three_way import same
from fabric.core.values.units import JSON
from fabric.services.fabrics.yaml.edits import DropEdit, Edit, InsertEdit, MoveEdit, PutEdit, tree_edited

FIELDS_MAX = 2_000


class Sent(Protocol):
    """A form's data, as Django has it."""

    def getlist(self, key: str) -> list[str]: ...  # noqa: D102

    def get(self, key: str) -> str | None: ...  # noqa: D102

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class Changes:
    """Edits of a draft, with a short summary."""

    edits: tuple[Edit, ...]
    what: str
    place: str = ""
    """The one field that was changed; empty for several, and for a button."""
    paths: tuple[str, ...] = ()
    """The fields that were changed."""
    refused: tuple[str, ...] = ()
    """Sentences on values that are in none of the edits, one for each field."""


class ButtonProblem(ValueError):
    """A button that is none; the message is one sentence."""


class Ground(ABC):
    """The rules of a form's values. A draft and a review's value each have their own."""

    @abstractmethod
    def field(self, tree: JSON, path: str) -> EditField:
        """Return the field at a path. KeyError: there is none."""

    @abstractmethod
    def read(self, one: EditField, sent: list[str]) -> JSON:
        """Return what was sent of a field; ``MISSING``: nothing."""

    @abstractmethod
    def fresh(self, tree: JSON, path: str) -> tuple[int, JSON]:
        """Return a new item for the list at a path, and its place."""

    @abstractmethod
    def optional(self, tree: JSON, path: str) -> bool:
        """Return True where the list at a path says as much empty as left out."""

    def comes_first(self, path: str) -> bool:
        """Return False for a field that is read after all others."""
        return True

    def whole(self, tree: JSON, path: str) -> list[Edit]:
        """Return the edits that write out a default around a path, before a part of it can be changed."""
        return []

    def put(self, tree: JSON, path: str, one: EditField, value: JSON) -> list[Edit]:
        """Return the edits after which a value stands at a path, or nothing does; and what follows from it."""
        if value is MISSING:
            return self.dropped(tree, path)
        return [*self.whole(tree, path), PutEdit(path_of(path), value)]

    def dropped(self, tree: JSON, path: str) -> list[Edit]:
        """Return the edits that take a value away."""
        return [] if at(tree, path) is MISSING else [DropEdit(path_of(path))]

    def pressed(self, tree: JSON, button: str) -> tuple[list[Edit], str]:
        """Return the edits of a button, and what they are in words. Raises ButtonProblem."""
        word, _, path = button.partition(" ")
        if word not in BUTTONS:
            raise ButtonProblem(f"there is no button {word[:20]!r}; there are: {', '.join(BUTTONS)}")
        return BUTTONS[word](self, tree, path), f"{word} {path}"


def changes_in(ground: Ground, tree: JSON, data: Sent, button: str = "", since: JSON = None) -> Changes:
    """Return the changes against the tree that the page had shown, as edits. Raise ButtonProblem, EditProblem.

    ``since``: the tree by now, with the page's own edits that it has not seen yet; the edits are of that one then.
    """
    edits: list[Edit] = []
    changed: list[str] = []
    refused: list[str] = []
    now = since = tree if since is None else since
    named = [key[len(FIELD) :] for key in data if key.startswith((FIELD, SHOWN))][:FIELDS_MAX]
    for path in sorted(dict.fromkeys(named), key=ground.comes_first, reverse=True):
        made, problem = _field_edits(ground, tree, since, now, path, data)
        now = tree_edited(now, made)
        refused += [problem] if problem else []
        edits += made
        changed += [path] if made else []
    what = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    if button:
        here = _button_there(tree, since, button)
        pressed, said = ground.pressed(now, here) if here else ([], "")
        both = "; ".join(filter(None, (said, what)))
        return Changes((*edits, *pressed), both, paths=tuple(changed), refused=tuple(refused))
    place = changed[0] if len(changed) == 1 else ""
    return Changes(tuple(edits), what, place, tuple(changed), tuple(refused))


def _button_there(shown: JSON, since: JSON, button: str) -> str:
    """Return a button for the present path of its thing; empty where the page took that out before. Pressed twice it
    must not take the next one out too.
    """
    word, _, rest = button.partition(" ")
    path, sign, value = rest.partition("=")
    place = moved(shown, since, path)
    return "" if place is None else f"{word} {place}{sign}{value}"


def _field_edits(ground: Ground, shown: JSON, since: JSON, now: JSON, path: str, data: Sent) -> tuple[list[Edit], str]:
    """The edits of one field, and a sentence on what of it is refused. No edits where the page took out what it is of:
    what was typed there before is sent along until another form is there.
    """
    try:
        one = ground.field(shown, path)
    except KeyError:
        return [], ""
    sent = data.getlist(f"{FIELD}{path}") or (["false"] if one.box else [])
    value, problem = one.given, ""
    if one.in_rows and (not sent or unlined(sent[-1]) == unlined(one.text)):
        value, problem = _read_rows(one, data)
    else:
        value = _read_sent(ground, one, sent)
    place = None if value is one.given else moved(shown, since, path)
    return [] if place is None else ground.put(now, place, one, value), problem


def _read_rows(one: EditField, data: Sent) -> tuple[JSON, str]:
    """Return the value of a field's rows, and a sentence on a bad row. Rows that say the given value return it as it is."""
    given = None if isinstance(one.given, Missing) else one.given
    rows = list_sent_rows(one.row_kind, one.path, data.get)
    if not rows:
        return one.given, ""
    found = read_rows(one.row_kind, rows, given)
    value = one.given if same(found.value, given) or not (found.value or given) else found.value or MISSING
    return value, f"{one.shape.label}: {found.problem}" if found.problem else ""


def _read_sent(ground: Ground, one: EditField, sent: list[str]) -> JSON:
    """Return the value of what was sent; the given value where it says the same."""
    if one.several:
        ticked = tuple(part for part in sent if part)
        ordered = one.shape.kind == "order"
        if ticked == one.picked or (not ordered and set(ticked) == set(one.picked)):
            return one.given
        return list(dict.fromkeys(ticked)) if ordered else _kept_order(one.picked, ticked)
    if not sent or (unlined(sent[-1]) == unlined(one.text) and one.fits):
        return one.given
    value = ground.read(one, sent)
    return one.given if not isinstance(value, list) and same(value, one.given) else value


def _kept_order(picked: tuple[str, ...], asked: tuple[str, ...]) -> list[str]:
    """Return the picks that stay in their order, then the new ones."""
    return [one for one in picked if one in asked] + [one for one in dict.fromkeys(asked) if one not in picked]


# -- buttons -----------------------------------------------------------------------------------------------------------


def _add(ground: Ground, tree: JSON, path: str) -> list[Edit]:
    """One more in a list: what is only a default so far is written out first."""
    before = ground.whole(tree, f"{path}.0")
    place, value = ground.fresh(tree_edited(tree, before), path)
    return [*before, InsertEdit((*path_of(path), place), value)]


def _remove(ground: Ground, tree: JSON, path: str) -> list[Edit]:
    before = ground.whole(tree, path)
    after = tree_edited(tree, before)
    if at(after, path) is MISSING:
        raise ButtonProblem(f"there is nothing at {path}: it was taken away meanwhile")
    listed, _, _ = path.rpartition(".")
    items = at(after, listed)
    if isinstance(items, list) and len(items) == 1 and not before and ground.optional(tree, listed):
        return ground.dropped(tree, listed)
    return [*before, DropEdit(path_of(path))]


def _step(by: int) -> Callable[[Ground, JSON, str], list[Edit]]:
    def step(ground: Ground, tree: JSON, path: str) -> list[Edit]:
        before = ground.whole(tree, path)
        parts = path_of(path)
        items = at(tree_edited(tree, before), path.rpartition(".")[0])
        here = parts[-1] if parts else ""
        if not (isinstance(items, list) and isinstance(here, int) and here < len(items)):
            raise ButtonProblem(f"there is nothing at {path}: it was taken away meanwhile")
        to = here + by
        return [*before, MoveEdit(parts, to)] if 0 <= to < len(items) else []

    return step


BUTTONS: Mapping[str, Callable[[Ground, JSON, str], list[Edit]]] = {
    "add": _add,
    "remove": _remove,
    "up": _step(-1),
    "down": _step(1),
}
"""The effect of each button on a list; a path follows its word."""
