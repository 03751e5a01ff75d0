"""In a handoff one worker has the request first and passes it on. The table has a row for each worker and a column for
each that it may go to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.forms.controls.fields import MISSING, EditField

SHOWN = ("first", "passes")
"""Fields of a handoff that are shown here."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One worker may pass on to another, or not."""

    to: str
    picked: bool
    shown: bool
    """Not to itself, unless the draft says so."""


@dataclass(frozen=True, slots=True)
class Row:
    """One worker, and whom it may pass on to."""

    who: str
    field: EditField
    cells: tuple[Cell, ...]
    stray: bool = False
    """True if it is named here but is no worker."""


def build(editing: Editing, base: str = "topology") -> dict[str, Any]:
    """The first, and the table. ``base``: where the topology stands, in a team elsewhere."""
    place = f"{base}.passes"
    written = editing.at(place)
    listed = written if isinstance(written, dict) else {}
    workers = list(editing.field(f"{base}.workers").picked)
    whose = list(dict.fromkeys((*workers, *listed)))
    fields = {who: editing.field(f"{place}.{who}") for who in whose}
    columns = tuple(dict.fromkeys((*workers, *(one for field in fields.values() for one in field.picked))))
    rows = []
    for who, field in fields.items():
        cells = tuple(Cell(to, to in field.picked, to != who or to in field.picked) for to in columns)
        rows.append(Row(who, field, cells, stray=who not in workers))
    return {
        "place": place,
        "first": editing.field(f"{base}.first"),
        "columns": columns,
        "rows": rows,
        "given": written not in (MISSING, None),
        "about": editing.about(place),
    }
