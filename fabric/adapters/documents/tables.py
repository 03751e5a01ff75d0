"""Tables as text: a line a row, after a mark with its number. CSV in the dialects of spreadsheet programs (RFC 4180
and its relatives).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import islice

from fabric.adapters.documents.outcome import FileReading, UnreadableFile, WrittenText, list_numbers

KIND = "CSV table"
ENDINGS = (".csv", ".tsv", ".tab")
DELIMITERS = ",;\t|"
COLUMNS_MAX = 200
CELL_CHARS_MAX = 32_767
"""Largest cell; Excel's own limit."""
LOOKED_AT = 100
"""Number of rows that decide on the delimiter."""
_SAID = re.compile(r"\Asep=(.)\n", re.IGNORECASE)


def row_text(number: int, cells: Sequence[str]) -> str:
    """Return one row after its mark, without empty cells at its end."""
    plain = [" ".join(cell.replace("|", "\\|").split()) for cell in cells]
    while plain and not plain[-1]:
        plain.pop()
    return f"[row {number}] {' | '.join(plain)}"


def read_table(text: str) -> FileReading | None:
    """Return the rows of a CSV file. None: the text has fewer than two columns, or is too large to be marked.

    Raises UnreadableFile for an unclosed quotation mark, which would make one cell of the rest of the file.
    """
    said = _SAID.match(text)
    body = text[said.end() :] if said else text
    delimiter = said[1] if said else _delimiter(body)
    if not delimiter:
        return None
    rows = _rows(body, delimiter)
    widths = Counter(len(row) for row in rows if row)
    if not widths or max(widths) > COLUMNS_MAX or max(widths) < 2:
        return None
    written = WrittenText()
    try:
        for number, row in enumerate(rows, start=1):
            if any(cell.strip() for cell in row):
                written.add(row_text(number, row))
    except UnreadableFile:
        return None
    header = len(next(row for row in rows if row))
    ragged = [number for number, row in enumerate(rows, start=1) if row and len(row) != header]
    notes = (
        (f"not as many cells as the header in row{'s' if ragged[1:] else ''} {list_numbers(ragged)}",) if ragged else ()
    )
    return FileReading(KIND, written.text(), notes)


def _delimiter(text: str) -> str:
    """Return the delimiter with which most rows fit the header; empty: none has two columns."""
    best = (0, 0, "")
    for delimiter in DELIMITERS:
        rows = [row for row in _records(text[:100_000], delimiter, LOOKED_AT) if row]
        header = len(rows[0]) if rows else 0
        if header > 1:
            best = max(best, (sum(len(row) == header for row in rows), header, delimiter))
    return best[2]


def _records(text: str, delimiter: str, most: int) -> list[list[str]]:
    """Return the first rows; fewer where a cell is longer than any table's."""
    try:
        return list(islice(csv.reader(StringIO(text, newline=""), delimiter=delimiter), most))
    except csv.Error:
        return []


def _rows(text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    begun = ended = 0
    try:
        for row in reader:
            begun, ended = ended, reader.line_num
            if max(map(len, row), default=0) > CELL_CHARS_MAX:
                raise _too_long(begun + 1)
            rows.append(row)
    except csv.Error:
        raise _too_long(ended + 1) from None
    last = StringIO("\n".join(text.split("\n")[begun:] if rows else ()), newline="")
    try:
        list(csv.reader(last, delimiter=delimiter, strict=True))
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise UnreadableFile(f"has a quotation mark in line {begun + 1:,} that is never closed; close it") from None
    return rows


def _too_long(line: int) -> UnreadableFile:
    cell = f"a cell of more than {CELL_CHARS_MAX:,} characters that begins in line {line:,}"
    return UnreadableFile(f"has {cell}; close the quotation mark before it, or make the cell shorter", too_large=True)
