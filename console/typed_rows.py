"""Rows of a typed form: which entries a list of objects has, in which order, and how one is added, moved or taken away.

Each entry has a key that stays with it: its place in the list that was shown, ``n0``, ``n1`` ... for one that is new, ``j0`` ... for a new one that fits
no fields. The form sends the keys in their order, so that a page without a script adds and moves rows by sending it, and what was typed stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

JSON = Any
Act = Literal["add", "up", "down", "remove"]
ACTS: tuple[Act, ...] = get_args(Act)
ROWS_MAX = 60
"""Of one list; a longer one is written as JSON."""
PARTS_MAX = 400
"""Parts of all lists of one form together: browsers and servers take so many fields."""
KEYS = "-rows"
"""Behind a list's name: the hidden field with its keys."""
ACT = "row"
"""Name of the buttons: ``add:LIST``, ``up:LIST:KEY`` ..."""
DAMAGED = "The form was damaged on its way: reload the page and write it again."
_key = re.compile(r"(0|[1-9]\d{0,2}|[nj](?:0|[1-9]\d{0,2}))", re.ASCII)


def keys_at_first(shown: Sequence[JSON], given: Sequence[JSON]) -> tuple[str, ...]:
    """The keys of a list that stands in the form at first: an entry that was shown keeps its own, wherever it stands by now.

    So does one at the same place with the same parts, whose values were changed.
    """
    found: list[str] = [""] * len(given)
    left = dict(enumerate(shown))
    for place, one in enumerate(given):
        if (
            same := next((n for n, other in left.items() if type(other) is type(one) and other == one), None)
        ) is not None:
            found[place] = str(same)
            del left[same]
    for place, one in enumerate(given):
        if not found[place] and isinstance(one, dict) and one.keys() == left.get(place, {}).keys():
            found[place] = str(place)
            del left[place]
    new = 0
    for place, one in enumerate(given):
        if not found[place]:
            found[place], new = f"{'n' if isinstance(one, dict) else 'j'}{new}", new + 1
    return tuple(found)


def keys_sent(text: str, shown: int) -> tuple[str, ...]:
    """The keys as the form sent them. ``shown``: how many entries there were at first. ValueError: a sentence."""
    keys = tuple(text.split(",")) if text else ()
    fit = all(_key.fullmatch(key) and (not key.isdigit() or int(key) < shown) for key in keys)
    if not fit or len(set(keys)) != len(keys) or len(keys) > ROWS_MAX:
        raise ValueError(DAMAGED)
    return keys


def acted(keys: tuple[str, ...], act: Act, key: str = "") -> tuple[str, ...]:
    """The keys after somebody pressed a button; the same where it changes nothing."""
    if act == "add":
        number = 1 + max((int(one[1:]) for one in keys if not one.isdigit()), default=-1)
        return keys if len(keys) >= ROWS_MAX or number > 999 else (*keys, f"n{number}")
    if key not in keys:
        return keys
    at = keys.index(key)
    rest = [*keys[:at], *keys[at + 1 :]]
    if act != "remove":
        rest.insert(max(0, at - 1) if act == "up" else at + 1, key)
    return tuple(rest)


def press_of(data: Mapping[str, Any] | None) -> tuple[Act | None, str, str]:
    """Which button was pressed: what it does, to which list, and to which entry of it."""
    act, _, rest = str((data or {}).get(ACT, "")).partition(":")
    name, _, key = rest.partition(":")
    return next((one for one in ACTS if one == act), None), name, key


def parts(value: JSON) -> int:
    """How many parts a value has that are no lists or objects."""
    if isinstance(value, dict):
        return 1 + sum(parts(one) for one in value.values())
    return 1 + sum(parts(one) for one in value) if isinstance(value, list) else 1


def described(entries: Sequence[Mapping[str, JSON]], type_of: Any) -> dict[str, JSON]:
    """A schema of objects that none was written for: the parts that they have, each with its type where that is always the same one."""
    names = list(dict.fromkeys(name for one in entries for name in one))
    types = {name: {type_of(one[name]) for one in entries if name in one} for name in names}
    properties = {
        name: {"type": next(iter(kinds))} if len(kinds) == 1 and kinds != {""} else {} for name, kinds in types.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in names if all(name in one for one in entries)],
    }
