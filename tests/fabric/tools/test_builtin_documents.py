import pytest

from fabric.core.spec.tools import ToolSpec
from fabric.runtime.ports.journal import Document
from fabric.tools.answers.outcome import ToolError
from fabric.tools.documents import PASSAGE_CHARS, READ_CHARS, list_passages, read_document, search_documents
from tests.fabric.tools.asking import DOCUMENTS, run


def test_a_document_is_read_by_name():
    assert read_document(DOCUMENTS, "plan.md") == {
        "name": "plan.md",
        "text": DOCUMENTS[1].text,
        "start": 0,
        "total": len(DOCUMENTS[1].text),
        "more": False,
    }


def test_a_long_document_is_read_piece_by_piece_without_loss():
    long = Document("long.txt", "".join(f"{n:07}" for n in range(7_000)))
    pieces, start, more = [], 0, True
    while more:
        piece = read_document([long], "long.txt", start)
        assert len(piece["text"]) <= READ_CHARS
        pieces.append(piece["text"])
        start, more = start + len(piece["text"]), piece["more"]
    assert "".join(pieces) == long.text
    assert len(pieces) == 3


def test_case_does_not_matter_where_it_is_unambiguous():
    assert read_document(DOCUMENTS, "Plan.MD")["name"] == "plan.md"
    with pytest.raises(ToolError):
        read_document([Document("a", "1"), Document("A", "2")], "ａ")


@pytest.mark.parametrize(
    ("documents", "name", "said"),
    [
        (DOCUMENTS, "budget.md", "no document is named 'budget.md'; attached are: report.md, plan.md"),
        ((), "budget.md", "no document is attached to this run"),
    ],
)
def test_an_unknown_name_lists_those_that_there_are(documents, name, said):
    with pytest.raises(ToolError, match=said):
        read_document(documents, name)


def test_reading_past_the_end_says_where_the_end_is():
    with pytest.raises(ToolError, match=r"plan.md has \d+ characters; start is 9999"):
        read_document(DOCUMENTS, "plan.md", 9999)


def test_the_best_passage_comes_first_with_its_document_and_place():
    found = search_documents(DOCUMENTS, "costs")["results"]
    assert [(one["name"], one["text"]) for one in found] == [("report.md", "Costs fell by three percent.")]
    assert DOCUMENTS[0].text[found[0]["start"] :].startswith("Costs fell")


def test_a_plural_finds_its_singular_and_the_other_way():
    assert search_documents(DOCUMENTS, "markets")["results"] == search_documents(DOCUMENTS, "market")["results"]


def test_a_rare_word_weighs_more_than_a_common_one():
    found = search_documents([Document(f"{n}.md", text) for n, text in enumerate(("cat", "cat", "dog"))], "cat dog")[
        "results"
    ]
    assert [one["name"] for one in found] == ["2.md", "0.md", "1.md"]
    assert found[0]["score"] > found[1]["score"] == found[2]["score"]


def test_equal_scores_keep_reading_order_and_the_limit_holds():
    same = [Document(f"{n}.md", "the same words") for n in range(9)]
    found = search_documents(same, "words", 4)["results"]
    assert [one["name"] for one in found] == ["0.md", "1.md", "2.md", "3.md"]


@pytest.mark.parametrize(
    ("documents", "query", "said"), [(DOCUMENTS, "?!", "has no word to look for"), ((), "x", "no document is attached")]
)
def test_a_search_that_cannot_be_made_says_why(documents, query, said):
    with pytest.raises(ToolError, match=said):
        search_documents(documents, query)


def test_nothing_found_is_an_empty_list():
    assert search_documents(DOCUMENTS, "zebra")["results"] == []


@pytest.mark.parametrize(
    "text",
    ["One. " * 1_000, "x" * 5_000, "word " * 2_000, "a\n\n\n\nb\n \nc", "", "  \n\n  ", "line\n" * 900],
)
def test_passages_hold_all_the_text_in_order(text):
    found = list(list_passages(Document("d", text)))
    assert all(0 < len(one.text) <= PASSAGE_CHARS and text[one.start :].startswith(one.text) for one in found)
    assert "".join("".join(one.text.split()) for one in found) == "".join(text.split())


REPORT = Document("report.pdf", "[page 1]\nThe budget is 40 dollars.\n\n[page 2]\nThe deadline is Friday.\n")
COSTS = Document(
    "costs.xlsx", "[sheet A]\n[row 1] Item | Cost\n" + "".join(f"[row {n}] thing{n} | {n}\n" for n in range(2, 99))
)


def test_what_is_found_says_how_it_is_cited():
    found = search_documents([REPORT, COSTS, *DOCUMENTS], "deadline")["results"]
    assert (found[0]["name"], found[0]["cite"]) == ("report.pdf", "report.pdf, page 2")
    assert "header" not in found[0]
    row = search_documents([REPORT, COSTS], "thing77")["results"][0]
    assert row["cite"].startswith("costs.xlsx, sheet A, row ")
    assert row["header"] == "Item | Cost"
    assert "cite" not in search_documents(DOCUMENTS, "costs")["results"][0]


@pytest.mark.parametrize(
    ("document", "place", "begins", "cite"),
    [
        (REPORT, "page 2", "[page 2]\nThe deadline", "report.pdf, page 2"),
        (REPORT, "p. 1", "[page 1]\nThe budget", "report.pdf, page 1"),
        (COSTS, "sheet A", "[sheet A]\n[row 1]", "costs.xlsx, sheet A"),
        (COSTS, "sheet A, row 50", "[row 50] thing50 | 50", "costs.xlsx, sheet A, row 50"),
        (COSTS, "row 50", "[row 50] thing50 | 50", "costs.xlsx, sheet A, row 50"),
    ],
)
def test_a_document_is_read_from_a_place(document, place, begins, cite):
    read = read_document([document], document.name, place=place)
    assert read["text"].startswith(begins)
    assert read["cite"] == cite
    assert document.text[read["start"] :].startswith(begins)


@pytest.mark.parametrize(
    ("document", "place", "said"),
    [
        (REPORT, "page 3", "report.pdf has no 'page 3'; it has page 1 to page 2"),
        (COSTS, "sheet B", "costs.xlsx has no 'sheet B'; it has sheet A"),
        (DOCUMENTS[1], "page 1", "plan.md has no 'page 1'; it has no places"),
        (REPORT, "somewhere", "report.pdf has no 'somewhere'"),
    ],
)
def test_a_place_that_is_not_there_lists_those_that_there_are(document, place, said):
    with pytest.raises(ToolError, match=said):
        read_document([document], document.name, place=place)


def test_a_whole_number_of_passages_may_be_written_with_a_point():
    search = ToolSpec(name="search_documents", kind="builtin")
    assert run(search, {"query": "revenue", "limit": 1.0}).result == search_documents(DOCUMENTS, "revenue", 1)
