import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.texts.text import DEPTH_MAX, JSON_CHARS_MAX, clean, clean_text, count_nesting, parse_json_object


@pytest.mark.parametrize(
    ("given", "kept"),
    [("plain", "plain"), ("a\0b", "a\ufffdb"), ("\ud800x\udfff", "\ufffdx\ufffd"), ("😀 ok", "😀 ok"), ("", "")],
)
def test_nul_and_lone_surrogates_are_replaced(given, kept):
    assert clean_text(given) == (kept, given != kept)


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_any_text_can_be_stored_afterwards(text):
    cleaned, changed = clean_text(text)
    cleaned.encode()
    assert "\0" not in cleaned
    assert changed == (cleaned != text)


def test_values_that_json_or_the_database_refuse_are_changed_and_told():
    value = {"n": float("nan"), "big": 2**64, "low": -(2**63), "text\0": ["\ud800", (1, True)], "f": 1.5}
    cleaned, changed = clean(value)
    assert changed
    assert cleaned == {
        "n": None,
        "big": "18446744073709551616",
        "low": -(2**63),
        "text\ufffd": ["\ufffd", [1, True]],
        "f": 1.5,
    }
    json.dumps(cleaned, allow_nan=False).encode()


def test_what_fits_is_not_reported_as_changed():
    value = {"a": [1, 2.5, None, True, "x", {"b": []}]}
    assert clean(value) == (value, False)


def test_an_enormous_integer_does_not_break_cleaning():
    assert clean(10**10_000) == ("<an integer of 33220 bits>", True)


@pytest.mark.parametrize("bad", [{1: "x"}, object(), b"bytes", {"a": {1, 2}}])
def test_what_is_no_json_is_refused_with_a_sentence(bad):
    with pytest.raises(ValueError, match="is no JSON"):
        clean(bad)


def test_depth_is_bounded_exactly():
    value: list = []
    for _ in range(DEPTH_MAX - 1):
        value = [value]
    clean(value)
    with pytest.raises(ValueError, match="deeper than 64"):
        clean([value])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '  {"a": 1}  ',
        'Sure! {"a": 1} Hope it helps.',
        '```json\n{"a": 1}\n```',
        'Here:\n```\n{"a": 1}\n```\n',
        'the set {x, y} and then {"a": 1}',
        'see {"x" no}\n```json\n{"a": 1}\n```\n{"a": 2}',
        '[note] {"a": 1}',
        '{"a": 1} {"b": 2}',
    ],
)
def test_the_object_is_found(text):
    assert parse_json_object(text) == ({"a": 1}, "")


def test_brackets_and_quotes_inside_strings_do_not_count():
    value = {"a": '}{ \\" ]', "b": [{"c": "```"}]}
    assert parse_json_object(f"answer: {json.dumps(value)} done") == (value, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("no json here", "no JSON object"),
        ('[{"a": 1}]', "JSON list"),
        ('{"a": 1', "cut off"),
        ('{"a": {"b": 1}', "cut off"),
        ('{"a": "never ends', "cut off"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ("{'a': 1}", "malformed at line 1, column 2"),
        ('{ a: {"b": 1} }', "malformed at line 1, column 3"),
        ('```json\n{ a: {"b": 1} }\n```', "malformed"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "deeper than 64"),
        ('{"a":' + "9" * 5_000 + "}", "5000 digits"),
        ("x" * (JSON_CHARS_MAX + 1), "at most"),
    ],
)
def test_what_is_no_object_gets_one_sentence(text, problem):
    value, said = parse_json_object(text)
    assert value is None
    assert problem in said
    assert "\n" not in said


def test_no_object_inside_a_broken_one_is_taken_for_the_answer():
    assert parse_json_object('{"text": "x", "inner": {"a": 1}')[0] is None


def test_hostile_sizes_are_read_in_one_pass():
    for text in ('{"a"' * 200_000, "{" * 1_000_000, '{"a": "' + "\\" * 500_001, '{"x" }' * 100_000):
        assert parse_json_object(text)[0] is None


def test_the_object_is_cleaned():
    assert parse_json_object('{"a\\u0000": "\\ud800", "n": 18446744073709551616}')[0] == {
        "a\ufffd": "\ufffd",
        "n": "18446744073709551616",
    }


def test_strictly_nothing_may_stand_around_the_object():
    assert parse_json_object(' {"a": 1}\n', strict=True) == ({"a": 1}, "")
    assert parse_json_object('ok {"a": 1}', strict=True)[0] is None
    assert parse_json_object('{"a": 1}}', strict=True)[0] is None


@given(st.dictionaries(st.text(), st.recursive(st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=20)))
def test_every_object_that_json_writes_is_read_back(value):
    text = json.dumps(value)
    assert parse_json_object(text, strict=True)[0] == clean(value)[0]


@pytest.mark.parametrize(("text", "depth"), [("1", 0), ("{}", 1), ('{"[[[": [1]}', 2), ("[" * 500, DEPTH_MAX + 1)])
def test_nesting_is_counted_outside_strings(text, depth):
    assert count_nesting(text) == depth
