"""A page that could not be saved keeps its author's values, and shows the values that were saved meanwhile.

This module compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import QueryDict

from console.forms.controls.edits import ButtonProblem
from console.forms.controls.fields import FIELD, MISSING, at
from console.forms.controls.positions import moved
from console.forms.drafts.edits import changes_in
from fabric.core.values.units import JSON
from fabric.selectors.errors import Refused
from fabric.services.fabrics.yaml.edits import EditProblem, tree_edited
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml

TEXT = "text"
"""The field of the whole text, in the part that shows it."""
NUMBER_MAX = 2**31 - 1
DAMAGED = "the form was damaged on its way: load the page again, and make the change once more"


def number_in(sent: QueryDict, key: str) -> int:
    """Return a number that a form hands on as it was given. Raises Refused invalid."""
    text = sent.get(key, "")
    if not (len(text) < 12 and text.isascii() and text.isdecimal() and int(text) <= NUMBER_MAX):
        raise Refused(DAMAGED, code="invalid", field=key)
    return int(text)


def text_in(sent: QueryDict) -> str:
    """Return the whole text that a form sends, with the line ends of a draft."""
    return str(sent[TEXT]).replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that a page would save over what was saved meanwhile."""

    path: str
    """Empty: the whole text."""
    here: JSON
    saved: JSON


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The fields of a page that could not be saved."""

    tree: JSON = None
    """Values of its fields; None: it has no fields."""
    text: str | None = None
    """Value of the field of the whole text; None: none."""
    differences: tuple[Difference, ...] = ()


def unsaved_of(sent: QueryDict, shown: str, now: str, *, stale: bool) -> Unsaved:
    """Return the unsaved fields of a page. ``shown``: the text that it was drawn from; ``now``: the draft's text.

    A stale page stays as it was drawn. Any other is drawn anew, from the text that the draft has.
    """
    if TEXT in sent:
        text = text_in(sent)
        return Unsaved(text=text, differences=(Difference("", text, now),) if stale and text != now else ())
    tree, saved = tree_of(shown), tree_of(now)
    since = tree if stale else saved
    if tree is None or since is None:
        return Unsaved()
    try:
        changes = changes_in(tree, sent, since=since)
        mine = tree_edited(since, changes.edits)
    except (ButtonProblem, EditProblem):
        return Unsaved()
    return Unsaved(mine, differences=tuple(_differences(tree, mine, saved, changes.paths)) if stale else ())


def _differences(shown: JSON, mine: JSON, saved: JSON, paths: Iterable[str]) -> Iterable[Difference]:
    for path in paths:
        place = None if saved is None else moved(shown, saved, path)
        here, there = at(mine, path), MISSING if place is None else at(saved, place)
        if here != there:
            yield Difference(path, here, there)


def tree_of(text: str) -> JSON:
    """Return a draft's text as plain values; None: it is no YAML with fields in it."""
    try:
        found = read_yaml(text).value
    except YamlProblem:
        return None
    return found if isinstance(found, dict) else None


def typed_in(sent: QueryDict) -> tuple[tuple[str, str], ...]:
    """Return the fields that a page sent, with their texts: its author may want to copy them."""
    pairs = ((key, text) for key in sent for text in sent.getlist(key))
    shown = ((key.removeprefix(FIELD), text) for key, text in pairs if key == TEXT or key.startswith(FIELD))
    return tuple((key, text) for key, text in shown if text)
