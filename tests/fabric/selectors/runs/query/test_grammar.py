"""The query line: every field and every kind of value, what is wrong and where, and that no line breaks it."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.selectors.runs.query.filters import BUILD, slow_terms
from fabric.selectors.runs.query.grammar import CHARS_MAX, FIELDS, TERMS_MAX, TEXT, Problem, Query, parse, quote_term
from fabric.selectors.runs.query.values import READ, Bounds, Kind, LabelAsked, read_zone

NOW = 1_795_000_000 * US
DAY = 86_400 * US
HOUR, MINUTE = 3_600 * US, 60 * US
TODAY = NOW // DAY * DAY
FABRICS = ("ledger", "ledger-close", "claims triage")


def read(text: str) -> Query:
    found = parse(text, now=NOW, fabrics=FABRICS)
    assert isinstance(found, Query), found
    return found


def wrong(text: str) -> Problem:
    found = parse(text, now=NOW, fabrics=FABRICS)
    assert isinstance(found, Problem), found
    assert 0 <= found.start < found.end <= len(found.text)
    assert found.line_before + found.wrong + found.rest == found.text
    return found


def only(text: str) -> object:
    (term,) = read(text).terms
    return term.value


def test_the_tables_are_total():
    assert set(READ) == set(Kind)
    assert set(BUILD) == set(FIELDS)
    assert {field.kind for field in FIELDS.values()} == set(Kind)


@pytest.mark.parametrize("field", FIELDS)
def test_the_example_of_every_field_is_understood(field):
    (term,) = read(FIELDS[field].example).terms
    assert (term.field, term.negated) == (field, False)
    (turned,) = read(f"-{FIELDS[field].example}").terms
    assert (turned.field, turned.negated, turned.value) == (field, True, term.value)


def test_a_whole_line():
    query = read(
        'started:-4h fabric:ledger* -state:cancelled tier:batch cost:>0.50 card "two words" session:abc recovered:yes'
    )
    assert [(term.field, term.negated) for term in query.terms] == [
        ("started", False),
        ("fabric", False),
        ("state", True),
        ("tier", False),
        ("cost", False),
        (TEXT, False),
        (TEXT, False),
        ("session", False),
        ("recovered", False),
    ]
    assert [query.text[term.start : term.end] for term in query.terms if term.field == TEXT] == ["card", '"two words"']
    assert query.drop_term(query.terms[2]).split()[2] == "tier:batch"
    assert parse(query.drop_term(query.terms[0]), now=NOW, fabrics=FABRICS) == read(query.drop_term(query.terms[0]))


@pytest.mark.parametrize("text", ["", "   ", "\t\n"])
def test_nothing_asks_for_everything(text):
    assert read(text).terms == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("started:-4h", Bounds(NOW - 4 * 3_600 * US)),
        ("started:<-1h30m", Bounds(None, NOW - 5_400 * US)),
        ("started:today", Bounds(TODAY, TODAY + DAY)),
        ("started:yesterday", Bounds(TODAY - DAY, TODAY)),
        ("started:1970-01-02", Bounds(DAY, 2 * DAY)),
        ("started:>1970-01-02", Bounds(2 * DAY)),
        ("started:<=1970-01-02", Bounds(None, 2 * DAY)),
        ("started:1970-01-02..1970-01-03", Bounds(DAY, 3 * DAY)),
        ("ended:1970-01-02T01:00", Bounds(DAY + 3_600 * US, DAY + 3_660 * US)),
        ("ended:-2d..-1d", Bounds(NOW - 2 * DAY, NOW - DAY + 1)),
        ('started:"1970-01-02 20:00..06:00"', Bounds(DAY + 20 * HOUR, 2 * DAY + 6 * HOUR + MINUTE)),
        ("started:1970-01-02T02:00..06:00", Bounds(DAY + 2 * HOUR, DAY + 6 * HOUR + MINUTE)),
        ('started:"yesterday 20:00..06:00"', Bounds(TODAY - 4 * HOUR, TODAY + 6 * HOUR + MINUTE)),
        ('ended:>="today 09:30"', Bounds(TODAY + 9 * HOUR + 30 * MINUTE)),
        ("took:>5m", Bounds(300 * US + 1)),
        ("took:..1.5h", Bounds(None, 5_400 * US + 1)),
        ("cost:0.5", Bounds(500_000, 500_001)),
        ("cost:>=$0.000001", Bounds(1)),
        ("cost:1..2", Bounds(US, 2 * US + 1)),
        ("tokens:10k", Bounds(10_000, 10_001)),
        ("tokens:<1.5M", Bounds(None, 1_500_000)),
        ("replans:0", Bounds(0, 1)),
        ("state:Failed,aborted,failed", ("failed", "aborted")),
        ("tier:high-stakes", ("high_stakes",)),
        ("recovered:NO", False),
        ("fabric:ledger", "ledger"),
        ('fabric:"claims triage"', "claims triage"),
        ("fabric:*", "*"),
        ("revision:3", Bounds(3, 4)),
        ("revision:>=2", Bounds(2)),
        ("stage:fan-out,Validate", ("fan_out", "validate")),
        ("why:breaker", "breaker"),
        ('why:"retry budget"', "retry budget"),
        ("fired:Budget,retry-budget", ("budget", "retry_budget")),
        ("failure:cost_overrun", ("cost_overrun",)),
        ("breaker:provider:openai@host:80/v1", "provider:openai@host:80/v1"),
        ("breaker:host:80", "host:80"),
        ("breaker:tool:*", "tool:*"),
        ("cause:budget_gate", ("budget_gate",)),
        ("session:october*", "october*"),
        ("label.team=ops", LabelAsked("team", "ops")),
        ("label.team:ops", LabelAsked("team", "ops")),
        ("label:team=ops", LabelAsked("team", "ops")),
        ("LABEL.team=Ops", LabelAsked("team", "Ops")),
        ("label.a.b-c_1", LabelAsked("a.b-c_1", None)),
        ('label.site="New York"', LabelAsked("site", "New York")),
        ("label.url=http://x?a=b", LabelAsked("url", "http://x?a=b")),
        ("id:019A3C5E-", "019a3c5e-"),
        ('"-not a minus: 50%"', "-not a minus: 50%"),
    ],
)  # fmt: skip
def test_a_value_is_read_with_its_unit(text, value):
    assert only(text) == value


@pytest.mark.parametrize(
    ("text", "marked", "says", "instead"),
    [
        ("stat:failed", "stat", "there is no field 'stat': did you mean state?", "state:failed"),
        ("cost:>1 state:fialed", "fialed", "state: 'fialed' is none of its values: did you mean failed?", "cost:>1 state:failed"),
        ("state:failed,abortd x", "abortd", "did you mean aborted?", "state:failed,aborted x"),
        ("state:failed,", ",", "a value is missing at a comma", ""),
        ("state:,failed", ",", "a value is missing at a comma", ""),
        ("state:", "state:", "state: has no value: write for example state:failed,aborted", ""),
        ('state:""', 'state:""', "has no value", ""),
        ("priority:urgent", "urgent", "there are critical, high, normal, low", ""),
        ("fabric:ledgr", "ledgr", "there is no fabric 'ledgr': did you mean ledger?", "fabric:ledger"),
        ("breaker:providr:x", "providr", "'providr' is no scope of a breaker: did you mean provider?", "breaker:provider:x"),
        ("breaker:a*b", "*", "a * stands only at the end", "breaker:ab"),
        ("fabric:xyz", "xyz", "look at the page of fabrics", "fabric:xyz*"),
        ("fabric:l*r", "*", "a * stands only at the end", "fabric:lr"),
        ("http://example.org", "http://example.org", "in quotes it is looked for in the title", '"http://example.org"'),
        ("a -", "-", "a minus stands alone", ""),
        ('card "two words', '"two words', "close it", 'card "two words"'),
        ('""', '""', "these quotes are empty", ""),
        ("took:5m", "5m", "put > or < before it", "took:>5m"),
        ("cost:>much", "much", "'much' cannot be read: write for example", ""),
        ("cost:>", ">", "write for example", ""),
        ("cost:..", "..", "a range needs a beginning or an end", ""),
        ("cost:2..1", "2..1", "turn it around", "cost:1..2"),
        ("tokens:0.5", "0.5", "cannot be read", ""),
        ("ended:2026-13-01", "2026-13-01", "cannot be read", ""),
        ("started:-4y", "-4y", "cannot be read", ""),
        ("started:yesterday 20:00..06:00", "started:yesterday 20:00..06:00", "stand in quotes together", 'started:"yesterday 20:00..06:00"'),
        ("-ended:2026-11-21 10:00 x", "-ended:2026-11-21 10:00", "stand in quotes together", '-ended:"2026-11-21 10:00" x'),
        ("started:yesterdayT20:00..26:00", "26:00", "'26:00' is no hour of a day: write for example 06:00", ""),
        ('started:"tomorrow 20:00"', "tomorrow 20:00", "cannot be read: write for example -4h, today", ""),
        ("label.Team=ops", "Team", "the label key 'Team' is not taken; use lower-case letters, digits, -, _ and .", ""),
        ("label.team=", "team=", "label team has no value", ""),
        ("label.", "label.", "label: has no value: write for example label.team=ops", ""),
        ("labels:x", "labels", "did you mean label?", "label:x"),
        ("recovered:maybe", "maybe", "neither yes nor no", "recovered:yes"),
        ("id:0g", "g", "an id is made of", ""),
        ("stage:fan", "fan", "did you mean fan_in?", "stage:fan_in"),
        ("revision:r3", "r3", "'r3' cannot be read: write for example", ""),
        ("why:", "why:", 'why: has no value: write for example why:"retry budget"', ""),
        ("reason:loop", "reason", "there is no field 'reason': did you mean why?", "why:loop"),
        ("protection:budget", "protection", "did you mean fired?", "fired:budget"),
        ("fired:circuit_breaker", "circuit_breaker", "did you mean breaker?", "fired:breaker"),
        ("cause:xyz", "xyz", "there are rate_limit, server_error,", ""),
        ("cause:xyz", "xyz", "key_cap, cost_velocity and 35 more", ""),
        ("failure:provider_failure failure:cost_overrun", "failure:cost_overrun", "write both with a comma", "failure:provider_failure "),
        ("state:failed state:aborted", "state:aborted", "write both with a comma", "state:failed "),
        ("recovered:yes recovered:no", "recovered:no", "stands twice", "recovered:yes "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_marked_and_mended(text, marked, says, instead):
    problem = wrong(text)
    assert (problem.wrong, problem.instead) == (marked, instead)
    assert says in problem.message


def test_a_guess_is_understood():
    for text in ("stat:failed", "state:fialed", "took:5m", "fabric:ledgr", "recovered:maybe", "cost:2..1", 'a "b'):
        read(wrong(text).instead)


def test_a_line_has_an_end():
    assert wrong("x" * (CHARS_MAX + 7)).wrong == "x" * 7
    assert wrong("a " * (TERMS_MAX + 1)).start == 2 * TERMS_MAX


def test_what_no_index_answers_is_named():
    assert [term.field for term in slow_terms(read("state:failed card session:a* cost:>1 -tier:batch id:01"))] == [
        TEXT,
        "session",
        "cost",
        "tier",
    ]


@given(st.text(max_size=200).filter(lambda text: text.strip() and '"' not in text))
def test_a_text_that_is_quoted_is_found_again(text):
    (term,) = read(quote_term(TEXT, text)).terms
    assert (term.field, term.negated, term.value) == (TEXT, False, clean_text(text)[0].strip())


SIGNS = ["-", '"', ":", "=", "label.", "*", ",", "..", ">", "<=", " ", "\t", "$", "%", "\0", "\ud800"]
WORDS = [
    "1",
    "0.5",
    "9" * 20,
    "k",
    "m",
    "-4h",
    "today",
    "2026-11-21",
    "9999-99-99",
    "T25:00",
    "yes",
    "failed",
    "ledger",
    "٣",
    "²",
    "é",
]
PIECES = st.sampled_from([*(f"{name}:" for name in FIELDS), *FIELDS, *SIGNS, *WORDS])


@pytest.mark.parametrize(
    ("text", "at", "low", "high"),
    [
        ("started:today", "2026-07-05T22:30", "2026-07-05T22:00", "2026-07-06T22:00"),
        ("started:yesterday", "2026-07-05T21:30", "2026-07-03T22:00", "2026-07-04T22:00"),
        ('started:"yesterday 20:00..06:00"', "2026-01-05T12:00", "2026-01-04T19:00", "2026-01-05T05:01"),
        # A day of 25 hours, and one of 23.
        ("ended:2026-10-25", "2026-12-01T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),
        ("ended:2026-03-29", "2026-12-01T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("ended:2026-07-01T10:00Z", "2026-12-01T12:00", "2026-07-01T10:00", "2026-07-01T10:01"),
    ],
)
def test_days_and_hours_are_those_of_the_zone(text, at, low, high):
    def micros(said: str) -> int:
        return round(datetime.fromisoformat(f"{said}+00:00").timestamp()) * US

    (term,) = parse(text, now=micros(at), zone=read_zone("Europe/Berlin")).terms
    assert term.value == Bounds(micros(low), micros(high))


@pytest.mark.parametrize("name", ["", "Mars", "../etc/passwd", "x" * 65, "Europe/", "a\0b"])
def test_a_zone_that_is_none(name):
    assert read_zone(name) is None


@pytest.mark.parametrize("value", ["team=ops", "team", "site=New York"])
def test_a_label_is_written_as_it_is_read(value):
    (term,) = parse(quote_term("label", value, negated=True), now=NOW).terms
    assert (term.field, term.negated, term.written) == ("label", True, value)


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=600))
def test_any_line_is_a_query_or_a_sentence_with_a_place(text):
    found = parse(text, now=NOW, fabrics=FABRICS)
    if isinstance(found, Problem):
        assert 0 <= found.start < found.end <= len(found.text)
        assert found.wrong
        assert found.message[0].islower() or found.message[0] in "'\""
    else:
        assert all(found.text[term.start : term.end].strip() for term in found.terms)
        again = parse(found.text, now=NOW, fabrics=FABRICS)
        assert again == found
