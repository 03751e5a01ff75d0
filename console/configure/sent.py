"""What a page of the editor sent, as edits of the draft: the fields whose text is another than the page had shown, and at most one button.

A button is a word and a path: ``add agents``, ``remove agents.2``, ``up agents.2``, ``down agents.2``, ``reset policy.tau``, ``set tiers.default=batch``,
``append topology.workers=ana``, ``turn gates.oracle.0=critic``, ``declare mcp_servers.0``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from console.configure.fields import FIELD, SHOWN, at, field_at, named_in, standing, whole_of
from console.configure.forms import FOLLOWS, FORMS, turned
from console.configure.fresh import BEFORE_LAST, fresh
from console.configure.kinds import followed, team_of
from console.configure.moved import moved
from console.configure.offered import declarations
from console.configure.places import KEYED, REFERS, SPARE
from console.configure.reading import SEVERAL, read
from console.configure.shape import MISSING, place_of, shape_of
from console.typed_fields import same
from fabric.services.yaml_edit import Drop, Edit, Insert, Move, Put, tree_edited
from fabric.services.yaml_tree import Path

JSON = Any
FIELDS_MAX = 2_000


class Sent(Protocol):
    """A form's data, as Django has it."""

    def getlist(self, key: str) -> list[str]: ...  # noqa: D102

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class Changes:
    """The edits, and what they are in a few words."""

    edits: tuple[Edit, ...]
    what: str
    place: str = ""
    """The one field that was changed; empty: several, or a button was pressed."""
    paths: tuple[str, ...] = ()
    """The fields that were changed."""


class ButtonProblem(ValueError):
    """A button that is none; the message is one sentence."""


def path_of(dotted: str) -> Path:
    """A dotted path as its parts."""
    return tuple(int(part) if part.isdecimal() else part for part in dotted.split(".") if part)


def changes_in(tree: JSON, data: Sent, button: str = "", since: JSON = None) -> Changes:
    """What was changed against the tree that the page had shown, as edits of that, or of ``since``: what has become of it by the page's own hand.

    Raises ButtonProblem, EditProblem.
    """
    edits: list[Edit] = []
    changed: list[str] = []
    now = since = tree if since is None else since
    for path in _paths(data):
        for edit in (made := _field_edits(tree, since, now, path, data)):
            now = tree_edited(now, [edit])
        edits += made
        changed += [path] if made else []
    what = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    if button:
        here = _button_there(tree, since, button)
        pressed, said = pressed_in(now, here) if here else ([], "")
        return Changes((*edits, *pressed), "; ".join(filter(None, (said, what))), paths=tuple(changed))
    return Changes(tuple(edits), what, changed[0] if len(changed) == 1 else "", tuple(changed))


def _button_there(shown: JSON, since: JSON, button: str) -> str:
    """A button for what its path stands for by now; empty: the page took that out before, and pressed twice it must not take the next one out too."""
    word, _, rest = button.partition(" ")
    path, sign, value = rest.partition("=")
    place = moved(shown, since, path)
    return "" if place is None else f"{word} {place}{sign}{value}"


def _paths(data: Sent) -> list[str]:
    """The paths of the fields that were shown, each once. Names come last: what is sent under a name that is given up moves with it."""
    named = [key for key in data if key.startswith((FIELD, SHOWN))][:FIELDS_MAX]
    return sorted(dict.fromkeys(key[2:] for key in named), key=_is_name)


def _is_name(path: str) -> bool:
    shape = shape_of(path)
    return shape is not None and shape.kind == "name"


def _field_edits(shown: JSON, since: JSON, now: JSON, path: str, data: Sent) -> list[Edit]:
    """The edits of one field. None where the page took out what it is of: what was typed there before is sent along until another form is there."""
    try:
        one = field_at(shown, path)
    except KeyError:
        return []
    sent = data.getlist(f"{FIELD}{path}")
    if one.shape.kind in SEVERAL:
        ordered = one.shape.kind == "order"
        ticked = tuple(part for part in sent if part)
        asked = tuple(dict.fromkeys(ticked))
        if ticked == one.picked or (not ordered and set(asked) == set(one.picked)):
            return []
        value = read(one.shape, sent) if ordered else _kept_order(one.picked, asked)
    else:
        if not sent or sent[-1].replace("\r\n", "\n") == one.text:
            return []
        value = read(one.shape, sent)
    if not isinstance(value, list) and value is not MISSING and one.given is not MISSING and same(value, one.given):
        return []
    place = moved(shown, since, path)
    if place is None:
        return []
    renamed = list(_references(now, place, one.given, value)) if one.shape.kind == "name" else []
    edits = [*put(now, place, value), *renamed]
    around, _, field = place.rpartition(".")
    if field == "kind":
        return [*edits, *followed(tree_edited(now, edits), path_of(around))]
    follows = FOLLOWS.get(path)
    return edits if follows is None else [*edits, *follows(tree_edited(now, edits))]


def _kept_order(picked: tuple[str, ...], asked: tuple[str, ...]) -> list[str]:
    """What stays picked in the order that it has, then what is new."""
    return [one for one in picked if one in asked] + [one for one in asked if one not in picked]


def put(tree: JSON, path: str, value: JSON) -> list[Edit]:
    """The edits after which a value stands at a path, or nothing does. What is only a default so far is written out around it first."""
    parts = path_of(path)
    if value is MISSING:
        return _dropped(tree, parts)
    if (whole := whole_of(tree, path)) is not None:
        return [Put(path_of(whole[0]), whole[1]), Put(parts, value)]
    return [Put(parts, value)]


def _dropped(tree: JSON, parts: Path) -> list[Edit]:
    """Takes a value away, and the groups around it that are empty then and need not be there."""
    dotted = [".".join(map(str, parts[:end])) for end in range(1, len(parts) + 1)]
    if at(tree, dotted[-1]) is MISSING:
        return []
    end = len(parts)
    while end > 1 and isinstance(parts[end - 1], str):
        around, shape = at(tree, dotted[end - 2]), shape_of(dotted[end - 2])
        if not (isinstance(around, dict) and len(around) == 1 and isinstance(parts[end - 2], str)):
            break
        named = end > 2 and place_of(dotted[end - 3]) in {*KEYED, *SPARE}
        if shape is None or (shape.required and shape.kind != "table" and not named):
            break
        end -= 1
    return [Drop(parts[:end])]


def _references(tree: JSON, path: str, old: JSON, new: JSON) -> Iterator[Edit]:
    """A thing that is called otherwise takes with it whoever names it, unless its name is another's too."""
    listed, _, rest = path.partition(".")
    if not (rest.count(".") == 1 and isinstance(old, str) and isinstance(new, str) and old):
        return
    names = named_in(tree, listed)
    if names.count(old) > 1 or new in names:
        return
    edits = [
        edit
        for place, refers in REFERS.items()
        if refers == listed
        for edit in _renamed(tree, place.split("."), (), old, new)
    ]
    yield from edits
    now = tree_edited(tree, edits)
    for place, refers in KEYED.items():
        table = at(now, place)
        if refers == listed and isinstance(table, dict) and old in table and new not in table:
            yield Put((*path_of(place), new), table[old])
            yield Drop((*path_of(place), old))


def _renamed(tree: JSON, place: list[str], path: Path, old: str, new: str) -> Iterator[Edit]:
    if not place:
        if isinstance(tree, list):
            yield from (Put((*path, n), new) for n, one in enumerate(tree) if one == old)
        elif tree == old:
            yield Put(path, new)
    elif place[0] == "*" and isinstance(tree, list):
        for n, item in enumerate(tree):
            yield from _renamed(item, place[1:], (*path, n), old, new)
    elif place[0] == "*" and isinstance(tree, dict):
        for key, item in tree.items():
            yield from _renamed(item, place[1:], (*path, key), old, new)
    elif place[0] == "**":
        yield from _renamed(tree, place[1:], path, old, new)
        inner = (("conditions", ["*", *place]), ("condition", place)) if isinstance(tree, dict) else ()
        for field, rest in inner:
            if field in tree:
                yield from _renamed(tree[field], rest, (*path, field), old, new)
    elif isinstance(tree, dict) and place[0] in tree:
        yield from _renamed(tree[place[0]], place[1:], (*path, place[0]), old, new)


# -- buttons -----------------------------------------------------------------------------------------------------------


def pressed_in(tree: JSON, button: str) -> tuple[list[Edit], str]:
    """The edits of a button, and what they are in words. Raises ButtonProblem."""
    word, _, rest = button.partition(" ")
    made = BUTTONS.get(word)
    if made is None:
        raise ButtonProblem(f"there is no button {word[:20]!r}; there are: {', '.join(BUTTONS)}")
    path = rest.partition("=")[0]
    if shape_of(path) is None or not path:
        raise ButtonProblem(f"a fabric has no place {path[:80]!r}")
    edits = made(tree, rest)
    return [*edits, *_settled(tree_edited(tree, edits), path)], f"{word} {path}"


def _settled(tree: JSON, path: str) -> list[Edit]:
    """A ladder after a rung has come, gone or moved: the last one is without bound, and no other is."""
    whole, _, number = path.rpartition(".")
    rungs = path if place_of(path) in BEFORE_LAST else whole if number.isdecimal() else ""
    found = at(tree, rungs) if rungs and place_of(rungs) in BEFORE_LAST else None
    listed: list[JSON] = found if isinstance(found, list) else []
    edits: list[Edit] = []
    for n, rung in enumerate(listed):
        bounded, last = isinstance(rung, dict) and rung.get("times") is not None, n == len(listed) - 1
        if last and bounded:
            edits.append(Drop((*path_of(rungs), n, "times")))
        elif not last and isinstance(rung, dict) and not bounded:
            edits.append(Put((*path_of(rungs), n, "times"), 1))
    return edits


def _add(tree: JSON, path: str) -> list[Edit]:
    """One more at the end of a list: what is only a default so far is written out first."""
    before = [Put(path_of(whole[0]), whole[1])] if (whole := whole_of(tree, f"{path}.0")) is not None else []
    items = at(tree_edited(tree, before), path)
    length = len(items) if isinstance(items, list) else 0
    place = max(0, length - 1) if place_of(path) in BEFORE_LAST else length
    return [*before, Insert((*path_of(path), place), fresh(tree, path))]


def _remove(tree: JSON, path: str) -> list[Edit]:
    before = [Put(path_of(whole[0]), whole[1])] if (whole := whole_of(tree, path)) is not None else []
    after = tree_edited(tree, before)
    if at(after, path) is MISSING:
        raise ButtonProblem(f"there is nothing at {path}: it was taken away meanwhile")
    listed, _, _ = path.rpartition(".")
    items = at(after, listed)
    if isinstance(items, list) and len(items) == 1 and not before and _may_be_left_out(tree, listed):
        return _dropped(tree, path_of(listed))
    return [*before, Drop(path_of(path))]


def _may_be_left_out(tree: JSON, listed: str) -> bool:
    """Whether a list that is empty says the same as none: then it goes with its last item."""
    return standing(tree_edited(tree, [Drop(path_of(listed))]), listed) in (None, [])


def _step(by: int) -> Callable[[JSON, str], list[Edit]]:
    def moved(tree: JSON, path: str) -> list[Edit]:
        before = [Put(path_of(whole[0]), whole[1])] if (whole := whole_of(tree, path)) is not None else []
        parts = path_of(path)
        items = at(tree_edited(tree, before), ".".join(map(str, parts[:-1])))
        here = parts[-1]
        if not (isinstance(items, list) and isinstance(here, int) and here < len(items)):
            raise ButtonProblem(f"there is nothing at {path}: it was taken away meanwhile")
        to = here + by
        return [*before, Move(parts, to)] if 0 <= to < len(items) else []

    return moved


def _reset(tree: JSON, path: str) -> list[Edit]:
    return _dropped(tree, path_of(path))


def _set(tree: JSON, rest: str) -> list[Edit]:
    path, _, text = rest.partition("=")
    shape = shape_of(path)
    assert shape is not None
    return put(tree, path, read(shape, [text]))


def _append(tree: JSON, rest: str) -> list[Edit]:
    """One more name at the end of a list of names."""
    path, _, text = rest.partition("=")
    items = at(tree, path)
    return [Insert((*path_of(path), len(items) if isinstance(items, list) else 0), text)] if text else []


def _turn(tree: JSON, rest: str) -> list[Edit]:
    path, _, name = rest.partition("=")
    forms = FORMS.get(place_of(path), {})
    if name not in forms:
        raise ButtonProblem(f"{path} has no form {name[:20]!r}; it has: {', '.join(forms) or 'one alone'}")
    return turned(tree, path_of(path), name)


def _lead(tree: JSON, path: str) -> list[Edit]:
    """A team for a worker, under its name."""
    lead = path.rpartition(".")[2]
    return [Put(path_of(path), team_of(tree, lead))] if at(tree, path) is MISSING else []


def _declare(tree: JSON, path: str) -> list[Edit]:
    if place_of(path) != "mcp_servers.*":
        raise ButtonProblem(f"{path[:80]} is no MCP server, which could be asked what it offers")
    return declarations(tree, path)


BUTTONS: Mapping[str, Callable[[JSON, str], list[Edit]]] = {
    "add": _add,
    "remove": _remove,
    "up": _step(-1),
    "down": _step(1),
    "reset": _reset,
    "set": _set,
    "append": _append,
    "turn": _turn,
    "lead": _lead,
    "declare": _declare,
}
"""What a button does to the draft; what it is followed by is a path."""
