"""Where a role holds: in the whole workspace, or at one fabric or one folder of fabrics (docs/semantics.md "Roles").

``editor`` holds everywhere, ``editor@refunds`` at the fabric of this name, ``editor@payments-*`` at the folder of all whose names begin with
``payments-``. A fabric's name never changes, so that nothing moves into or out of a folder.
"""

from __future__ import annotations

import re
from collections.abc import Collection

AT = "@"
ALL = "*"
DRAFT_OF = " (draft of "
"""Stands between the names of a fabric and of an author where a draft is drilled. No fabric's name holds it."""
NAME = r"[a-z][a-z0-9_-]{0,62}"
"""A fabric's name (``fabric.core.spec_parts.Name``)."""
_place = re.compile(rf"{NAME}|[a-z][a-z0-9_-]{{0,60}}[-_]\*")


def is_place(text: str) -> bool:
    """Whether it is the name of a fabric, or of a folder: the beginning of names up to a - or _, and a ``*``."""
    return _place.fullmatch(text) is not None


def own_name(fabric: str) -> str:
    """The fabric's own name, for a draft of it that was drilled too."""
    return fabric.partition(DRAFT_OF)[0]


def holds_at(place: str, fabric: str) -> bool:
    """True for the fabric that a place names, and for each in the folder that it names."""
    return fabric.startswith(place[:-1]) if place.endswith(ALL) else fabric == place


def place_of(word: str) -> str:
    """Where a role of a member holds; empty: in the whole workspace."""
    return word.partition(AT)[2]


def roles_at(held: Collection[str], fabric: str) -> frozenset[str]:
    """The roles that somebody has at a fabric, without places: those of the whole workspace, and those that hold there."""
    split = (word.partition(AT) for word in held)
    return frozenset(role for role, at, place in split if not at or holds_at(place, fabric))


def everywhere(held: Collection[str]) -> frozenset[str]:
    """The roles that hold in the whole workspace."""
    return frozenset(word for word in held if AT not in word)


def reached(held: Collection[str]) -> tuple[str, ...] | None:
    """The places that somebody sees who has these roles; None: the whole workspace, for who has a role in it, or none at all."""
    return None if everywhere(held) or not held else tuple(sorted({place_of(word) for word in held}))
