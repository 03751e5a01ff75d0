"""CSV that no spreadsheet runs."""

import csv
import io

import pytest

from fabric.selectors.list_file import cell, line


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
)
def test_what_would_act_is_text(text):
    assert cell(text) == "'" + text


@pytest.mark.parametrize(("value", "held"), [("a=b", "a=b"), ("", ""), (None, ""), (True, "yes"), (False, "no"), (-1, -1), (0.5, 0.5)])  # fmt: skip
def test_everything_else_stays(value, held):
    assert cell(value) == held


def test_a_line_is_read_again_as_it_was():
    said = ["a,b", 'say "x"', "two\nlines", ""]
    assert next(csv.reader(io.StringIO(line(said), newline=""))) == said
    assert line(said).endswith("\r\n")
