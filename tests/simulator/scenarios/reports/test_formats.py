"""Reports for programs, read back by the parsers that programs use."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import get_args
from xml.etree import ElementTree as ET

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.play.verdicts import Cell, Verdict
from simulator.scenarios.reports.formats import DEFAULT, TAGS, Drilled, count_failed, count_passed, json_line, junit

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
LOOP, PROVIDER = FailureType.TOOL_LOOP, FailureType.PROVIDER
HOSTILE = '<b>&"quoted"</b> ]]> a\0b\x1b[31m\x0b\ud800c\ufffe\U0001f600 tab\there\nnext\rline'
ONE = Drilled(
    "ledger",
    [
        Cell(LOOP, FAST, "pass", "inject > completed", "inject > completed", 7, seconds=0.25),
        Cell(
            LOOP, BATCH, "deviated", "abort > aborted", "retry > aborted", 7, "The table says otherwise.", seconds=0.25
        ),
        Cell(PROVIDER, FAST, "error", "abort > aborted", HOSTILE, 7, equipped="a finalizer", seconds=0.25),
        Cell(PROVIDER, HIGH, "unknown", "abort > aborted", "nothing decided > completed", 8, seconds=0.25),
    ],
)
OTHER = Drilled("", [Cell(LOOP, FAST, "pass", "a > completed", "a > completed", 1)])
AT = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)

WHOLE, TIME, ANY = r"\d+", r"\d+\.\d{3}", r"(?s).+"
COUNTS = {"tests": WHOLE, "failures": WHOLE, "errors": WHOLE}
SCHEMA = {
    "testsuites": ({"name": ANY, **COUNTS, "time": TIME}, {}, {"testsuite"}),
    "testsuite": (
        {"name": ANY, **COUNTS, "skipped": "0", "time": TIME},
        {"timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"},
        {"properties", "testcase"},
    ),
    "properties": ({}, {}, {"property"}),
    "property": ({"name": ANY, "value": ANY}, {}, set()),
    "testcase": ({"name": ANY, "classname": r"[\w.-]+", "time": TIME}, {}, {"failure", "error"}),
    "failure": ({"type": "deviated", "message": ANY}, {}, set()),
    "error": ({"type": "error|unknown", "message": ANY}, {}, set()),
}
"""What continuous integration reads: element -> attributes that it has, that it may have, and elements within. Each value in full."""


def checked(text: str) -> ET.Element:
    """The root of a report that keeps to the schema."""
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for one in root.iter():
        needed, allowed, within = SCHEMA[one.tag]
        assert set(needed) <= set(one.attrib) <= {*needed, *allowed}, one.tag
        assert all(re.fullmatch({**needed, **allowed}[name], value) for name, value in one.attrib.items()), one.attrib
        assert {child.tag for child in one} <= within
        assert [child.tag for child in one] == sorted((child.tag for child in one), key=lambda tag: tag == "testcase")
        assert len({case.get("name") for case in one.findall("testcase")}) == len(one.findall("testcase"))
    return root


def test_each_verdict_has_its_element_and_only_a_pass_has_none():
    assert set(TAGS) == set(get_args(Verdict))
    assert [verdict for verdict, tag in TAGS.items() if not tag] == ["pass"]


def test_junit_has_a_suite_a_failure_type_and_a_case_a_tier():
    root = checked(junit([ONE], 1.5, at=AT))
    assert root.attrib == {"name": "drills", "tests": "4", "failures": "1", "errors": "2", "time": "1.500"}
    assert [dict(suite.attrib) for suite in root] == [
        {"name": "infinite_tool_loop", "tests": "2", "failures": "1", "errors": "0", "skipped": "0", "time": "0.500", "timestamp": "2026-03-01T12:30:05"},
        {"name": "provider_failure", "tests": "2", "failures": "0", "errors": "2", "skipped": "0", "time": "0.500", "timestamp": "2026-03-01T12:30:05"},
    ]  # fmt: skip
    assert [(case.get("classname"), case.get("name"), case.get("time")) for case in root.iter("testcase")] == [
        ("drills.ledger", "infinite_tool_loop x interactive", "0.250"),
        ("drills.ledger", "infinite_tool_loop x batch", "0.250"),
        ("drills.ledger", "provider_failure x interactive", "0.250"),
        ("drills.ledger", "provider_failure x high_stakes", "0.250"),
    ]
    told = [{one.get("name"): one.get("value") for one in suite.iter("property")} for suite in root]
    assert told == [
        {"fabric": "ledger", "seed.interactive": "7", "seed.batch": "7"},
        {"fabric": "ledger", "seed.interactive": "7", "seed.high_stakes": "8"},
    ]


def test_a_case_says_what_was_expected_and_what_was_observed():
    good, deviated, error, unknown = checked(junit([ONE], 1.5)).iter("testcase")
    assert list(good) == []
    [told] = deviated
    assert (told.tag, told.get("message")) == ("failure", "The table says otherwise.")
    assert told.text == "expected: abort > aborted\nobserved: retry > aborted\nseed: 7\nwhy: The table says otherwise."
    assert [(one.tag, one.get("type")) for one in (error[0], unknown[0])] == [("error", "error"), ("error", "unknown")]
    assert unknown[0].get("message") == "expected abort > aborted; observed nothing decided > completed"


def test_what_xml_forbids_is_shown_and_everything_else_comes_back_as_it_was():
    [told] = list(checked(junit([ONE], 0)).iter("testcase"))[2]
    shown = HOSTILE
    for char, name in {
        "\0": r"\x00",
        "\x1b": r"\x1b",
        "\x0b": r"\x0b",
        "\ud800": r"\ud800",
        "\ufffe": r"\ufffe",
    }.items():
        shown = shown.replace(char, name)
    assert told.text == f"expected: abort > aborted\nobserved: {shown}\nseed: 7\nthe fabric was given a finalizer"
    assert told.get("message") == f"expected abort > aborted; observed {shown}"


def test_several_fabrics_have_suites_of_their_own():
    root = checked(junit([ONE, OTHER], 2))
    names = ["ledger: infinite_tool_loop", "ledger: provider_failure", f"{DEFAULT}: infinite_tool_loop"]
    assert [suite.get("name") for suite in root] == names
    assert [case.get("classname") for case in root.iter("testcase")][-1] == f"drills.{DEFAULT}"
    assert (root.get("tests"), root.get("errors")) == ("5", "2")


def test_no_cell_is_no_pass():
    root = checked(junit([Drilled("ledger", [])], 0))
    assert (root.get("tests"), list(root)) == ("0", [])


# -- JSON --


def test_the_line_of_one_fabric():
    line = json_line([ONE], 1.23456)
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert list(found) == ["cells", "passed", "failed", "seconds"]
    assert (found["passed"], found["failed"], found["seconds"]) == (1, 3, 1.235)
    assert list(found["cells"][0]) == ["failure", "tier", "verdict", "expected", "observed", "seed"]
    assert found["cells"][1] == {
        "failure": "infinite_tool_loop",
        "tier": "batch",
        "verdict": "deviated",
        "expected": "abort > aborted",
        "observed": "retry > aborted",
        "seed": 7,
    }
    assert found["cells"][2]["observed"] == HOSTILE


def test_the_line_of_several_names_the_fabric_of_each_cell():
    found = json.loads(json_line([ONE, OTHER], 1))
    assert [cell["fabric"] for cell in found["cells"]] == ["ledger"] * 4 + [DEFAULT]
    assert found["cells"][0].keys() - {"fabric"} == json.loads(json_line([ONE], 1))["cells"][0].keys()


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_only_a_pass_is_one(verdict):
    drilled = [Drilled("", [Cell(LOOP, FAST, verdict, "", "", 1)])]
    assert (count_passed(drilled), count_failed(drilled)) == ((1, 0) if verdict == "pass" else (0, 1))
