"""A critic reads of a long document the quotes always, then the nearest passages, no more than fits, the same each time."""

from __future__ import annotations

import random

import pytest

from fabric.core.grounding.passages import GAP, choose_passages, passages_text, places

FILLER = "The weather was fair on that day and nobody had any wish to speak of it at length. "
FACT = "The contract with Ostrava costs 90 euros a month."
QUOTED = "Either side may end it within thirty days of notice"


def long(*, fact_at: int = 40, quote_at: int = 80, of: int = 120) -> str:
    """A long text, one sentence a paragraph, with a fact and a passage that is quoted somewhere in it."""
    lines = [f"{n}. {FILLER}" for n in range(of)]
    lines[fact_at], lines[quote_at] = FACT, f"{QUOTED}, it says."
    return "\n\n".join(lines)


def told(text: str, answer: str, limit: int, quoted: tuple[str, ...] = ()) -> str:
    return passages_text(text, choose_passages(text, answer, quoted, limit).spans)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_text_that_fits_is_shown_whole_and_one_that_is_a_character_longer_is_not(more):
    text = long(of=100)
    limit = len(text) + more
    assert (told(text, "", limit) == text) == (more >= 0)


@pytest.mark.parametrize("at", [0, 40, 119])
def test_what_is_claimed_is_found_wherever_it_stands(at):
    text = long(fact_at=at, quote_at=60)
    assert FACT in told(text, "In Ostrava the contract costs 90 euros.", 400)


@pytest.mark.parametrize("at", [0, 80, 119])
def test_what_is_quoted_is_shown_before_what_is_near(at):
    text = long(fact_at=60, quote_at=at)
    answer = f'The weather was fair on that day, nobody had any wish to speak of it. It says: "{QUOTED.upper()}."'
    assert QUOTED in told(text, answer, 300, (QUOTED,))
    assert QUOTED not in told(text, "The weather was fair on that day.", 300)


def test_a_quoted_passage_that_crosses_two_passages_brings_both():
    text = f"{FILLER * 30}\n\nIt ends here. And it begins there.\n\n{FILLER * 30}"
    crossing = "ends here. And it begins"
    assert crossing in told(text, "", 200, (crossing,))


def test_a_quotation_with_something_left_out_brings_all_its_parts():
    text = long()
    assert {
        FACT in one and QUOTED in one for one in [told(text, "", 400, (f"costs 90 euros a month ... {QUOTED}",))]
    } == {True}


def test_a_quoted_passage_that_does_not_fit_is_named():
    text = long()
    found = choose_passages(text, "", (QUOTED, FACT), len(FACT) + 2 * len(GAP))
    assert found.without == (QUOTED,)
    assert FACT in passages_text(text, found.spans)
    assert choose_passages(text, "", (QUOTED, FACT), 20).without == (QUOTED, FACT)


@pytest.mark.parametrize("seed", range(60))
def test_no_more_is_shown_than_fits_and_nothing_that_does_not_stand_there(seed):
    draw = random.Random(seed)
    words = ["a", "of", "Ostrava", "90", "contract.", "month!", "x" * 700, "\n\n", "\n \n", "\n", "é", "-", " " * 12]
    text = " ".join(draw.choice(words) for _ in range(draw.randint(1, 400)))
    limit = draw.randint(1, 900)
    found = choose_passages(text, "Ostrava contract 90", (), limit)
    assert found == choose_passages(text, "Ostrava contract 90", (), limit)
    said = passages_text(text, found.spans)
    assert len(said) <= max(limit, len(GAP))
    flat = [place for span in found.spans for place in span]
    assert flat == sorted(flat)
    assert all(0 <= start <= end <= len(text) for start, end in found.spans)
    for part in said.split(GAP.strip()):
        assert part.strip("\n") in text
    assert len(said.encode()) <= len(text.encode()) + 2 * len(GAP)


def test_nothing_fits_is_said():
    assert told(long(), "Ostrava", 10) == GAP.strip("\n")
    assert told("", "Ostrava", 10) == ""


def test_a_quote_is_looked_for_in_the_document_that_is_cited_else_in_the_first_that_has_it():
    documents = (("a.md", f"{FACT} {QUOTED}."), ("b.md", f"{QUOTED}."), ("c.md", "Nothing of the kind."))
    answer = f'It says "{QUOTED}" [b.md]. And "{QUOTED}". And "it stands nowhere at all". "{FACT}" [c.md]'
    assert places(answer, documents) == {"a.md": [QUOTED], "b.md": [QUOTED], "c.md": []}
