"""The typed form: what is not touched comes back as it was, what is touched keeps its type, what fits no field is JSON."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.forms.controls.fields import EditField
from console.forms.controls.kinds import CONTROLS, Kind
from console.forms.values.form import FIELDS_MAX, MARK, TypedForm
from fabric.core.schema.payloads import Plan, Summary
from fabric.core.texts.three_way import same
from tests.sets import many

SCHEMA = {
    "type": "object",
    "required": ["to", "usd"],
    "properties": {
        "to": {"type": "string"},
        "usd": {"type": "integer", "maximum": 100, "description": "In whole dollars."},
        "rate": {"type": "number"},
        "urgent": {"type": "boolean"},
        "kind": {"enum": ["settle", "decline", 3, None]},
        "on": {"type": "string", "format": "date"},
        "names": {"type": "array", "items": {"type": "string"}},
        "sums": {"type": "array", "items": {"type": "integer"}},
        "where": {"$ref": "#/$defs/place"},
        "picked": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "parts": {"type": "array", "items": {"anyOf": [{"type": "object"}, {"type": "string"}]}},
    },
    "$defs": {
        "place": {"type": "object", "properties": {"city": {"type": "string"}, "floor": {"type": ["integer", "null"]}}}
    },
}
SHOWN = {
    "to": "Ana",
    "usd": 90,
    "rate": 1.0,
    "urgent": False,
    "kind": 3,
    "on": "2026-12-04",
    "names": ["a.pdf", "b.pdf"],
    "sums": [1, 2],
    "picked": ["a"],
    "where": {"city": "Oslo", "floor": None},
    "note": None,
    "parts": [{"n": 1}],
    "extra": 4.5,
}


def posted(form, **changed):
    """Return what a browser sends of the form as it stands, but for the fields that an author typed into, by their labels."""
    data = QueryDict(mutable=True)
    data[MARK] = form.mark
    for one in leaves(form):
        text = changed.get(one.shape.label, one.text)
        if one.several:
            data[f"p.{one.path}"] = "1"
            data.setlist(one.name, changed.get(one.shape.label, one.picked))
        elif one.box:
            data[f"p.{one.path}"] = "1"
            data.update({one.name: text} if text == "true" else {})
        else:
            data[one.name] = text.replace("\n", "\r\n")
    return data


def sent(shown=None, schema=None, **changed):
    """The form as it is after an author typed something into fields, by their labels."""
    shown, schema = SHOWN if shown is None else shown, SCHEMA if schema is None else schema
    return TypedForm(schema, shown, posted(TypedForm(schema, shown), **changed))


def leaves(form):
    return [one for one in form.all if isinstance(one, EditField)]


def errors_in(form):
    return {one.shape.label: [said.sentence for said in one.findings] for one in leaves(form) if one.findings}


def test_every_kind_has_its_row_and_its_template():
    assert set(CONTROLS) == set(get_args(Kind))
    drawn = {path.stem for path in Path("templates/forms/controls").iterdir()}
    assert {one.drawn for one in CONTROLS.values()} - {""} | {"box"} == drawn


def test_each_part_has_the_field_that_fits():
    kinds = {one.shape.label: one.shape.kind for one in leaves(TypedForm(SCHEMA, SHOWN))}
    assert kinds == {
        "to": "text",
        "usd": "integer",
        "rate": "number",
        "urgent": "boolean",
        "kind": "choice",
        "on": "date",
        "names": "lines",
        "sums": "integers",
        "city": "text",
        "floor": "integer",
        "picked": "picks",
        "note": "text",
        "parts": "json",
        "extra": "number",
    }


def test_what_is_not_touched_comes_back_as_it_was():
    form = sent()
    assert same(form.value, SHOWN)
    assert form.changed == 0
    assert not form.wrong


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [
        ("to", "Ben", "Ben"),
        ("to", "", ""),
        ("to", "12", "12"),
        ("usd", "12", 12),
        ("rate", "2", 2),
        ("rate", "2.50", 2.5),
        ("urgent", "true", True),
        ("kind", "settle", "settle"),
        ("kind", "null", None),
        ("on", "2027-01-01", "2027-01-01"),
        ("names", "a.pdf\r\n\r\n c.pdf ", ["a.pdf", "c.pdf"]),
        ("names", "", []),
        ("sums", "7\r\n8", [7, 8]),
        ("sums", "7, 8", [7, 8]),
        ("picked", ["c", "a"], ["a", "c"]),
        ("note", "null", "null"),
        ("parts", '[{"n": 2}, "x"]', [{"n": 2}, "x"]),
        ("extra", "5", 5),
    ],
)
def test_what_is_typed_keeps_its_type(label, text, value):
    form = sent(**{label: text})
    assert not form.wrong
    assert same(form.value, {**SHOWN, label: value})
    assert [one.shape.label for one in leaves(form) if one.changed] == [label]


def test_a_box_that_is_cleared_is_false_and_one_that_never_was_is_nothing():
    assert sent({"urgent": True, "to": "a", "usd": 1}, urgent=None).value["urgent"] is False
    missing = sent({"to": "a", "usd": 1})
    assert same(missing.value, {"to": "a", "usd": 1})
    assert sent({"to": "a", "usd": 1}, urgent="false").value["urgent"] is False


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [
        ("usd", "", "is required"),
        ("usd", "twelve", "whole number"),
        ("usd", "1.5", "whole number"),
        ("usd", "1e3", "whole number"),
        ("usd", "0x10", "whole number"),
        ("usd", "٣", "whole number"),
        ("rate", "NaN", "Give a number"),
        ("rate", "1e999", "too large"),
        ("on", "tomorrow", "2026-12-04"),
        ("on", "2026-02-30", "2026-12-04"),
        ("sums", "1\nx", "whole number"),
        ("parts", "[1,", "line 1, column 4"),
        ("parts", '1, "value": 2', "extra data"),
        ("parts", '1, "more": 2', "extra data"),
        ("parts", '{"a": 1, "a": 2}', "twice"),
        ("parts", "[" * 100_000, "too deep"),
        ("parts", "NaN", "no JSON number"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field(label, text, said):
    form = sent(**{label: text})
    assert form.wrong
    ((found, (error,)),) = errors_in(form).items()
    assert found == label
    assert said in error
    assert next(one.text for one in leaves(form) if one.shape.label == label) == text, "what was typed stays"
    assert same(form.value, SHOWN)


def test_a_value_of_the_wrong_type_is_not_kept_although_it_was_not_touched():
    form = sent({"to": "Ana", "usd": "ninety"})
    assert list(errors_in(form)) == ["usd"]
    assert sent({"to": "Ana", "usd": "90"}).value["usd"] == 90


def test_an_answer_that_is_none_of_the_allowed():
    assert sent({**SHOWN, "kind": "other"}).value["kind"] == "other", "it was not touched: the gate says no"
    needed = {"type": "object", "required": ["k"], "properties": {"k": {"enum": ["a", "b"]}}}
    form = sent({"k": "a"}, needed, k="7")
    assert errors_in(form) == {"k": ["Pick one of these."]}


def test_problems_of_a_check_stand_at_their_fields():
    form = sent()
    form.blame(["usd: 120 is too much", "where.city: is too short", "names[1]: is no name", "the whole is odd"])
    assert errors_in(form) == {
        "usd": ["120 is too much."],
        "city": ["Is too short."],
        "names": ["Is no name."],
    }
    assert form.problems == ["The whole is odd."]
    assert form.wrong


def test_without_a_schema_the_value_says_what_it_is():
    shown = {"text": "One line.\nAnother.", "citations": ["notes.md"], "sure": True, "score": 0.5, "deep": {"a": 1}}
    form = sent(shown, {}, score="0.75", a="2")
    assert same(form.value, {**shown, "score": 0.75, "deep": {"a": 2}})


def test_the_engines_own_payloads():
    plan = {"goal": "Read.", "briefs": [{"agent": "a", "title": "t", "instructions": "i"}], "exit_criteria": ["done"]}
    form = sent(plan, Plan.model_json_schema(), exit_criteria="done\nand checked")
    assert same(form.value, {**plan, "exit_criteria": ["done", "and checked"]})
    summary = {
        "text": "Long enough to be written over more than one line, as an answer of a model mostly is.",
        "citations": [],
    }
    assert [one.drawn for one in leaves(TypedForm(Summary.model_json_schema(), summary))] == ["area", "area"]


@pytest.mark.parametrize("shown", [None, [1], "text", {}, {str(n): n for n in range(FIELDS_MAX + 1)}])
def test_what_makes_no_form_has_no_fields(shown):
    assert TypedForm({}, shown).parts == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": 3},
        {"properties": {"a": True}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "https://elsewhere/"}}},
        {"properties": {"a": {"type": 4, "enum": "x", "anyOf": [1]}}},
        {"properties": {"a": {"type": ["string", "integer"]}}, "required": "a"},
    ],
)
def test_an_odd_schema_breaks_nothing(schema):
    assert same(sent({"a": "b"}, schema).value, {"a": "b"})


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSONS, max_size=5))
@settings(max_examples=many(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_survives_its_form(shown):
    form = TypedForm({}, shown)
    again = TypedForm({}, shown, posted(form))
    assert not again.wrong, errors_in(again)
    assert not again.parts or same(again.value, shown)
