"""A list as a file, a page of rows in memory at a time: CSV for spreadsheets, lines of JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from fabric.core.csv_cells import line
from fabric.selectors.errors import Refused

JSON = Any
FORMS: Mapping[str, str] = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The two forms, and their types of content."""


class ListLines:
    """The rows of a list as lines of a file. Refused invalid for an unknown form."""

    name: ClassVar[str]
    """Of the file."""
    called: ClassVar[str]
    """The rows in a sentence."""
    columns: ClassVar[tuple[str, ...]]
    """Of a CSV, in their order."""

    def __init__(self, form: str) -> None:
        if form not in FORMS:
            message = f"{self.called} are not given as {form[:40]!r}; there are: {', '.join(FORMS)}"
            raise Refused(message, code="invalid", field="form")
        self.form, self.count = form, 0
        self._more, self._first = True, True

    def next_page(self) -> bytes:
        """The next lines; empty after the last. Raises TookTooLong."""
        if not self._more:
            return b""
        rows, self._more = self.rows()
        head = self._head() if self._first else ""
        self._first, self.count = False, self.count + len(rows)
        end = "" if self._more or self.form == "csv" else "".join(_json(one) for one in (self.end(),) if one)
        return (head + "".join(self._line(one) for one in rows) + end).encode()

    def pages(self) -> Iterator[bytes]:
        """All of them."""
        while page := self.next_page():
            yield page

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """The next rows as a program reads them, and whether others follow."""
        raise NotImplementedError

    def marks(self) -> Iterable[dict[str, JSON]]:
        """Yields the lines before the rows in a file of lines of JSON."""
        return ()

    def end(self) -> dict[str, JSON]:
        """Returns the line after the rows in a file of lines of JSON. An empty one is left out."""
        return {}

    def _head(self) -> str:
        return line(self.columns) if self.form == "csv" else "".join(_json(one) for one in self.marks())

    def _line(self, row: Mapping[str, JSON]) -> str:
        return line([_cell(row[name]) for name in self.columns]) if self.form == "csv" else _json(row)


def _json(row: Mapping[str, JSON]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _cell(value: JSON) -> JSON:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return ", ".join(value) if isinstance(value, list) else value
