"""Merges two people's changes of one JSON tree by path. A change by one of them is taken; different changes by both
are a conflict.

Lists of named things are merged by name, other lists are values as a whole. A renamed thing counts as one removed and
one added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from fabric.core.values.units import JSON

Side = Literal["mine", "theirs"]


class Absent(Enum):
    """Type of the absent value, which differs from null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Conflict:
    """A place that both changed differently. Values are ABSENT where there is none."""

    path: str
    """Dotted, things of a list by their name: ``agents.reader.max_output_tokens``; empty for the whole tree."""
    base: JSON
    mine: JSON
    theirs: JSON
    """Their value; for a list of named things that both reordered, the names that all three have."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Both changes in one tree."""

    value: JSON
    """Merged value; ABSENT if it was removed. In an unsettled conflict it is mine."""
    conflicts: tuple[Conflict, ...]
    from_theirs: tuple[str, ...]
    """The paths whose value, place or absence is theirs and was not mine."""


@dataclass(slots=True)
class _Merging:
    choose: Mapping[str, Side]
    conflicts: list[Conflict] = field(default_factory=list)
    from_theirs: list[str] = field(default_factory=list)


def three_way(base: JSON, mine: JSON, theirs: JSON, choose: Mapping[str, Side] | None = None) -> Merge:
    """Merge the two sides' changes of ``base``. ``choose``: the side to take for the path of a conflict, which
    settles it.
    """
    merging = _Merging(choose or {})
    value = _merge_values(merging, base, mine, theirs, "")
    return Merge(value, tuple(merging.conflicts), tuple(merging.from_theirs))


def index_by_name(items: JSON) -> dict[str, JSON] | None:
    """Return a list of named things as a mapping; None for anything else, and if a name is repeated."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and "name" in item for item in items):
        return None
    named = {str(item["name"]): item for item in items}
    return named if len(named) == len(items) else None


def dotted_path(path: str, name: str) -> str:
    """Return ``path.name``, or ``name`` alone where ``path`` is empty."""
    return f"{path}.{name}" if path else name


def _merge_values(merging: _Merging, base: JSON, mine: JSON, theirs: JSON, path: str) -> JSON:
    if same(mine, theirs) or same(base, theirs):
        return mine
    if isinstance(mine, dict) and isinstance(theirs, dict) and (isinstance(base, dict) or base is ABSENT):
        return _fields(merging, {} if base is ABSENT else base, mine, theirs, path)
    names = [index_by_name(side) for side in ([] if base is ABSENT else base, mine, theirs)]
    if names[0] is not None and names[1] is not None and names[2] is not None:
        return _list(merging, names[0], names[1], names[2], path)
    return _choose_value(merging, base, mine, theirs, path)


def same(one: JSON, other: JSON) -> bool:
    """Return True if two values are equal JSON. 1, 1.0 and true are three values, and the order of fields does not
    count.
    """
    if one is ABSENT or other is ABSENT:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _choose_value(merging: _Merging, base: JSON, mine: JSON, theirs: JSON, path: str) -> JSON:
    """Return one of two different values, as a whole."""
    if same(base, theirs):
        return mine
    side = "theirs" if same(base, mine) else merging.choose.get(path)
    if side is None:
        merging.conflicts.append(Conflict(path, base, mine, theirs))
    if side == "theirs":
        merging.from_theirs.append(path)
        return theirs
    return mine


def _fields(
    merging: _Merging, base: Mapping[str, JSON], mine: Mapping[str, JSON], theirs: Mapping[str, JSON], path: str
) -> dict[str, JSON]:
    """Return the fields of a merged group: first those of mine."""
    merged: dict[str, JSON] = {}
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        was, is_mine, is_theirs = (side.get(name, ABSENT) for side in (base, mine, theirs))
        value = _merge_values(merging, was, is_mine, is_theirs, dotted_path(path, name))
        if value is not ABSENT:
            merged[name] = value
    return merged


def _list(
    merging: _Merging, base: Mapping[str, JSON], mine: Mapping[str, JSON], theirs: Mapping[str, JSON], path: str
) -> list[JSON]:
    """Return a list of named things, in the order of the side that changed it."""
    items = _fields(merging, base, mine, theirs, path)
    common = [name for name in base if name in mine and name in theirs]
    ours, other = ([name for name in side if name in common] for side in (mine, theirs))
    moved_by_them = ours != other and _choose_value(merging, common, ours, other, path) is other
    first, second = (theirs, mine) if moved_by_them else (mine, theirs)
    return [items[name] for name in _order(items, list(first), list(second))]


def _order(kept: Iterable[str], first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the remaining names in the order of the first list. A name of the second list alone follows its
    predecessor there.
    """
    wanted = set(kept)
    order = [name for name in first if name in wanted]
    place = 0
    for name in second:
        if name in order:
            place = order.index(name) + 1
        elif name in wanted:
            order.insert(place, name)
            place += 1
    return order
