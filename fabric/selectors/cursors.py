"""The cursor of a list: the instant and the id of its last row."""

from __future__ import annotations

from django.db.models import Q

from fabric.core.text import clean_text
from fabric.selectors.errors import Refused


def place_of(cursor: str, field: str) -> tuple[int, str]:
    """The instant and the id that a cursor names. ``field``: the parameter it came in. Refused invalid."""
    at, _, row_id = cursor.partition(".")
    if not (at.isascii() and at.isdecimal()) or len(at) > 18 or not row_id:
        message = f"{cursor[:60]!r} is no cursor of this list; start from its beginning"
        raise Refused(message, code="invalid", field=field)
    return int(at), clean_text(row_id)[0]


def behind(cursor: str, by: str, *, ids: str = "gt", field: str = "after") -> Q:
    """The rows after a cursor of a list that is ordered ``by`` a column (``-`` before it: the newest first).

    ``ids``: which ids of one instant come later. The first condition says nothing new; an index can be entered by it.
    """
    at, row_id = place_of(cursor, field)
    name, way = by.lstrip("-"), "lt" if by.startswith("-") else "gt"
    return Q(**{f"{name}__{way}e": at}) & (Q(**{f"{name}__{way}": at}) | Q(**{f"id__{ids}": row_id}))
