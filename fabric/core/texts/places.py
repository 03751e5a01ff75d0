"""Places in a document: the pages, sheets and rows that marks in its text begin.

A reader of files writes a mark where a place begins: ``[page 3]`` or ``[sheet Budget]`` on a line of its own, ``[row
12]`` before the cells of a row. The marks are part of the text, so that a model sees them. The content of a place
follows from the text alone. (docs/specification/gates.md)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from fabric.core.values.frozen import value

SHEET_CHARS = 100
"""Most characters of a sheet's name in a mark."""

_MARK = re.compile(
    r"^\[(?:page (?P<page>\d{1,6})\](?=\n|\Z)|sheet (?P<sheet>[^\[\]\n]{1,100})\](?=\n|\Z)|row (?P<row>\d{1,7})\](?=[ \n]|\Z))",
    re.MULTILINE,
)
_MARKED = re.compile(_MARK.pattern + r"[ \n]?", re.MULTILINE)
_CITED = re.compile(
    r"(?:(?P<pages>(?:pages?|pp?\.) ?(?P<p1>\d{1,6})(?: ?[-–] ?(?P<p2>\d{1,6}))?)"
    r"|(?:sheet (?P<sheet>[^\[\]\n]{1,100}?))?(?P<rows>(?:^|, ?)rows? (?P<r1>\d{1,7})(?: ?[-–] ?(?P<r2>\d{1,7}))?)?)\Z",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*(?:,|;|#)\s*|\s+(?=p)", re.IGNORECASE)


@value()
class PlaceMark:
    """Beginning of a place. ``start`` and ``end``: the characters of the mark itself; one of the other fields is
    set.
    """

    start: int
    end: int
    page: int | None = None
    sheet: str | None = None
    row: int | None = None


@value()
class Place:
    """A cited place: pages, or a sheet, rows of it, or both. Last numbers are included."""

    pages: tuple[int, int] | None = None
    sheet: str | None = None
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        """Return the place as it is cited: ``page 3``, ``sheet Budget, rows 2-4``."""
        if self.pages is not None:
            return _spell_numbers("page", self.pages)
        told = [f"sheet {self.sheet}"] if self.sheet else []
        return ", ".join([*told, *([_spell_numbers("row", self.rows)] if self.rows else [])])


def marks(text: str) -> Iterator[PlaceMark]:
    """Yield every mark in a text, in order."""
    for found in _MARK.finditer(text):
        page, row = found["page"], found["row"]
        yield PlaceMark(
            found.start(), found.end(), int(page) if page else None, found["sheet"], int(row) if row else None
        )


def drop_marks(text: str) -> str:
    """Return the text as its author wrote it, for the checks of quotes and numbers."""
    return _MARKED.sub("", text) if "[" in text else text


def disarm_marks(text: str) -> str:
    """Return the text with mark-like parts in round brackets, since a file's own words begin no places."""
    return _MARK.sub(lambda found: f"({found[0][1:-1]})", text) if "[" in text else text


class PlaceMap:
    """The places of one document's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks = tuple(marks(text))
        self._starts = [mark.start for mark in self.marks]
        self._places: list[Place] = []
        self._heads: list[int | None] = []
        """For each mark the first row of its table, as a number of a mark."""
        sheet, head = None, None
        for n, mark in enumerate(self.marks):
            if mark.row is None:
                sheet, head = mark.sheet, None
            elif head is None:
                head = n
            page, row = mark.page, mark.row
            one = None if row is None else (row, row)
            self._places.append(Place(pages=(page, page)) if page is not None else Place(sheet=sheet, rows=one))
            self._heads.append(head)

    @property
    def pages(self) -> int:
        """Return the number of marked pages."""
        return sum(mark.page is not None for mark in self.marks)

    @property
    def sheets(self) -> tuple[str, ...]:
        """Names of the marked sheets, in order."""
        return tuple(mark.sheet for mark in self.marks if mark.sheet is not None)

    @property
    def rows(self) -> int:
        """Return the number of marked rows."""
        return sum(mark.row is not None for mark in self.marks)

    def find_place(self, start: int) -> Place | None:
        """Return the place that a character of the text belongs to; None before the first mark. A mark belongs to
        its place.
        """
        n = bisect_right(self._starts, start) - 1
        return None if n < 0 else self._places[n]

    def header(self, start: int) -> str:
        """Return the first row of a character's table, if it is an earlier row: the names of its columns."""
        n = bisect_right(self._starts, start) - 1
        head = None if n < 0 else self._heads[n]
        if head is None or head == n:
            return ""
        return self.text[self.marks[head].end : self.marks[head + 1].start].strip()

    def span(self, place: Place) -> tuple[int, int] | None:
        """Return the characters of a place, its marks included. None: the document lacks the place or a part of it."""
        if place.pages is not None:
            return self._find_span([mark.page for mark in self.marks], place.pages, (0, len(self.text)))
        sheet = (0, len(self.text))
        if place.sheet is not None:
            found = self._find_span([mark.sheet for mark in self.marks], (place.sheet, place.sheet), sheet)
            if found is None:
                return None
            sheet = found
        return sheet if place.rows is None else self._find_span([mark.row for mark in self.marks], place.rows, sheet)

    def _find_span(
        self, labels: Sequence[object], wanted: tuple[object, object], within: tuple[int, int]
    ) -> tuple[int, int] | None:
        """Return the span from the mark with the first label to the end of the last one. Only marks of one
        kind count.
        """
        inside = [n for n, at in enumerate(self._starts) if labels[n] is not None and within[0] <= at < within[1]]
        first = next((n for n in inside if labels[n] == wanted[0]), None)
        last = next((n for n in inside if labels[n] == wanted[1]), None)
        if first is None or last is None or last < first:
            return None
        ends = (self._starts[n] for n in inside if n > last)
        return self._starts[first], next(ends, within[1])


def cited_place(citation: str, names: Collection[str]) -> tuple[str, Place | None] | None:
    """Return the document and place that a citation such as ``report.pdf, page 3`` names. None: it names no known
    document.

    A document whose own name is the whole citation comes first.
    """
    if citation in names:
        return citation, None
    for name in sorted(names, key=len, reverse=True):
        if citation.startswith(name) and (place := _place(citation[len(name) :])) is not None:
            return name, place
    return None


def _place(words: str) -> Place | None:
    between = _BETWEEN.match(words)
    found = _CITED.match(words[between.end() :].replace("page=", "page ").strip()) if between else None
    if found is None or not found[0]:
        return None
    if found["pages"]:
        return Place(pages=(int(found["p1"]), int(found["p2"] or found["p1"])))
    rows = (int(found["r1"]), int(found["r2"] or found["r1"])) if found["rows"] else None
    return Place(sheet=found["sheet"], rows=rows)


def _spell_numbers(word: str, numbers: tuple[int, int]) -> str:
    first, last = numbers
    return f"{word} {first}" if first == last else f"{word}s {first}-{last}"
