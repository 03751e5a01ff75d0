import datetime as dt

import pytest

from tests.fabric.adapters.documents import files
from tests.fabric.adapters.documents.reading_one import read, refused

DAY = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 1, 12, 30)  # noqa: DTZ001 - A workbook knows no time zones.


def test_each_sheet_is_a_table_with_numbered_rows():
    found = read(files.workbook({"Budget": [["Item", "Cost"], ["Rent", 1200], [], ["Food", 99.5]], "Notes": [["one"]]}))
    assert found.kind == "Excel workbook"
    assert found.text == (
        "[sheet Budget]\n[row 1] Item | Cost\n[row 2] Rent | 1200\n[row 4] Food | 99.5\n\n[sheet Notes]\n[row 1] one\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "TRUE"),
        (0.1 + 0.2, "0.3"),
        (3.0, "3"),
        (1e20, "1e+20"),
        (DAY, "2026-03-01"),
        (NOON, "2026-03-01 12:30:00"),
        (dt.time(9, 5), "09:05:00"),
        ("a|b", "a\\|b"),
        ("two\nlines  wide", "two lines wide"),
        ("=no formula'", None),
        ("[row 9] x", "[row 9] x"),
    ],
)
def test_values_are_in_words(value, text):
    data = files.workbook({"A": [["x", value]]})
    if text is None:
        assert "has a formula without a value in cell B1 of sheet A; open it" in refused(data)
    else:
        assert read(data).text.split("\n")[1] == f"[row 1] x | {text}"


def test_a_formula_is_its_value_and_an_empty_value_is_one_too():
    cells = "<c r='A1'><f>1+1</f><v>2</v></c><c r='B1' t='str'><f>IF(1,\"\")</f><v></v></c><c r='C1' t='e'><f>1/0</f><v>#DIV/0!</v></c>"
    assert read(files.workbook_with(f"<row r='1'>{cells}</row>")).text == "[sheet A]\n[row 1] 2 |  | #DIV/0!\n"


def test_a_formula_that_was_never_calculated_is_refused():
    told = refused(files.workbook({"Sums": [[1, "=A1+1"]]}))
    assert (
        told
        == "has a formula without a value in cell B1 of sheet Sums; open it in a spreadsheet program, save it and attach that"
    )


def test_a_hidden_sheet_is_read_and_named():
    def hide(book):
        book["B"].sheet_state = "hidden"

    found = read(files.workbook({"A": [[1]], "B": [[2]]}, hide))
    assert found.notes == ("hidden sheet read too: B",)
    assert "[sheet B]\n[row 1] 2" in found.text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (files.workbook({"A": []}), "is an Excel workbook with empty sheets only"),
        (files.workbook({"A": [[1], list(range(201))]}), "has 201 columns in row 2 of sheet A; at most 200 are taken"),
        (files.workbook({f"S{n}": [[n]] for n in range(201)}), "has 201 sheets; at most 200 are taken"),
        (files.workbook({"A": [["x" * 30_000]] * 40}), "has more than 1,000,000 bytes of text"),
        (files.workbook_with("<row>"), "is an Excel workbook that is damaged"),
        (files.workbook_with("<row r='1'><c r='A1' t='s'><v>99</v></c></row>"), "is an Excel workbook that is damaged"),
    ],
    ids=["empty", "wide", "sheets", "wordy", "broken", "lost text"],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(data, said):
    assert said in refused(data)


def test_a_cell_far_to_the_right_and_a_row_far_below():
    data = files.workbook_with(
        "<row r='1'><c r='A1'><v>1</v></c></row><row r='1048576'><c r='A1048576'><v>2</v></c></row>"
    )
    assert read(data).text == "[sheet A]\n[row 1] 1\n[row 1048576] 2\n"
    assert "columns in row 1 of sheet A" in refused(files.workbook_with("<row r='1'><c r='XFD1'><v>1</v></c></row>"))
