"""Tolerances mean what they mean in chaostoolkit, and say in a sentence why a value will not do."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenarios import jsonpath
from simulator.scenarios.tolerances import Malformed, tolerance_of

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
    assert tolerance_of(written).why_not(value) == ""
    assert tolerance_of(written).within(value)


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
    assert tolerance_of(written).why_not(value) == why
    assert not tolerance_of(written).within(value)


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
            {"type": "jsonpath", "path": "$.a[0:2]"},
            "t.path: '$.a[0:2]': a slice at character 4 is not understood; write [n], [*], ['name'] or [?(@.name == value)]",
        ),
        ({"type": "probe", "name": "p"}, "t.provider: is missing; give it a value"),
    ],
)
def test_what_does_not_parse(written, said):
    with pytest.raises(Malformed) as caught:
        tolerance_of(written, ("t",))
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
    assert tolerance_of(written).written() == written


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

    tolerance = tolerance_of(written)
    assert tolerance.within(4, ask)
    assert tolerance.why_not(5, ask) == "probe 'p' says no to 5"
    assert asked == [("small", {"n": 2}, 4), ("small", {"n": 2}, 5)]
    assert tolerance.why_not(4) == "nobody can ask probe 'p' here, so the value is not known to be right"


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
    ],
)
def test_a_path_leads_to(path, found):
    assert jsonpath.found(jsonpath.parse(path), BODY) == found


@pytest.mark.parametrize(
    "path", ["", "$.", "$.a[", "$.a[1,2]", "$.a[(@.length-1)]", "$a b", "$.a[?(@.n == x)]", "$...a"]
)
def test_a_path_that_is_not_understood_is_a_sentence(path):
    with pytest.raises(ValueError, match=r"path|character|compare"):
        jsonpath.parse(path)
