"""What a page could not save: kept by the page as it was sent, until its author says what becomes of it. Where others changed the same it is their side of the question.

A page draws its own side in the fields that the question is about, and sends them with everything else. So what is typed there meanwhile is a later
own side, and never a change of what the others saved; everything outside the question is saved as always.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from console.configure.fields import FIELD, SHOWN
from console.configure.sent import ButtonProblem, changes_in, path_of
from fabric.core.three_way import by_name, three_way
from fabric.selectors.errors import Refused
from fabric.services.yaml_edit import EditProblem, tree_edited

JSON = Any
TreeOf = Callable[[int], JSON]
"""What the draft said at a step; None: it is not kept any more, or was no YAML with fields in it."""
TEXT = "text"
"""The field of the whole text, in the part that shows it."""
KEPT = "kept"
"""The field of what could not be saved before; as often as there is such a thing."""
BUTTON = "do"
KEPT_MAX = 20
NUMBER_MAX = 2**31 - 1
DAMAGED = "the form was damaged on its way: load the page again, and make the change once more"
Names = tuple[str | int, ...]
"""A place by what things of a list are called, where they have names: the same whatever comes before them."""


def number_in(sent: QueryDict, key: str) -> int:
    """A number that a form hands on as it was given. Raises Refused invalid."""
    text = sent.get(key, "")
    if not (len(text) < 12 and text.isascii() and text.isdecimal() and int(text) <= NUMBER_MAX):
        raise Refused(DAMAGED, code="invalid", field=key)
    return int(text)


def kept_in(sent: QueryDict) -> list[QueryDict]:
    """What was sent before and could not be saved, as the page hands it on. Raises Refused invalid."""
    found: list[QueryDict] = []
    try:
        for text in sent.getlist(KEPT)[:KEPT_MAX]:
            one = QueryDict(mutable=True)
            for key, value in json.loads(text):
                if not (isinstance(key, str) and isinstance(value, str)):
                    raise TypeError
                one.appendlist(key, value)
            number_in(one, "step")
            found.append(one)
    except (ValueError, TypeError, RecursionError):
        raise Refused(DAMAGED, code="invalid", field=KEPT) from None
    return found


def kept_pairs(kept: QueryDict) -> tuple[tuple[str, str], ...]:
    """The same as names and texts, for the page."""
    return tuple((key, one) for key in kept for one in kept.getlist(key))


def fields_of(sent: QueryDict) -> list[str]:
    """The paths of the fields that were shown, each once."""
    return list(dict.fromkeys(key[2:] for key in sent if key.startswith((FIELD, SHOWN))))


def unsaved(sent: QueryDict, paths: Iterable[str], *, button: bool = True) -> QueryDict:
    """Of what was sent these fields, the whole text, and the button."""
    found = QueryDict(mutable=True)
    wanted = ("step", TEXT, *((BUTTON,) if button else ()))
    for key in [*wanted, *(f"{kind}{path}" for path in paths for kind in (SHOWN, FIELD))]:
        if key in sent:
            found.setlist(key, sent.getlist(key))
    return found


def parted(sent: QueryDict, paths: Iterable[str], asked: Sequence[str], tree: JSON) -> list[QueryDict]:
    """What two changed of the same apart from everything else that was sent with it: the fields of the question, the other ones, the button.

    One thing alone where that cannot be told apart: then all of it waits. ``paths``: the fields that were changed; ``tree``: what the page showed.
    """
    paths = list(paths)
    held = [path for path in paths if inside(names(tree, path), asked)]
    if not held or TEXT in sent:
        return [sent]
    others = [path for path in paths if path not in held]
    found = [unsaved(sent, part, button=False) for part in (others, held) if part]
    return [*found, unsaved(sent, ())] if sent.get(BUTTON) else found


# -- places ------------------------------------------------------------------------------------------------------------


def names(tree: JSON, path: str) -> Names:
    """A path by names: ``agents.0.model`` is agents, reader, model."""
    found: list[str | int] = []
    for part in path_of(path):
        named = list(by_name(tree) or ())
        found.append(named[part] if isinstance(part, int) and part < len(named) else part)
        tree = _inner(tree, part)
    return tuple(found)


def place(tree: JSON, wanted: Names) -> str | None:
    """The path of what has these names in a tree; None: a thing of that name is not there."""
    found: list[str | int] = []
    for name in wanted:
        named = list(by_name(tree) or ())
        if named and name not in named:
            return None
        found.append(named.index(str(name)) if named else name)
        tree = _inner(tree, found[-1])
    return ".".join(map(str, found))


def _inner(tree: JSON, part: str | int) -> JSON:
    if isinstance(tree, list):
        return tree[part] if isinstance(part, int) and part < len(tree) else None
    return tree.get(part) if isinstance(tree, dict) else None


def inside(wanted: Names, asked: Iterable[str]) -> bool:
    """Whether a place is what one of these dotted paths is about, around it or within it."""
    dotted = ".".join(map(str, wanted))
    return any(
        path == dotted or path.startswith(f"{dotted}.") or dotted.startswith(f"{path}.") or not path for path in asked
    )


# -- one's own side ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """What could not be saved, as a tree."""

    kept: QueryDict
    tree: JSON
    asked: tuple[str, ...]
    """The paths that others changed as well."""


def drawn(tree: JSON, kept: Sequence[QueryDict], tree_of: TreeOf) -> JSON:
    """A draft with one's own side of every question in it: what the fields of the page show."""
    return _sides(tree, kept, tree_of)[0]


def _sides(tree: JSON, kept: Sequence[QueryDict], tree_of: TreeOf) -> tuple[JSON, list[_Side]]:
    found: list[_Side] = []
    for one in kept:
        before = tree_of(number_in(one, "step"))
        if TEXT in one or one.get(BUTTON) or before is None or tree is None:
            continue
        try:
            mine = tree_edited(before, changes_in(before, one).edits)
        except (ButtonProblem, EditProblem):
            continue
        merge = three_way(before, mine, tree)
        tree = merge.value
        found.append(_Side(one, mine, tuple(conflict.path for conflict in merge.conflicts)))
    return tree, found


def own_sides(sent: QueryDict, kept: Sequence[QueryDict], tree_of: TreeOf) -> tuple[QueryDict, list[QueryDict]]:
    """What is to be saved of what was sent, and what was kept with what stands in its fields now. Raises Refused invalid."""
    later = [one.copy() for one in kept]
    rest = sent.copy()
    for one in later:
        if TEXT in one and TEXT in rest:
            one[TEXT] = str(rest[TEXT])
            del rest[TEXT]
    saved = tree_of(number_in(sent, "step"))
    shown, sides = _sides(saved, later, tree_of)
    if not sides:
        return rest, later
    for path in fields_of(sent):
        both = {kind: rest.pop(kind + path) for kind in (FIELD, SHOWN) if kind + path in rest}
        wanted = names(shown, path)
        to, at = _goes_to(wanted, sides, place(saved, wanted))
        if at is not None:
            for kind, texts in both.items():
                (rest if to is None else to.kept).setlist(kind + at, texts)
    return rest, later


def _goes_to(wanted: Names, sides: Sequence[_Side], saved_at: str | None) -> tuple[_Side | None, str | None]:
    """Whose a field is: of a question, under that path; or None: of the draft, under its own path. Without a path it is nowhere any more."""
    for side in sides:
        at = place(side.tree, wanted)
        known = at is not None and (FIELD + at in side.kept or SHOWN + at in side.kept)
        if at is not None and (known or saved_at is None or inside(wanted, side.asked)):
            return side, at
    return None, saved_at
