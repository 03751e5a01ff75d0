import pytest

from fabric.core.grounding import numbers, passages, quotes, sources
from fabric.core.grounding.sources import Sources

TEXT = "[page 1]\nThe budget is 40 dollars for the\n\n[page 2]\nwhole year. The deadline is on Friday.\n\n[page 3]\nNothing else was agreed."
SOURCES = Sources(documents=(("report.pdf", TEXT), ("notes.md", "The rent is 5 euros.")))
NAMES = ("report.pdf", "notes.md")


@pytest.mark.parametrize(
    ("citation", "said"),
    [
        ("report.pdf, page 3", ""),
        ("notes.md", ""),
        ("report.pdf, page 4", "citations: 'report.pdf' has no page 4"),
        ("report.pdf, pages 2-9", "citations: 'report.pdf' has no pages 2-9"),
        ("notes.md, page 1", "citations: 'notes.md' has no page 1"),
        ("plan.pdf, page 1", "citations: no document is named 'plan.pdf, page 1'"),
    ],
)
def test_a_cited_place_has_to_be_there(citation, said):
    assert sources.problem(citation, NAMES, SOURCES) == said


def test_without_the_texts_only_the_document_is_looked_for():
    assert sources.problem("report.pdf, page 4", NAMES, None) == ""
    assert sources.problem("plan.pdf, page 4", NAMES, None) == "citations: no document is named 'plan.pdf, page 4'"


@pytest.mark.parametrize(
    ("quoted", "place", "found"),
    [
        ("the deadline is on Friday", "page 2", True),
        ("the deadline is on Friday", "page 1", False),
        ("the deadline is on Friday", "page 3", False),
        ("the deadline is on Friday", "pages 1-2", True),
        ("40 dollars for the whole year", "page 1", True),
        ("40 dollars for the whole year", "page 2", True),
        ("40 dollars for the whole year", "page 3", False),
        ("40 dollars for the [page 2] whole year", "page 1", True),
        ("the rent is 5 euros", "page 1", False),
        ("the deadline is on Friday", "page 9", False),
    ],
)
def test_a_quotation_stands_on_the_page_that_is_cited(quoted, place, found):
    (looked,) = quotes.check_quotes(f'It says "{quoted}" [report.pdf, {place}].', SOURCES)
    assert looked.found is found
    assert looked.within == f"report.pdf, {place}"


def test_without_a_page_a_quotation_may_go_over_pages():
    assert quotes.problems('"40 dollars for the whole year" [report.pdf]', SOURCES) == []
    assert quotes.problems('"40 dollars for the whole year"', SOURCES) == []


def test_a_number_of_a_page_or_a_row_is_no_number_of_the_source():
    table = Sources(documents=(("a.csv", "[row 1] Item | Cost\n[row 77] Rent | 5"),))
    assert numbers.problems("The rent is 5.", table) == []
    assert len(numbers.problems("The rent is 77.", table)) == 1


def test_a_critic_is_shown_a_passage_that_goes_over_pages():
    answer = 'It says "40 dollars for the whole year" [report.pdf, page 1].'
    places = passages.places(answer, SOURCES.documents)
    assert places == {"report.pdf": ["40 dollars for the whole year"], "notes.md": []}
    long = TEXT + "\n" + "Other words stand here. " * 60
    chosen = passages.choose_passages(long, answer, places["report.pdf"], 300)
    assert chosen.without == ()
    assert "whole year" in passages.passages_text(long, chosen.spans)
