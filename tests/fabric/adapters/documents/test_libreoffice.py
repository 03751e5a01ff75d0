"""Files as LibreOffice 7.4 saves them (``tests/data/attachments/libreoffice.*``): other marks of pages than Word's, other types of cells than Excel's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fabric.adapters.documents.attachments import read_file
from fabric.adapters.documents.outcome import UnreadableFile

FILES = Path(__file__).parents[3] / "data" / "attachments"


def reading(name: str):
    return read_file(name, (FILES / name).read_bytes(), time.monotonic() + 60)


def test_a_text_is_read_and_says_that_its_pages_are_not_known():
    found = reading("libreoffice.docx")
    assert found.text.split() == [
        *("Budget", "The", "bridge", "is", "40", "metres", "long,", "żółć."),
        *("a", "|", "b", "1", "|", "2", "Second", "page."),
    ]
    assert found.notes == ("its pages are not known, because where its pages end is not saved in it",)


def test_a_workbook_is_read_with_dates_formulas_and_an_empty_sheet():
    assert reading("libreoffice.xlsx").text.splitlines() == [
        "[sheet Sums]",
        "[row 1] name | sum | when",
        "[row 2] Ana | 4.5 | 2026-01-02",
        "[row 3] twice | 9 | TRUE",
        "",
        "[sheet Empty]",
    ]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("libreoffice.odt", "is an OpenDocument text; save it as DOCX or PDF and attach that"),
        ("libreoffice.ods", "is an OpenDocument spreadsheet; save it as XLSX and attach that"),
    ],
)
def test_its_own_formats_are_refused_with_what_to_do(name: str, said: str):
    with pytest.raises(UnreadableFile, match=said):
        reading(name)
