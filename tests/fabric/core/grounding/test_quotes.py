"""Quotes: each passage stands in its source, whitespace, letter case and typography aside (docs/specification/gates.md)."""

import pytest

from fabric.core.grounding import quotes
from fabric.core.grounding.sources import Sources

LEASE = """The Tenant shall give written notice of not less than
ninety (90) days before the end of the Term.
The Landlord’s consent – which may not be withheld unreasonably – is needed for any sublease."""
LETTER = "We regret the delay and will refund the deposit in full by Friday."
SOURCES = Sources(
    request="Is it true that the deposit is lost?",
    documents=(("lease.md", LEASE), ("letter.md", LETTER)),
    results=({"passages": [{"text": "Courts read such clauses narrowly."}]},),
)


@pytest.mark.parametrize(
    "text",
    [
        'It asks for "written notice of not less than ninety (90) days" [lease.md].',
        'It asks for "WRITTEN NOTICE  of not less than ninety".',
        "“The Landlord's consent - which may not be withheld unreasonably - is needed”",
        '"written notice ... before the end of the Term" [lease.md]',
        '"[the tenant] shall give written notice [...] before the end of the term."',
        "> We regret the delay and will refund\n> the deposit in full by Friday.",
        "Die Antwort: „refund the deposit in full“ [letter.md]",
        '"Courts read such clauses narrowly."',
        '"that the deposit is lost"',
        'A so-called "grace period" is a term, no passage.',
        "No quotes at all.",
        '"will *refund* the deposit"',
    ],
)
def test_what_stands_there_passes(text):
    assert quotes.problems(text, SOURCES) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('It says "notice of thirty days is enough".', 'text: "notice of thirty days is enough" stands in no source'),
        (
            'It says "refund the deposit in full" [lease.md].',
            "text: \"refund the deposit in full\" does not stand in 'lease.md'",
        ),
        (
            '"before the end of the Term ... written notice of not less"',
            'text: "before the end of the Term ... written notice of not less" stands in no source',
        ),
        ("> We never refund a deposit.", 'text: "We never refund a deposit." stands in no source'),
        ("“the tenant shall give oral notice”", 'text: "the tenant shall give oral notice" stands in no source'),
    ],
)
def test_what_does_not_is_named(text, problem):
    assert quotes.problems(text, SOURCES) == [problem]


def test_a_long_passage_is_told_by_its_beginning():
    (told,) = quotes.problems(f'"{"word " * 100}end"', SOURCES)
    assert len(told) < 140


def test_a_citation_of_no_document_leaves_every_source_open():
    assert quotes.problems('"refund the deposit in full" [the letter]', SOURCES) == []
