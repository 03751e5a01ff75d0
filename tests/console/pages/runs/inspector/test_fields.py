"""The fields of a fact as the inspector shows them."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from console.pages.runs.inspector.fields import (
    EXPIRY,
    FIELDS,
    FORMS,
    RULED_OUT,
    SECTIONS,
    UNITS,
    VERDICTS,
    candidates,
    evidence,
)
from fabric.core.events import Candidate, ModelAnswered, ReviewOpened
from fabric.core.events.envelope import KINDS, fact_class


def test_each_reason_against_a_model_has_its_words():
    assert set(RULED_OUT) == set(get_args(get_type_hints(Candidate)["ruled_out"]))


def test_each_model_says_what_the_call_may_cost_and_why_it_does_not_take_it():
    weighed = {
        "before": "script",
        "usd_micros": 40,
        "candidates": [
            {"model": "mute", "usd_micros": None, "ruled_out": "needs", "trip": None},
            {"model": "spare", "usd_micros": 900, "ruled_out": "guard", "trip": {"message": "more than is left"}},
            {"model": "third", "usd_micros": 50, "ruled_out": "", "trip": None},
        ],
    }
    [section] = candidates(weighed)
    said = [(one.name, one.value, one.more) for one in section.body["rows"]]
    assert said[1:] == [
        ("mute", "no price", RULED_OUT["needs"]),
        ("spare", "$0.0009", "more than is left"),
        ("third", "$0.000050", "takes the call"),
    ]


def tripped(unit="", observed=None, limit=None, **details):
    seen = {"unit": unit, "observed": observed, "limit": limit, "scope": "run", "window": "", "details": details}
    trip = {"mechanism": "circuit_breaker", "cause": "breaker_open", "message": "it is open", "evidence": seen}
    return [(row.name, row.value, row.as_) for row in evidence(trip, "Evidence").body["rows"]]


def test_evidence_has_instants_durations_and_money_in_words():
    rows = tripped(changed_at=1_795_820_930_411_746, retry_after_ms=592_651, state="half_open", probe=True)
    assert ("changed at", 1_795_820_930_411_746, "at") in rows
    assert ("retry after", 592_651_000, "us") in rows
    assert {("state", "half open", "text"), ("probe", "yes", "text")} <= set(rows)
    money = tripped("usd_micros", 1_502_961, 900_000, worst_case=40_000, generation=3)
    assert [row for row in money if row[2] == "usd"] == [
        ("observed", 1_502_961, "usd"), ("limit", 900_000, "usd"), ("worst case", 40_000, "usd"),
    ]  # fmt: skip
    assert ("generation", "3", "text") in money
    assert ("observed", 2_500_000, "us") in tripped("s", 2.5, 5)


def test_a_detail_that_repeats_the_trip_is_shown_once():
    assert [row[0] for row in tripped(cause="breaker open")].count("cause") == 1
    assert ("cause reported", "rate limit", "text") in tripped(cause="rate limit")


@pytest.mark.parametrize(
    ("kind", "field", "table"),
    [(ReviewOpened, "on_expiry", EXPIRY), (ModelAnswered, "verdict", VERDICTS)],
)
def test_each_value_of_an_enumeration_has_its_words(kind, field, table):
    assert set(table) == set(get_args(get_type_hints(kind)[field]))


def test_the_tables_name_fields_and_forms_that_there_are():
    named = {name for kind in KINDS for name in get_type_hints(fact_class(kind))}
    assert set(FIELDS) | set(SECTIONS) <= named
    assert {view.form for view in FIELDS.values()} | {form for _, form, _ in UNITS} <= {"", *FORMS}


IN_THE_CONTENT = frozenset({"calls"})
"""Fingerprints of proposed calls, which the event's content has in full."""
OF_THE_DECISION = frozenset({"causes"})
"""Shown by the view of a decision."""


def test_each_field_that_is_more_than_a_value_has_a_section():
    """A field without one would be left out without a word."""
    large = {
        name
        for kind in KINDS
        for name, hint in get_type_hints(fact_class(kind)).items()
        if any(hasattr(one, "__struct_fields__") for one in (hint, *get_args(hint)))
    }
    assert {"gate", "weighed", "parts"} < large
    assert large - set(SECTIONS) == IN_THE_CONTENT | OF_THE_DECISION
