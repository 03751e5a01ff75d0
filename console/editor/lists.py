"""Shows lists of named things in the editor. Each thing is a card, folded unless the author works on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from console.editor.draft import Editing
from console.forms.controls.fields import EditField
from fabric.core.values.units import JSON


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of a list."""

    path: str
    number: int
    name: str
    note: str
    """Short description."""
    fields: tuple[EditField, ...]
    more: tuple[EditField, ...]
    """Fields that seldom change: folded unless the author set one."""
    errors: int
    warnings: int
    changed: bool
    open: bool
    first: bool
    last: bool
    users: tuple[str, ...] = ()
    """Names of its users."""
    test: bool = False
    """True for a tool with a page for test requests, and for an agent that can be asked once."""
    gist: str = ""
    """The beginning of what it says."""

    @property
    def own(self) -> int:
        """Number of folded fields that the author set."""
        return sum(one.own for one in self.more)


def items_of(
    editing: Editing,
    listed: str,
    fields: tuple[str, ...],
    more: tuple[str, ...],
    *,
    note: Callable[[dict[str, JSON]], str],
    users: Callable[[str], tuple[str, ...]] = lambda name: (),
    beside: Callable[[int], tuple[str, ...]] = lambda n: (),
    draw: Callable[[dict[str, JSON], EditField], EditField | None] = lambda thing, one: one,
) -> list[Item]:
    """The things of a list. What is no group of fields is shown as an empty one, with what is said of it.

    ``draw`` gives each field of a thing as it is shown; None: it is left out.
    ``beside``: places elsewhere in the draft that say more of the thing at a position; they stand with what is folded.
    """
    things = editing.at(listed)
    found = things if isinstance(things, list) else []
    return [
        _item(
            editing,
            f"{listed}.{n}",
            n,
            len(found),
            thing if isinstance(thing, dict) else {},
            (
                tuple(f"{listed}.{n}.{each}" for each in fields),
                (*(f"{listed}.{n}.{each}" for each in more), *beside(n)),
            ),
            note,
            users,
            draw,
        )
        for n, thing in enumerate(found)
    ]


def _item(
    editing: Editing,
    path: str,
    n: int,
    count: int,
    thing: dict[str, JSON],
    places: tuple[tuple[str, ...], tuple[str, ...]],
    note: Callable[[dict[str, JSON]], str],
    users: Callable[[str], tuple[str, ...]],
    draw: Callable[[dict[str, JSON], EditField], EditField | None],
) -> Item:
    also = frozenset(places[1])
    about = [
        one
        for one in editing.checked.findings
        if one.path == path or one.path.startswith(f"{path}.") or one.path in also
    ]
    name = thing.get("name")
    named = name if isinstance(name, str) else ""
    shown, folded = (
        tuple(drawn for one in map(editing.field, group) if (drawn := draw(thing, one)) is not None) for group in places
    )
    errors = sum(one.level == "error" for one in about)
    return Item(
        path=path,
        number=n + 1,
        name=named,
        note=note(thing),
        fields=shown,
        more=folded,
        errors=errors,
        warnings=sum(one.level == "warning" for one in about),
        changed=any(one.changed for one in (*shown, *folded)),
        open=bool(errors) or any(one.changed for one in (*shown, *folded)) or editing.asked.get("open", "") == path,
        first=n == 0,
        last=n == count - 1,
        users=users(named),
        gist=next((one.text for one in shown if one.shape.kind == "prose"), ""),
    )


def users_in(editing: Editing, listed: str, field: str) -> Callable[[str], tuple[str, ...]]:
    """Return the entries of a list that name a thing in a field: the agents that use a tool."""
    things = editing.at(listed)

    def found(name: str) -> tuple[str, ...]:
        return tuple(
            str(thing.get("name"))
            for thing in (things if isinstance(things, list) else [])
            if isinstance(thing, dict) and name and _names(thing.get(field), name)
        )

    return found


def _names(value: JSON, name: str) -> bool:
    return name in value if isinstance(value, list) else value == name
