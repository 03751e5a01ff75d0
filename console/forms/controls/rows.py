"""Controls in rows: names with values, and the parameters of a tool. What rows cannot say is written as JSON.

A page sends each cell as ``r.PATH.ROW.COLUMN``. An empty row is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from console.forms.controls.kinds import Kind
from console.forms.controls.schemas import Schema, properties_of, required_of
from fabric.core.values.units import JSON

ROW = "r."
"""Before the path in the names of cells."""
ROWS_MAX = 200
SPARE_ROWS = 3
"""Empty rows at the end. A page with a script shows one of them."""

Cells = tuple[str, ...]
"""The texts of a row, one for each column."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``options``: its only values, each with a word; the first one stands in an empty row."""

    label: str
    example: str = ""
    options: tuple[tuple[str, str], ...] = ()
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class RowsRead:
    """The value of some rows. A row with a problem is in no value."""

    value: JSON
    problem: str = ""
    """One sentence about the first bad row, in the words of its columns."""


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of control whose value is rows."""

    columns: tuple[Column, ...]
    key: int
    """Column of the row's name."""
    show: Callable[[JSON], list[Cells] | None]
    """Return the rows of a value; None where rows cannot say it."""
    make: Callable[[JSON, dict[str, Cells]], JSON]
    """Return the value of rows by their names. It gets the value that was shown too."""

    def is_empty(self, cells: Cells) -> bool:
        """Return True for a row without a text. Hidden cells and choices do not count."""
        return not any(cell for cell, one in zip(cells, self.columns, strict=True) if not (one.hidden or one.options))

    @property
    def blank(self) -> Cells:
        """Return an empty row."""
        return tuple(one.options[0][0] if one.options else "" for one in self.columns)


# -- names with values -------------------------------------------------------------------------------------------------


def _pairs(value: JSON) -> list[Cells] | None:
    if not (isinstance(value, dict) and all(isinstance(one, str) for one in value.values())):
        return None
    return list(value.items())


def _from_pairs(given: JSON, rows: dict[str, Cells]) -> JSON:
    return {name: cells[1] for name, cells in rows.items()}


# -- the parameters of a tool ------------------------------------------------------------------------------------------

_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_ABOUT = {"type", "description"}
_BESIDE = {"type", "properties", "required"}


def _parameters(value: JSON) -> list[Cells] | None:
    """Name before, name, type, required or not, description. Other keywords of a parameter stay as they are."""
    if not (isinstance(value, dict) and value.get("type", "object") == "object"):
        return None
    properties, needed = properties_of(value), value.get("required", [])
    if value.get("properties", {}) != properties or not isinstance(needed, list):
        return None
    if not all(isinstance(one, str) and one in properties for one in needed):
        return None
    if not all(isinstance(one, dict) and _has_plain_words(one) for one in properties.values()):
        return None
    required = required_of(value)
    return [
        (name, name, str(one.get("type", "")), "yes" if name in required else "", str(one.get("description", "")))
        for name, one in properties.items()
    ]


def _has_plain_words(schema: Schema) -> bool:
    return schema.get("type", "") in ("", *_TYPES) and isinstance(schema.get("description", ""), str)


def _from_parameters(given: JSON, rows: dict[str, Cells]) -> JSON:
    known = properties_of(given) if isinstance(given, dict) else {}
    rest = {key: one for key, one in given.items() if key not in _BESIDE} if isinstance(given, dict) else {}
    properties = {}
    for name, (was, _, type_, _, description) in rows.items():
        kept = {key: one for key, one in known.get(was, {}).items() if key not in _ABOUT}
        about = {"type": type_, "description": description}
        properties[name] = {**{key: text for key, text in about.items() if text}, **kept}
    required = [name for name, cells in rows.items() if cells[3]]
    return {"type": "object", "properties": properties, **({"required": required} if required else {}), **rest}


ROW_KINDS: Mapping[Kind, RowKind] = {
    "pairs": RowKind((Column("Name"), Column("Value")), 0, _pairs, _from_pairs),
    "parameters": RowKind(
        (
            Column("Name before", hidden=True),
            Column("Name", "customer"),
            Column("Type", options=(*((one, one) for one in _TYPES), ("", "as its JSON says"))),
            Column("Needed", options=(("yes", "required"), ("", "optional"))),
            Column("Description", "The customer's number."),
        ),
        1,
        _parameters,
        _from_parameters,
    ),
}


# -- rows in and out ---------------------------------------------------------------------------------------------------


def list_rows(about: RowKind, value: JSON) -> list[Cells] | None:
    """Return the rows of a value; None where rows cannot say it. ``value`` is None where none is given."""
    return [] if value is None else about.show(value)


def list_sent_rows(about: RowKind, path: str, find_text: Callable[[str], str | None]) -> list[Cells]:
    """Return the rows that a page sent of a path, empty ones too, without blanks around their texts."""
    return list(_sent_rows(f"{ROW}{path}", range(len(about.columns)), find_text))


def _sent_rows(name: str, columns: range, find_text: Callable[[str], str | None]) -> Iterator[Cells]:
    for row in range(ROWS_MAX):
        cells = [find_text(f"{name}.{row}.{column}") for column in columns]
        if all(one is None for one in cells):
            return
        yield tuple((one or "").strip() for one in cells)


def read_rows(about: RowKind, rows: list[Cells], given: JSON) -> RowsRead:
    """Return the value of rows. ``given``: the value that was shown, None for none. Rows alike give it back."""
    found: dict[str, Cells] = {}
    problem = ""
    for number, cells in enumerate(rows, 1):
        if about.is_empty(cells):
            continue
        name = cells[about.key]
        if not name:
            problem = problem or f"row {number} has no name: give it one, or empty the row"
        elif name in found:
            problem = problem or f"{name[:60]!r} is there twice: give row {number} another name"
        else:
            found[name] = cells
    shown = list_rows(about, given)
    visible = [_visible(about, cells) for cells in found.values()]
    if shown is not None and visible == [_visible(about, cells) for cells in shown]:
        return RowsRead(given, problem)
    return RowsRead(about.make(given, found), problem)


def _visible(about: RowKind, cells: Cells) -> Cells:
    return tuple(cell for cell, one in zip(cells, about.columns, strict=True) if not one.hidden)
