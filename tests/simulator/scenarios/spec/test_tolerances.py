"""Tolerances mean what they mean in chaostoolkit, and say in a sentence why a value will not do."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from simulator.scenarios.spec.probes import Malformed, read_tolerance
from simulator.texts.json_paths import DESCENTS_MAX, FOUND_MAX, PATH_CHARS_MAX, find_values, parse_path

RANGE: dict[str, Any] = {"type": "range", "range": [4, 8.5]}
BODY = {"steps": [{"name": "a", "state": "done", "n": 1}, {"name": "b", "state": "failed", "n": 3}], "a-b": {"n": 2}}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (True, True),
        (8, 8),
        (8, 8.0),
        ("OK", "OK"),
        (200, {"status": 200, "body": ""}),
        ([4, 9], 4),
        ([4, 9], 9),
        ([4, 9], 5.5),
        (["a", "c"], "b"),
        ([4, 9, 78], 78),
        (["one"], "one"),
        ([200, 204, 301], {"status": 204}),
        ([200, 299], {"status": 204}),
        (RANGE, 4),
        (RANGE, 8.5),
        (RANGE, "6"),
        ({**RANGE, "target": "cost"}, {"cost": 5}),
        ({**RANGE, "target": "cost"}, 5),
        ({"type": "regex", "pattern": "[0-9]{3}"}, "HTTP 503"),
        ({"type": "regex", "pattern": "^x", "target": "body"}, {"body": "xy"}),
        ({"type": "jsonpath", "path": "$.steps[*].state"}, BODY),
        ({"type": "jsonpath", "path": "steps[*].state", "expect": ["done", "failed"]}, BODY),
        ({"type": "jsonpath", "path": "$.steps[-1].n", "expect": 3}, BODY),
        ({"type": "jsonpath", "path": "$..n", "count": 3}, BODY),
        ({"type": "jsonpath", "path": "$.a", "target": "body", "expect": 1}, {"body": '{"a": 1}'}),
    ],
)
def test_what_is_within(written, value):
    assert read_tolerance(written).why_not(value) == ""
    assert read_tolerance(written).accepts(value)


@pytest.mark.parametrize(
    ("written", "value", "why"),
    [
        (True, 1, "1 is not True"),
        (1, True, "True is not 1"),
        ("OK", "ok", "'ok' is not 'OK'"),
        (200, {"status": 500}, "500 is not 200"),
        ([4, 9], 10, "10 does not lie between 4 and 9"),
        ([4, 9], "5", "'5' cannot lie between 4 and 9"),
        ([4, 9, 78], 5, "5 is none of 4, 9, 78"),
        ([1, 2, 3], True, "True is none of 1, 2, 3"),
        (RANGE, 8.6, "8.6 does not lie between 4 and 8.5"),
        (RANGE, "many", "'many' is no number, and one from 4 to 8.5 is wanted"),
        (RANGE, True, "True is no number, and one from 4 to 8.5 is wanted"),
        (RANGE, float("nan"), "nan is no number, and one from 4 to 8.5 is wanted"),
        (RANGE, None, "None is no number, and one from 4 to 8.5 is wanted"),
        ({"type": "regex", "pattern": "^x"}, "yx", "'yx' does not match '^x'"),
        ({"type": "regex", "pattern": "1"}, 1, "1 is no text, and one that matches '1' is wanted"),
        ({"type": "jsonpath", "path": "$.nothing"}, BODY, "$.nothing leads to nothing"),
        ({"type": "jsonpath", "path": "$.a"}, "no JSON", "$.a leads to nothing"),
        ({"type": "jsonpath", "path": "$..n", "count": 2}, BODY, "$..n leads to 3 values, 2 are wanted"),
        ({"type": "jsonpath", "path": "$..n", "expect": [1, 3]}, BODY, "$..n leads to [1, 3, 2], and [1, 3] is wanted"),
        ({"type": "jsonpath", "path": "$.a", "expect": 1}, {"a": True}, "$.a leads to [True], and [1] is wanted"),
        ({"type": "jsonpath", "path": "$.a", "expect": None}, {}, "$.a leads to [], and [None] is wanted"),
    ],
)
def test_what_is_not_within_and_why(written, value, why):
    assert read_tolerance(written).why_not(value) == why
    assert not read_tolerance(written).accepts(value)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, "t: None is no tolerance; write a value, a list or a table with a type"),
        (0.5, "t: 0.5 is no whole number; for a fraction write a table with type range and its bounds"),
        ([], "t: the list is empty, so that nothing is within it; name what may be"),
        ([9, 4], "t: 9 is more than 4, so that nothing lies between; write the lower first"),
        (
            [1, "a"],
            "t: 1 and 'a' are no bounds, which a list of two is; write two numbers or two texts, or a list of more",
        ),
        ([1, [2], None], "t.1: a list is no text, number, true or false; t.2: None is no text, number, true or false"),
        ([1, 2, float("inf")], "t.2: inf is no text, number, true or false"),
        ({"range": [1, 2]}, "t.type: the tolerance has no type; there are: probe, regex, jsonpath, range"),
        ({"type": "rang"}, "t.type: there is no tolerance of type 'rang'; did you mean 'range'?"),
        ({"type": "range"}, "t.range: is missing; give it a value"),
        ({"type": "range", "range": [1]}, "t.range: a range is a list of two numbers, such as [4, 8.5]"),
        ({"type": "range", "range": [True, 2]}, "t.range: a range is a list of two numbers, such as [4, 8.5]"),
        (
            {"type": "range", "range": [3, 2]},
            "t.range: 3 is more than 2, so that nothing lies between; write the lower first",
        ),
        ({**RANGE, "targt": "x"}, "t.targt: there is no such key; did you mean 'target'?"),
        ({"type": "regex"}, "t.pattern: is missing; give it a value"),
        ({"type": "regex", "pattern": 5}, "t.pattern: 5 is no text; write it in quotes"),
        ({"type": "regex", "pattern": "("}, "t.pattern: the pattern '(' cannot be read: missing ): ("),
        (
            {"type": "regex", "pattern": "(?=a)"},
            "t.pattern: the pattern '(?=a)' cannot be read: invalid perl operator: (?=",
        ),
        (
            {"type": "jsonpath", "path": "$.a["},
            "t.path: the path '$.a[' cannot be read at character 4: unexpected end of query",
        ),
        ({"type": "probe", "name": "p"}, "t.provider: is missing; give it a value"),
    ],
)
def test_what_does_not_parse(written, said):
    with pytest.raises(Malformed) as caught:
        read_tolerance(written, ("t",))
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "written",
    [
        True,
        8,
        "OK",
        [4, 9],
        [4, 9, 78],
        ["one"],
        RANGE,
        {**RANGE, "target": "x"},
        {"type": "regex", "pattern": "x"},
        {"type": "jsonpath", "path": "$.a", "expect": None},
        {"type": "jsonpath", "path": "$.a", "count": 1},
        {
            "type": "probe",
            "name": "p",
            "provider": {"type": "fabric-flow", "probe": "state", "arguments": {"a": 1}},
        },
    ],
)
def test_a_tolerance_is_written_as_it_was_read(written):
    assert read_tolerance(written).write_value() == written


def test_another_probe_is_asked_with_the_value():
    asked = []
    written = {
        "type": "probe",
        "name": "p",
        "provider": {"type": "fabric-flow", "probe": "small", "arguments": {"n": 2}},
    }

    def ask(probe: str, arguments: Any, value: Any) -> bool:
        asked.append((probe, arguments, value))
        return bool(value < 5)

    tolerance = read_tolerance(written)
    assert tolerance.accepts(4, ask)
    assert tolerance.why_not(5, ask) == "probe 'p' says no to 5"
    assert asked == [("small", {"n": 2}, 4), ("small", {"n": 2}, 5)]
    assert tolerance.why_not(4) == "probe 'p' cannot run here, so the value is not known to be right"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [BODY]),
        ("$.steps[0].name", ["a"]),
        ("steps[0].name", ["a"]),
        ("$['a-b'].n", [2]),
        ("$.a-b.n", [2]),
        ('$["steps"][*]["n"]', [1, 3]),
        ("$.steps.*.n", [1, 3]),
        ("$..name", ["a", "b"]),
        ("$.steps[?(@.state == 'failed')].name", ["b"]),
        ("$.steps[?(@.n > 1)].name", ["b"]),
        ("$.steps[?(@.n != 1)].name", ["b"]),
        ("$.steps[?(@.name)].n", [1, 3]),
        ("$.steps[?(@.state > 1)].n", []),
        ("$.steps[7]", []),
        ("$.steps.name", []),
        ("$.steps[0:1].n", [1]),
        ("$.steps[0]['n', 'name']", [1, "a"]),
        ("$.steps[?@.n == true]", []),
    ],
)
def test_a_path_leads_to(path, found):
    assert find_values(parse_path(path), BODY) == found


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "the path is empty; write one like"),
        ("$.", "cannot be read at character 2"),
        ("$.a[", "cannot be read at character 4: unexpected end of query"),
        ("$.a[(@.length-1)]", "cannot be read at character 5: unexpected token in bracketed selection"),
        ("$a b", "cannot be read at character 4"),
        ("$.a[?(@.n == x)]", "cannot be read at character 14"),
        ("$...a", "cannot be read at character 4"),
        ("$.a[?match(@.n, '(a|a)*b')]", "match"),
        ("$.a[?@.n =~ /(a|a)*b/]", "has a regular expression; write a tolerance of type regex"),
        ("$.a | $.b", "joins two paths; write a tolerance for each"),
        ("$" + "..*" * (DESCENTS_MAX + 1), "has more than 2 steps '..'; name the fields on the way"),
        ("$." + "a" * PATH_CHARS_MAX, "the path has 202 characters; at most 200 are read: make it shorter"),
    ],
)
def test_a_path_that_is_not_read_is_a_sentence(path, said):
    with pytest.raises(ValueError) as caught:
        parse_path(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["$[?" + "(" * 90 + "@.a" + ")" * 90 + "]", "$" + "[?@" * 45 + "]" * 45, "$.a[?" + "!" * 150 + "@.b]", "-" * 200],
)
def test_a_path_as_deep_as_it_may_be_is_read_or_refused(path):
    with suppress(ValueError):
        find_values(parse_path(path), BODY)


def test_more_values_or_levels_than_are_looked_at_are_a_sentence():
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    tolerance = read_tolerance({"type": "jsonpath", "path": "$..*", "count": 0})
    assert tolerance.why_not(deep) == "the path $..[*] cannot be followed: recursion limit exceeded"
    assert (
        tolerance.why_not([0] * (FOUND_MAX + 1)) == "the path $..[*] leads to more than 10,000 values; make it narrower"
    )
