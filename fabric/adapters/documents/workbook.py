"""Excel workbooks by openpyxl, read-only: the values of each sheet as rows of a table (ECMA-376 part 1, section 18)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile, ZipFile

from lxml.etree import LxmlError
from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from fabric.adapters.documents.outcome import SHORTER, FileReading, UnreadableFile, WrittenText
from fabric.adapters.documents.tables import COLUMNS_MAX, row_text
from fabric.core.texts.places import SHEET_CHARS

KIND = "Excel workbook"
CELLS_MAX = 400_000
"""Largest number of cells and rows of all sheets together, formatted empty ones included, and of shared texts."""
SHEETS_MAX = 200
PIECE_BYTES = 1_000_000
COUNTED = ("xl/worksheets/", "xl/sharedStrings")
_CELL = re.compile(rb"<(?:c|row|si)[ />]")
_SHEET_NAME = str.maketrans({"[": "(", "]": ")", "\n": " ", "\r": " "})


def read_workbook(data: bytes) -> FileReading:
    """Return each sheet after its mark, a line a row. Raises UnreadableFile for one that is damaged, too large, empty,
    or was never calculated.
    """
    try:
        _count(data)
        formulas = frozenset(_formulas(data))
        return _read(data, formulas)
    except (
        BadZipFile,
        InvalidFileException,
        LxmlError,
        ParseError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
    ):
        advice = "open it in Excel, save it again and attach that"
        raise UnreadableFile(f"is an Excel workbook that is damaged and cannot be read; {advice}") from None


def _read(data: bytes, formulas: frozenset[tuple[str, int, int]]) -> FileReading:
    written, hidden, filled = WrittenText(), [], False
    for sheet, rows in _sheets(data, values=True):
        name = sheet.title.translate(_SHEET_NAME)[:SHEET_CHARS].strip() or "unnamed"
        if sheet.sheet_state != "visible":
            hidden.append(name)
        written.add(f"[sheet {name}]")
        for number, row in enumerate(rows, start=1):
            for column, cell in enumerate(row):
                if cell.value is None and cell.data_type == "n" and (sheet.title, number, column) in formulas:
                    raise _refuse_uncalculated(sheet.title, cell.coordinate)
            values = [_cell_text(cell.value) for cell in row]
            if any(values):
                filled = True
                written.add(row_text(number, values))
        written.add("")
    if not filled:
        raise UnreadableFile("is an Excel workbook with empty sheets only; attach one with values in it")
    notes = (f"hidden sheet{'s' if hidden[1:] else ''} read too: {', '.join(hidden)}",) if hidden else ()
    return FileReading(KIND, written.text(), notes)


def _refuse_uncalculated(sheet: str, cell: str) -> UnreadableFile:
    where = f"cell {cell} of sheet {sheet}"
    return UnreadableFile(
        f"has a formula without a value in {where}; open it in a spreadsheet program, save it and attach that"
    )


def _count(data: bytes) -> None:
    """Raise UnreadableFile for too many cells, by a count of their tags. The sheet is not parsed for that: openpyxl
    walks a sheet without a stated size twice.
    """
    cells = 0
    with ZipFile(BytesIO(data)) as archive:
        for part in archive.namelist():
            if part.startswith(COUNTED):
                with archive.open(part) as stream:
                    while piece := stream.read(PIECE_BYTES):
                        cells += len(_CELL.findall(piece))
                        if cells > CELLS_MAX:
                            message = f"has more than {CELLS_MAX:,} cells, the most that is taken; {SHORTER}"
                            raise UnreadableFile(message, too_large=True)


def _formulas(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the places of formulas. Raises UnreadableFile for a row with too many columns."""
    for sheet, rows in _sheets(data, values=False):
        for number, row in enumerate(rows, start=1):
            filled = [column for column, cell in enumerate(row) if cell.value is not None]
            if filled and filled[-1] >= COLUMNS_MAX:
                where = f"row {number} of sheet {sheet.title}"
                message = f"has {filled[-1] + 1:,} columns in {where}; at most {COLUMNS_MAX} are taken; {SHORTER}"
                raise UnreadableFile(message, too_large=True)
            yield from ((sheet.title, number, column) for column in filled if row[column].data_type == "f")


def _sheets(data: bytes, *, values: bool) -> Iterator[tuple[Any, Iterator[tuple[Any, ...]]]]:
    book = load_workbook(BytesIO(data), read_only=True, data_only=values, keep_links=False)
    try:
        if len(book.worksheets) > SHEETS_MAX:
            message = f"has {len(book.worksheets):,} sheets; at most {SHEETS_MAX} are taken; {SHORTER}"
            raise UnreadableFile(message, too_large=True)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # A file's statement of its size may be wrong.
            yield sheet, sheet.iter_rows()
    finally:
        book.close()


def _cell_text(cell: Any) -> str:
    """Return a cell's value in words: days and times as in ISO 8601."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    if isinstance(cell, dt.datetime):
        return cell.isoformat(sep=" ", timespec="seconds")
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else f"{cell:.15g}"
    return str(cell)
