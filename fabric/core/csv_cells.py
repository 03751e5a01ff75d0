"""Lines of CSV that no spreadsheet takes for more than text (reliability.md 2.11)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

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
"""What a cell begins with that a spreadsheet runs; a single quote before it makes it text."""


def cell(value: object) -> object:
    """A value as a cell holds it: None is empty, truth is yes or no, and a text that would act has a quote before it."""
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
