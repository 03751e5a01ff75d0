"""The place of an item in another version of its list."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fabric.core.values.units import JSON


def moved(shown: JSON, since: JSON, path: str) -> str | None:
    """Return the path in ``since`` of the thing at a path of ``shown``. None: it was taken out.

    Fields stay where they are. An item of a list is known by its name, else by all that it says, else by its place in a
    list that is as long as it was.
    """
    before, after, parts = shown, since, []
    for part in path.split("."):
        if isinstance(before, list) and part.isdecimal() and int(part) < len(before):
            place = _place(before, after, int(part)) if isinstance(after, list) else None
            if place is None:
                return None
            before, after = before[int(part)], after[place]
            parts.append(str(place))
        else:
            before, after = (one.get(part) if isinstance(one, dict) else None for one in (before, after))
            parts.append(part)
    return ".".join(parts)


def _place(before: list[JSON], after: list[JSON], number: int) -> int | None:
    if before == after:
        return number
    one = before[number]
    for said in (_name, _whole):
        key = said(one)
        if key is None:
            continue
        alike, places = ([n for n, other in enumerate(those) if said(other) == key] for those in (before, after))
        if places:
            # Of fewer equal items than before, the one that was taken out cannot be told.
            return places[alike.index(number)] if len(places) >= len(alike) else None
    return number if len(before) == len(after) else None


def _name(item: JSON) -> JSON:
    return item.get("name") or None if isinstance(item, dict) else None


def _whole(item: JSON) -> JSON:
    return item


def origins(before: Sequence[JSON], after: Sequence[JSON]) -> list[int | None]:
    """Return for each item of a list its place in the list before; None for a new one.

    An item is known by all that it says, else by its place. In a list as long as before the others are known by order.
    """
    found: dict[int, int] = {}
    for said, anywhere in ((_text, True), (_fields, len(before) == len(after))):
        keys = [said(one) for one in before]
        for place, one in enumerate(after):
            fits = [
                n for n in (place, *range(len(keys) * anywhere)) if n < len(keys) and keys[n] == said(one) is not None
            ]
            free = next((n for n in fits if n not in found.values()), None)
            if place not in found and free is not None:
                found[place] = free
    return [found.get(place) for place in range(len(after))]


def _text(item: JSON) -> str:
    return json.dumps(item, sort_keys=True)


def _fields(item: JSON) -> JSON:
    return sorted(item) if isinstance(item, dict) else None
