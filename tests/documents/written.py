"""Tests that make pages share where they are, when they are written, and how a cell of a table is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

from console.launch.processes.data_directory import ROOT

REFERENCE = ROOT / "docs" / "reference"
WRITE = "WRITE_DOCS"
"""Set this variable when running such a test to write its page anew."""


def hold(page: Path, made: str) -> None:
    """Asserts that a page is as it is made; writes it first where that is asked for."""
    if os.environ.get(WRITE):
        page.write_text(made)
    said = f"{page.relative_to(ROOT)} is out of date: run this test once with {WRITE}=1 in the environment"
    assert page.exists(), said
    assert page.read_text() == made, said


def hold_table(page: Path, heading: str, made: str) -> None:
    """Asserts that the table under a heading is as it is made; writes it first where that is asked for."""
    before, under, rest = page.read_text().partition(f"## {heading}\n\n")
    assert under, f"{page.relative_to(ROOT)} has no heading {heading!r}"
    after = rest[rest.find("\n\n") + 1 :] if "\n\n" in rest else ""
    hold(page, f"{before}{under}{made}{after}")


def cell(text: str) -> str:
    """A text as it stands in a cell of a table: on one line, its bars and angle brackets as text."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()
