import codecs

import pytest

from fabric.adapters.documents.tables import CELL_CHARS_MAX, COLUMNS_MAX
from tests.fabric.adapters.documents.reading_one import read, refused

ROWS = "[row 1] Name | Cost\n[row 2] Rent | 1,5\n[row 3] Food | 2"


def table(text, name="a.csv"):
    return read(text.encode() if isinstance(text, str) else text, name)


@pytest.mark.parametrize(
    "data",
    [
        'Name,Cost\nRent,"1,5"\nFood,2\n',
        "Name;Cost\nRent;1,5\nFood;2\n",
        "Name\tCost\r\nRent\t1,5\r\nFood\t2",
        "Name|Cost\nRent|1,5\nFood|2\n",
        "sep=;\r\nName;Cost\r\nRent;1,5\r\nFood;2\r\n",
        '"Name";"Cost"\n"Rent";"1,5"\n"Food";"2"\n',
        codecs.BOM_UTF8 + b"Name;Cost\nRent;1,5\nFood;2\n",
        codecs.BOM_UTF16_LE + "Name;Cost\nRent;1,5\nFood;2\n".encode("utf-16-le"),
    ],
)
@pytest.mark.parametrize("name", ["a.csv", "A.TSV", "a.tab"])
def test_every_dialect_is_the_same_table(data, name):
    found = table(data, name)
    assert (found.kind, found.text) == ("CSV table", ROWS)


def test_windows_1252_is_a_table_too():
    found = table("Käse;5 €\nBrot;2 €\n".encode("cp1252"))
    assert found.text == "[row 1] Käse | 5 €\n[row 2] Brot | 2 €"
    assert found.notes == ("read as Windows-1252",)


def test_a_cell_may_hold_lines_and_quotation_marks():
    assert table('a,b\n"two\nlines","say ""hi"""\n').text == '[row 1] a | b\n[row 2] two lines | say "hi"'


def test_rows_of_other_lengths_are_kept_and_named():
    found = table("a,b,c\n1,2\n3,4,5\n6,7,8,9\n\n10,11,12\n")
    assert found.text.split("\n")[1] == "[row 2] 1 | 2"
    assert found.text.split("\n")[-1] == "[row 6] 10 | 11 | 12"
    assert found.notes == ("not as many cells as the header in rows 2 and 4",)


@pytest.mark.parametrize(
    "text",
    [
        "one column\nof words\n",
        "nothing here",
        ",".join("x" * (COLUMNS_MAX + 1)) + "\n",
        "a,b\n" * 120_000,  # Its rows with their marks are more than is taken; the file itself is not.
    ],
)
def test_what_is_no_table_that_can_be_marked_stays_text(text):
    found = table(text)
    assert (found.kind, found.text) == ("text", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,b\n1,"open\n3,4\n', "has a quotation mark in line 2 that is never closed; close it"),
        (f'a,b\n1,"{"x" * (CELL_CHARS_MAX + 1)}"\n', "has a cell of more than 32,767 characters that begins in line 2"),
        ('a,b\n1,2\n3,"' + "x\n" * 200_000, "has a cell of more than 32,767 characters that begins in line 3"),
    ],
)
def test_a_quotation_mark_that_is_never_closed_is_refused(text, said):
    assert said in refused(text.encode(), "a.csv")


def test_a_name_alone_makes_no_table():
    assert table("a,b\n1,2\n", "a.txt").text == "a,b\n1,2\n"
