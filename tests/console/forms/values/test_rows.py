"""Lists of objects in the typed form: rows are added, moved and taken away by sending it, what is not touched comes back byte for byte."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.template.loader import render_to_string
from django.utils.datastructures import MultiValueDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.forms.controls.fields import EditField, Node
from console.forms.controls.positions import origins
from console.forms.values.form import DAMAGED, MARK, PRESS, TypedForm
from console.forms.values.parts import ROWS_MAX
from fabric.core.texts.three_way import same
from tests.console.forms.sent_by_browser import Sent
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
    """Return what a browser sends of the form as the page shows it."""
    review = SimpleNamespace(id="4f1c9a2be07d3358")
    press = "reviews/review/item_press.html"
    return Sent(render_to_string("forms/parts.html", {"node": form, "press": press, "review": review}))


def data_of(form, press="", **changed):
    """The same, after an author typed into fields, by their names, and pressed a button."""
    more = {name: [text] for name, text in changed.items()} | ({PRESS: [press]} if press else {})
    return MultiValueDict({MARK: [form.mark], **sent_of(form).fields, **more})


def again(shown, schema, press="", **changed):
    return onward(TypedForm(schema, shown), press, **changed)


def onward(form, press="", **changed):
    """The form that a page sends back."""
    return TypedForm(form._root, form.shown, data_of(form, press, **changed))


def rows(form, label="lines"):
    return next(one for one in form.all if isinstance(one, Node) and one.label == label)


def named(form, label, row=0):
    """The name of a field of a row."""
    return next(one.name for one in rows(form).parts[row].parts if labelled(one) == label)


def labelled(one):
    return one.label if isinstance(one, Node) else one.shape.label


def kinds(node):
    return [one.kind if isinstance(one, Node) else one.shape.kind for one in node.parts]


def leaves(form):
    return [one for one in form.all if isinstance(one, EditField)]


def errors_in(form):
    return {one.path: [said.sentence for said in one.findings] for one in form.all if one.findings}


def test_a_list_of_objects_is_rows_of_fields_with_their_types():
    form = TypedForm(SCHEMA, SHOWN)
    lines = rows(form)
    assert (lines.kind, len(lines.parts)) == ("items", 2)
    assert lines.words == "list of objects, entries: 1 or more, entries: 4 at most, required"
    assert [labelled(one) for one in lines.parts[0].parts] == ["text", "sum", "paid", "where", "parts"]
    assert kinds(lines.parts[0]) == ["text", "number", "boolean", "group", "items"]
    assert [one.label for one in rows(form, "parts").parts] == ["parts 1", "parts 2"]


def test_what_no_field_fits_says_why_it_is_json():
    form = TypedForm(SCHEMA, SHOWN)
    assert [one.said for one in leaves(form) if one.shape.label == "what"] == ["JSON, one of several shapes"]
    many = {"type": "object", "properties": {"a": {"type": ["string", "integer"]}, "b": True, "c": {"type": "array"}}}
    said = {one.shape.label: one.said for one in leaves(TypedForm(many, {"a": "x", "b": {}, "c": [1, "x"]}))}
    assert said == {"a": "JSON, of several types", "b": "JSON, of any shape", "c": "JSON"}
    assert again(SHOWN, SCHEMA, **{"f.what": "12"}).value["what"] == 12


def test_what_is_not_touched_comes_back_byte_for_byte():
    form = again(SHOWN, SCHEMA)
    assert not form.wrong
    assert form.changed == 0
    assert json.dumps(form.value) == json.dumps(SHOWN)


def test_a_row_is_moved_and_taken_away():
    one, two = SHOWN["lines"]
    for press, lines in (
        ("down lines.0", [two, one]),
        ("up lines.1", [two, one]),
        ("up lines.0", [one, two]),
        ("down lines.1", [one, two]),
        ("remove lines.0", [two]),
        ("remove lines.7", [one, two]),
        ("throw lines.0", [one, two]),
    ):
        form = again(SHOWN, SCHEMA, press)
        assert json.dumps(form.value["lines"]) == json.dumps(lines), press
        assert form.changed is rows(form).moved is (lines != [one, two])
        assert form.wrong is (press in ("remove lines.7", "throw lines.0"))


def test_what_was_typed_stays_with_its_row_wherever_it_goes():
    form = again(SHOWN, SCHEMA, "down lines.0", **{"f.lines.0.sum": "7.50", "f.lines.1.where.city": ""})
    assert [one["sum"] for one in form.value["lines"]] == [2, 7.5]
    assert [one["text"] for one in form.value["lines"]] == ["Two", "One"]
    assert [one["sum"] for one in onward(form, "up lines.1").value["lines"]] == [7.5, 2]


def test_what_was_refused_stays_with_its_row_wherever_it_goes():
    form = again(SHOWN, SCHEMA, "down lines.0", **{"f.lines.0.sum": "much"})
    assert errors_in(form) == {"lines.1.sum": ["Give a number, such as 12.5."]}
    assert next(one.text for one in leaves(form) if one.path == "lines.1.sum") == "much"
    assert form.value["lines"] == SHOWN["lines"][::-1]
    assert errors_in(onward(form)) == errors_in(form)
    assert errors_in(onward(form, "remove lines.1")) == {}


def test_a_row_is_added_with_the_fields_of_its_schema_and_asks_for_nothing_yet():
    form = again(SHOWN, SCHEMA, "add lines")
    added = rows(form).parts[-1]
    assert (added.path, added.new, added.kind) == ("lines.2", True, "group")
    assert kinds(added) == ["text", "number", "boolean", "group", "items"]
    assert not form.wrong, "a new row is not written yet"
    assert list(errors_in(onward(form))) == ["lines.2.text", "lines.2.sum", "lines.2.where.city"]
    full = onward(form, **{"f.lines.2.text": "Three", "f.lines.2.sum": "3", "f.lines.2.where.city": "Moss"})
    assert not full.wrong
    assert full.value["lines"][2] == {"text": "Three", "sum": 3, "where": {"city": "Moss"}}


def test_rows_within_rows():
    form = TypedForm(SCHEMA, SHOWN)
    assert [one.new for one in rows(again(SHOWN, SCHEMA, "add lines.0.parts"), "parts").parts] == [False, False, True]
    assert again(SHOWN, SCHEMA, "down lines.0.parts.0").value["lines"][0]["parts"] == [{"n": 2}, {"n": 1}]
    second = rows(form).parts[1].parts[-1]
    assert (second.kind, second.parts) == ("items", ())
    assert again(SHOWN, SCHEMA, f"add {second.path}").value["lines"][1]["parts"] == [{}]


def test_a_list_that_was_not_there_stays_away_until_a_row_is_added():
    assert "tags" not in again(SHOWN, SCHEMA).value
    added = again(SHOWN, SCHEMA, "add tags")
    assert onward(added).value["tags"] == [{}]
    assert "tags" not in onward(added, "remove tags.0").value


def test_problems_of_a_check_stand_at_the_row_and_the_list_that_they_are_about():
    form = again(SHOWN, SCHEMA, "down lines.0")
    form.blame(
        ["lines[0].sum: is too much", "lines[1].where: is odd", "lines: has too few", "lines[0]: is one too many"]
    )
    assert errors_in(form) == {
        "lines": ["Has too few."],
        "lines.0": ["Is one too many."],
        "lines.0.sum": ["Is too much."],
        "lines.1.where": ["Is odd."],
    }
    assert form.wrong


def test_no_more_rows_than_the_schema_and_the_form_take():
    shown = {"lines": SHOWN["lines"] * 2}
    form = TypedForm(SCHEMA, shown)
    assert rows(form).full
    assert (PRESS, "add lines") not in sent_of(form).presses
    assert len(rows(again(shown, SCHEMA, "add lines")).parts) == 4
    many = {"list": [{"n": n} for n in range(ROWS_MAX + 1)]}
    assert [one.shape.kind for one in leaves(TypedForm({}, many))] == ["json"]


DEEP = '[{"a":' + '{"a":' * 99 + "1" + "}" * 99 + "}, []]"


@pytest.mark.parametrize("mark", ["1", "[]", "{", "[" * 100_000, DEEP, '[{"a": NaN}, []]', "[{}, 1]", "[1, []]"])
def test_a_value_that_no_page_sends_is_refused_and_nothing_is_lost(mark):
    form = TypedForm(SCHEMA, SHOWN, {MARK: mark})
    assert form.problems == [DAMAGED]
    assert same(form.value, SHOWN)


@pytest.mark.parametrize(
    "press", ["up", "up x", "add", "add what", "remove ", "down lines", "up lines.0.sum", "add lines.9"]
)
def test_a_button_that_no_page_has_is_refused_and_nothing_is_lost(press):
    form = again(SHOWN, SCHEMA, press)
    assert form.problems
    assert same(form.value, SHOWN)


def test_an_edit_that_was_taken_back_stands_in_its_rows_again():
    one, two = SHOWN["lines"]
    new = {"text": "Three", "sum": 3.5, "where": {"city": "Moss"}}
    written = {**SHOWN, "lines": [new, two, one]}
    form = TypedForm(SCHEMA, SHOWN, None, written)
    assert same(form.value, written)
    assert [one.new for one in rows(form).parts] == [True, False, False]
    assert not onward(form).wrong
    assert same(onward(form).value, written)


def test_a_row_is_known_by_what_it_says_then_by_its_place():
    a, b, c = {"n": 1}, {"n": 2}, {"n": 3}
    assert origins([a, b], [a, b]) == [0, 1]
    assert origins([a, b], [b, a]) == [1, 0]
    assert origins([a, b], [c, b]) == [0, 1]
    assert origins([a, b], [b, c]) == [1, 0]
    assert origins([a, b], [b, c, 4]) == [1, None, None]
    assert origins([{"n": 1}], [{"n": 1.0}, {"n": True}]) == [0, None]


def test_any_name_of_a_part_has_a_path_of_its_own():
    names = ["a.b", "0", "12", "", " ", "%", "%2E", "é", "a b", '"', "\0"]
    shown = {"whole": {name: number for number, name in enumerate(names)}}
    form = TypedForm({}, shown)
    assert len({one.name for one in leaves(form)}) == len(names)
    changed = onward(form, **{one.name: "77" for one in leaves(form)})
    assert changed.value == {"whole": dict.fromkeys(names, 77)}


# -- any schema and any value of it ----------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=90)
NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)
SCALARS = [
    ({"type": "string"}, TEXT),
    ({"type": "integer"}, st.integers(-(10**9), 10**9)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["string", "null"]}, TEXT | st.none()),
    ({"type": "string", "format": "date"}, st.dates().map(str)),
    ({"enum": ["x", "y", "z"]}, st.sampled_from(["x", "y", "z"])),
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
    back = onward(form)
    assert not back.wrong, errors_in(back)
    assert not back.changed
    if form.parts:
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
    if not form.parts or not isinstance(form.parts[0], Node):
        return
    for _ in range(data.draw(st.integers(1, 4))):
        act = data.draw(st.sampled_from(["up", "down", "remove"]))
        place = data.draw(st.integers(0, max(0, len(kept) - 1)))
        if not kept:
            break
        form = onward(form, f"{act} list.{place}")
        one = kept.pop(place)
        if act != "remove":
            kept.insert(max(0, place - 1) if act == "up" else place + 1, one)
        assert json.dumps(form.value["list"]) == json.dumps(kept)
