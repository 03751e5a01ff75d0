"""Pages and exports lists: the cursor of a page, and a list as a file.

A cursor has the instant and the id of its last row. No spreadsheet takes a line of CSV for more than text
(docs/security.md).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from django.db.models import Q

from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON
from fabric.selectors.errors import Refused

FORMS: Mapping[str, str] = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The two forms, with their content types."""


class ListLines:
    """The rows of a list as lines of a file. Raises Refused invalid for an unknown form."""

    name: ClassVar[str]
    """Name of the file."""
    called: ClassVar[str]
    """Noun for the rows in a sentence."""
    cut = ""
    """Why rows are missing at the end, in one sentence; empty: none are. A CSV has it in its last line."""
    columns: ClassVar[tuple[str, ...]]
    """Columns of a CSV, in their order."""

    def __init__(self, form: str) -> None:
        if form not in FORMS:
            message = f"{self.called} are not given as {form[:40]!r}; there are: {', '.join(FORMS)}"
            raise Refused(message, code="invalid", field="form")
        self.form, self.count = form, 0
        self._more, self._first = True, True

    def next_page(self) -> bytes:
        """Return the next lines; empty after the last. Raises TookTooLong."""
        if not self._more:
            return b""
        rows, self._more = self.rows()
        head = self._head() if self._first else ""
        self._first, self.count = False, self.count + len(rows)
        end = "" if self._more else self._end()
        return (head + "".join(self._line(one) for one in rows) + end).encode()

    def pages(self) -> Iterator[bytes]:
        """Yield the file's pages of rows."""
        while page := self.next_page():
            yield page

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """Return the next rows as a program reads them, and True if others follow."""
        raise NotImplementedError

    def marks(self) -> Iterable[dict[str, JSON]]:
        """Yields the lines before the rows in a file of lines of JSON."""
        return ()

    def end(self) -> dict[str, JSON]:
        """Returns the line after the rows in a file of lines of JSON. An empty one is left out."""
        return {}

    def _head(self) -> str:
        return line(self.columns) if self.form == "csv" else "".join(_json(one) for one in self.marks())

    def _end(self) -> str:
        if self.form == "csv":
            return line([self.cut]) if self.cut else ""
        return "".join(_json(one) for one in (self.end(),) if one)

    def _line(self, row: Mapping[str, JSON]) -> str:
        return line([_cell(row[name]) for name in self.columns]) if self.form == "csv" else _json(row)


def _json(row: Mapping[str, JSON]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _cell(value: JSON) -> JSON:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return ", ".join(value) if isinstance(value, list) else value


ACTS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH HYPHEN-MINUS}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)
"""First characters of a cell that a spreadsheet executes; a single quote before it makes it text."""


def cell(value: object) -> object:
    """Return a value as a cell: None is empty, truth is yes or no. A text that a spreadsheet would execute gets a quote
    before it.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"'{value}" if isinstance(value, str) and value.startswith(ACTS) else value


def line(values: Sequence[object]) -> str:
    """One line with its end, quoted where it must be (RFC 4180)."""
    text = io.StringIO()
    csv.writer(text).writerow([cell(value) for value in values])
    return text.getvalue()


def read_place(cursor: str, field: str) -> tuple[int, str]:
    """Return the instant and the id in a cursor. ``field``: its parameter. Raises Refused invalid."""
    at, _, row_id = cursor.partition(".")
    if not (at.isascii() and at.isdecimal()) or len(at) > 18 or not row_id:
        message = f"{cursor[:60]!r} is no cursor of this list; start from its beginning"
        raise Refused(message, code="invalid", field=field)
    return int(at), clean_text(row_id)[0]


def build_cursor_condition(cursor: str, by: str, *, ids: str = "gt", field: str = "after") -> Q:
    """Return the condition on rows after a list's cursor. The list is ordered ``by`` a column (``-`` first: the newest
    first).

    ``ids``: the ids of one instant that come later. The first condition is redundant; it lets the database use an
    index.
    """
    at, row_id = read_place(cursor, field)
    name, way = by.lstrip("-"), "lt" if by.startswith("-") else "gt"
    return Q(**{f"{name}__{way}e": at}) & (Q(**{f"{name}__{way}": at}) | Q(**{f"id__{ids}": row_id}))
