"""Lists of objects in the typed form: rows are added, moved and taken away by sending it, what is not touched comes back byte for byte."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.typed_fields import same
from console.typed_form import MARK, TypedForm
from console.typed_rows import ROWS_MAX, acted, keys_at_first, keys_sent
from tests.console.sent_by_browser import Sent
from tests.sets import many

SCHEMA = {
    "type": "object",
    "required": ["lines"],
    "properties": {
        "lines": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"$ref": "#/$defs/line"}},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "what": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "$defs": {
        "line": {
            "type": "object",
            "required": ["text", "sum", "where"],
            "properties": {
                "text": {"type": "string"},
                "sum": {"type": "number"},
                "paid": {"type": "boolean"},
                "where": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            },
        }
    },
}
SHOWN = {
    "what": "word",
    "lines": [
        {"sum": 1.0, "text": "One", "where": {"city": "Oslo"}, "paid": True, "parts": [{"n": 1}, {"n": 2}]},
        {"text": "Two", "sum": 2, "where": {"city": "Bergen"}},
    ],
}


def sent_of(form):
    """What a browser sends of the form as the page shows it."""
    question = SimpleNamespace(id="4f1c9a2be07d3358")
    page = render_to_string("reviews/fields.html", {"fields": form.fields, "question": question})
    return Sent(page)


def again(shown, schema, press="", **changed):
    """The form after somebody typed into fields, by their names, and pressed a button."""
    data = {MARK: "1", **sent_of(TypedForm(schema, shown)).fields, **changed}
    return TypedForm(schema, shown, data | ({"row": press} if press else {}))


def rows(form, label="lines"):
    return next(one for one in form.all if one.label == label)


def named(form, label, row=0):
    """The name of a field of a row."""
    return next(
        one.name for one in TypedForm.all.fget(SimpleNamespace(fields=[rows(form).fields[row]])) if one.label == label
    )


def test_a_list_of_objects_is_rows_of_fields_with_their_types():
    form = TypedForm(SCHEMA, SHOWN)
    lines = rows(form)
    assert (lines.kind, lines.keys) == ("rows", ("0", "1"))
    assert lines.said == "list of objects, entries: 1 or more, entries: 4 at most"
    kinds = [(one.label, one.kind) for one in lines.fields[0].fields]
    assert kinds == [("text", "text"), ("sum", "number"), ("paid", "boolean"), ("where", "group"), ("parts", "rows")]
    assert [one.label for one in rows(form, "parts").fields] == ["parts 1", "parts 2"]


def test_what_no_field_fits_says_why_it_is_json():
    form = TypedForm(SCHEMA, SHOWN)
    assert [one.said for one in form.leaves if one.label == "what"] == ["JSON, one of several shapes"]
    many = {"type": "object", "properties": {"a": {"type": ["string", "integer"]}, "b": True, "c": {"type": "array"}}}
    said = {one.label: one.said for one in TypedForm(many, {"a": "x", "b": {}, "c": [1, "x"]}).leaves}
    assert said == {"a": "JSON, of several types", "b": "JSON, of any shape", "c": "JSON"}
    assert (
        again(SHOWN, SCHEMA, **{next(one.name for one in form.leaves if one.label == "what"): "12"}).value["what"] == 12
    )


def test_what_is_not_touched_comes_back_byte_for_byte():
    form = again(SHOWN, SCHEMA)
    assert not form.wrong
    assert form.changed == 0
    assert json.dumps(form.value) == json.dumps(SHOWN)


def test_a_row_is_moved_and_taken_away():
    one, two = SHOWN["lines"]
    for press, lines in (
        ("down:{}:0", [two, one]),
        ("up:{}:1", [two, one]),
        ("up:{}:0", [one, two]),
        ("down:{}:1", [one, two]),
        ("remove:{}:0", [two]),
        ("remove:{}:7", [one, two]),
        ("throw:{}:0", [one, two]),
    ):
        form = again(SHOWN, SCHEMA, press.format(rows(TypedForm(SCHEMA, SHOWN)).name))
        assert json.dumps(form.value["lines"]) == json.dumps(lines), press
        assert bool(form.changed) is (lines != [one, two])
        assert not form.wrong


def test_what_was_typed_stays_with_its_row_wherever_it_goes():
    first = TypedForm(SCHEMA, SHOWN)
    name = rows(first).name
    form = again(SHOWN, SCHEMA, f"down:{name}:0", **{named(first, "sum"): "7.50"})
    assert [one["sum"] for one in form.value["lines"]] == [2, 7.5]
    assert [one["text"] for one in form.value["lines"]] == ["Two", "One"]
    onward = TypedForm(SCHEMA, SHOWN, {MARK: "1", **sent_of(form).fields, "row": f"up:{name}:0"})
    assert [one["sum"] for one in onward.value["lines"]] == [7.5, 2]


def test_a_row_is_added_with_the_fields_of_its_schema_and_asks_for_nothing_yet():
    name = rows(TypedForm(SCHEMA, SHOWN)).name
    form = again(SHOWN, SCHEMA, f"add:{name}")
    added = rows(form).fields[-1]
    assert (added.key, added.new, added.kind) == ("n0", True, "group")
    assert [one.kind for one in added.fields] == ["text", "number", "boolean", "group", "rows"]
    assert not form.wrong, "whoever adds a row has not come to writing it"
    data = {MARK: "1", **sent_of(form).fields}
    assert [one.label for one in TypedForm(SCHEMA, SHOWN, data).leaves if one.errors] == ["text", "sum", "city"]
    text, number, _, where, _ = (one.name for one in added.fields)
    full = TypedForm(SCHEMA, SHOWN, data | {text: "Three", number: "3", where + "-0": "Moss"})
    assert not full.wrong
    assert full.value["lines"][2] == {"text": "Three", "sum": 3, "where": {"city": "Moss"}}


def test_rows_within_rows():
    form = TypedForm(SCHEMA, SHOWN)
    inner = rows(form, "parts").name
    more = again(SHOWN, SCHEMA, f"add:{inner}")
    assert rows(more, "parts").keys == ("0", "1", "n0")
    turned = again(SHOWN, SCHEMA, f"down:{inner}:0")
    assert turned.value["lines"][0]["parts"] == [{"n": 2}, {"n": 1}]
    second = rows(form).fields[1].fields[-1]
    assert (second.kind, second.keys) == ("rows", ())
    data = {MARK: "1", **sent_of(form).fields, "row": f"add:{second.name}"}
    assert rows(TypedForm(SCHEMA, SHOWN, data)).fields[1].fields[-1].keys == ("n0",)


def test_a_list_that_was_not_there_stays_away_until_a_row_is_added():
    assert "tags" not in again(SHOWN, SCHEMA).value
    name = rows(TypedForm(SCHEMA, SHOWN), "tags").name
    added = again(SHOWN, SCHEMA, f"add:{name}")
    assert rows(added, "tags").keys == ("n0",)
    assert TypedForm(SCHEMA, SHOWN, {MARK: "1", **sent_of(added).fields}).value["tags"] == [{}]


def test_problems_of_a_check_stand_at_the_row_and_the_list_that_they_are_about():
    form = again(SHOWN, SCHEMA, f"down:{rows(TypedForm(SCHEMA, SHOWN)).name}:0")
    form.blame(
        ["lines[0].sum: is too much", "lines[1].where: is odd", "lines: has too few", "lines[0]: is one too many"]
    )
    lines = rows(form)
    assert lines.errors == ["Has too few."]
    assert lines.fields[0].errors == ["Is one too many."]
    assert [one.errors for one in lines.fields[0].fields if one.label == "sum"] == [["Is too much."]], (
        "Two stands first"
    )
    assert [one.errors for one in lines.fields[1].fields if one.label == "where"] == [["Is odd."]]
    assert form.wrong


def test_no_more_rows_than_the_schema_and_the_form_take():
    shown = {"lines": SHOWN["lines"] * 2}
    form = TypedForm(SCHEMA, shown)
    assert rows(form).full
    assert ("row", f"add:{rows(form).name}") not in sent_of(form).presses
    assert rows(again(shown, SCHEMA, f"add:{rows(form).name}")).keys == ("0", "1", "2", "3")
    many = {"list": [{"n": n} for n in range(ROWS_MAX + 1)]}
    assert [one.kind for one in TypedForm({}, many).leaves] == ["json"]


@pytest.mark.parametrize(
    "keys", ["0,0", "2", "01", "x", "0,", "-1", "n0,n0", ",".join(f"n{n}" for n in range(ROWS_MAX + 1))]
)
def test_keys_that_no_page_sends_are_refused_and_nothing_is_lost(keys):
    with pytest.raises(ValueError, match="damaged"):
        keys_sent(keys, 2)
    form = again(SHOWN, SCHEMA, **{f"{rows(TypedForm(SCHEMA, SHOWN)).name}-rows": keys})
    assert form.wrong
    assert same(form.value, SHOWN)


def test_an_edit_that_was_taken_back_stands_in_its_rows_again():
    one, two = SHOWN["lines"]
    new = {"text": "Three", "sum": 3.5, "where": {"city": "Moss"}}
    written = {**SHOWN, "lines": [new, two, one]}
    form = TypedForm(SCHEMA, SHOWN, None, written)
    assert same(form.value, written)
    assert rows(form).keys == ("n0", "1", "0")
    onward = TypedForm(SCHEMA, SHOWN, {MARK: "1", **sent_of(form).fields})
    assert not onward.wrong
    assert same(onward.value, written)


def test_keys_are_given_to_what_stayed_itself_wherever_it_stands():
    a, b, c = {"n": 1}, {"n": 2}, {"n": 3}
    assert keys_at_first([a, b], [a, b]) == ("0", "1")
    assert keys_at_first([a, b], [b, a]) == ("1", "0")
    assert keys_at_first([a, b], [c, b]) == ("0", "1")
    assert keys_at_first([a, b], [b, c, 4]) == ("1", "n0", "j1")
    assert acted(("0", "n3"), "add") == ("0", "n3", "n4")


# -- any schema and any value of it ------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=90)
NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
SCALARS = [
    ({"type": "string"}, TEXT),
    ({"type": "integer"}, st.integers(-(10**9), 10**9)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["string", "null"]}, TEXT | st.none()),
    ({"type": "string", "format": "date"}, st.dates().map(str)),
    ({"enum": ["a", 1, None, True, 2.5]}, st.sampled_from(["a", 1, None, True, 2.5])),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, TEXT | st.integers(0, 9)),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.integers(0, 9) | st.none()),
    ({}, TEXT | st.integers() | st.lists(TEXT, max_size=2) | st.dictionaries(NAME, st.booleans(), max_size=2)),
]


@st.composite
def objects(draw, depth=0):
    """A schema of objects, and a strategy of its values."""
    names = draw(st.lists(NAME, unique=True, max_size=4 if depth else 5))
    parts = {name: draw(described(depth + 1)) for name in names}
    needed = [name for name in names if draw(st.booleans())]
    schema = {"type": "object", "properties": {name: part for name, (part, _) in parts.items()}, "required": needed}
    optional = {name: value for name, (_, value) in parts.items() if name not in needed}
    value = st.fixed_dictionaries({name: parts[name][1] for name in needed}, optional=optional)
    return schema, value


def described(depth):
    """A schema of any part, and a strategy of its values."""
    simple = st.sampled_from(SCALARS)
    if depth > 3:
        return simple
    inner = st.deferred(lambda: objects(depth=depth))
    lists = (inner | simple).map(lambda one: ({"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)))
    return (
        simple
        | inner
        | lists
        | inner.map(lambda one: ({"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)))
    )


@given(objects(), st.data())
@settings(
    max_examples=many(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_any_value_of_any_schema_comes_back_byte_for_byte_from_the_page(described, data):
    schema, values = described
    shown = data.draw(values)
    form = TypedForm(schema, shown)
    back = TypedForm(schema, shown, {MARK: "1", **sent_of(form).fields})
    assert not back.wrong, [(one.path, one.kind, one.now, one.errors) for one in back.all if one.errors]
    assert back.changed == 0
    if form.fields:
        assert json.dumps(back.value) == json.dumps(shown)


@given(objects(), st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_row_is_pressed_away_and_around_and_the_others_stay_as_they_were(described, data):
    item, values = described
    schema, shown = (
        {"properties": {"list": {"type": "array", "items": item}}},
        {"list": data.draw(st.lists(values, max_size=4))},
    )
    form, kept = TypedForm(schema, shown), list(shown["list"])
    if not form.fields or form.fields[0].kind != "rows":
        return
    for _ in range(data.draw(st.integers(1, 4))):
        act = data.draw(st.sampled_from(["up", "down", "remove"]))
        keys = form.fields[0].keys
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        pressed = {MARK: "1", **sent_of(form).fields, "row": f"{act}:{form.fields[0].name}:{key}"}
        form = TypedForm(schema, shown, pressed)
        kept = [shown["list"][int(one)] for one in acted(keys, act, key)]
        assert json.dumps(form.value["list"]) == json.dumps(kept)
