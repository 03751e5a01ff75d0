import pytest

from fabric.core.texts.places import Place, PlaceMap, cited_place, disarm_marks, drop_marks

PAGES = "[page 1]\nOne [see 2].\n\n[page 2]\nTwo\n[page 4]\nFour"
TABLE = (
    "[sheet A, B]\n[row 1] Item | Cost\n[row 2] Rent | 5\n[row 9] Food | 6\n\n[sheet C]\n[row 1] x | y\n[row 2] 1 | 2"
)
NAMES = ("report.pdf", "costs.xlsx", "page 3", "a, page 1")


@pytest.mark.parametrize(
    ("citation", "found"),
    [
        ("report.pdf", ("report.pdf", "")),
        ("report.pdf, page 3", ("report.pdf", "page 3")),
        ("report.pdf, p. 3", ("report.pdf", "page 3")),
        ("report.pdf page 3", ("report.pdf", "page 3")),
        ("report.pdf#page=3", ("report.pdf", "page 3")),
        ("report.pdf, pages 3-5", ("report.pdf", "pages 3-5")),
        ("report.pdf, pp. 3–5", ("report.pdf", "pages 3-5")),
        ("costs.xlsx, sheet A, B", ("costs.xlsx", "sheet A, B")),
        ("costs.xlsx, sheet A, B, row 2", ("costs.xlsx", "sheet A, B, row 2")),
        ("costs.xlsx, sheet C, rows 2-4", ("costs.xlsx", "sheet C, rows 2-4")),
        ("costs.xlsx, row 2", ("costs.xlsx", "row 2")),
        ("page 3", ("page 3", "")),
        ("a, page 1", ("a, page 1", "")),
        ("a, page 1, page 2", ("a, page 1", "page 2")),
        ("report.pdf, the third page", None),
        ("report.pdf,", None),
        ("report.pdfx", None),
        ("other.pdf, page 3", None),
        ("", None),
    ],
)
def test_a_citation_names_a_document_and_may_name_a_place(citation, found):
    got = cited_place(citation, NAMES)
    assert (got and (got[0], str(got[1] or ""))) == found


def test_a_character_belongs_to_the_place_whose_mark_is_before_it():
    of = PlaceMap(PAGES)
    assert of.pages == 3
    assert [str(of.find_place(PAGES.index(word))) for word in ("[page 1]", "One", "Two", "[page 4]", "Four")] == [
        *("page 1", "page 1", "page 2", "page 4", "page 4")
    ]
    assert PlaceMap("x[page 1]").marks == ()
    assert PlaceMap("one\n[page 1]\ntwo").find_place(0) is None


def test_a_row_belongs_to_its_sheet_and_knows_its_header():
    of = PlaceMap(TABLE)
    assert (of.sheets, of.rows, of.pages) == (("A, B", "C"), 5, 0)
    at = TABLE.index("Food")
    assert (str(of.find_place(at)), of.header(at)) == ("sheet A, B, row 9", "Item | Cost")
    assert of.header(TABLE.index("Item")) == ""
    assert of.header(TABLE.index("1 | 2")) == "x | y"


@pytest.mark.parametrize(
    ("text", "place", "stands"),
    [
        (PAGES, Place(pages=(2, 2)), "[page 2]\nTwo\n"),
        (PAGES, Place(pages=(2, 4)), "[page 2]\nTwo\n[page 4]\nFour"),
        (PAGES, Place(pages=(3, 3)), None),
        (PAGES, Place(pages=(4, 2)), None),
        (PAGES, Place(sheet="C"), None),
        (TABLE, Place(sheet="C"), "[sheet C]\n[row 1] x | y\n[row 2] 1 | 2"),
        (TABLE, Place(sheet="C", rows=(2, 2)), "[row 2] 1 | 2"),
        (TABLE, Place(sheet="A, B", rows=(2, 9)), "[row 2] Rent | 5\n[row 9] Food | 6\n\n"),
        (TABLE, Place(sheet="C", rows=(9, 9)), None),
    ],
)
def test_the_characters_of_a_place(text, place, stands):
    span = PlaceMap(text).span(place)
    assert (text[slice(*span)] if span else None) == stands


def test_marks_are_no_words_of_the_author():
    assert drop_marks(PAGES) == "One [see 2].\n\nTwo\nFour"
    assert drop_marks(TABLE).split("\n")[:2] == ["Item | Cost", "Rent | 5"]
    assert PlaceMap(disarm_marks(PAGES)).marks == ()
    assert disarm_marks("[page 3]\n[row 1] a\n[sheet [x]]") == "(page 3)\n(row 1) a\n[sheet [x]]"
