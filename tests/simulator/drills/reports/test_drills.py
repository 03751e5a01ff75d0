"""Reports of stored drills: what ``manage.py drill`` writes of a cell, of one, of a batch and of a fabric's coverage; and chaostoolkit's journal."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import get_args

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from simulator.drills.batches.batch import batch_drill
from simulator.drills.library.requests import scenario_ask
from simulator.drills.models.tables import Drill, Status
from simulator.drills.reports.drills import (
    FORMS,
    NO_VERDICT,
    WRITES,
    Form,
    batch_report,
    build_cell,
    coverage_report,
    drill_report,
)
from simulator.drills.selectors.drills import batch_get, coverage, drill_get
from simulator.drills.services.drills import drill_ask, stop_drills
from simulator.scenarios.play.cells import drill
from simulator.scenarios.reports.formats import Drilled, json_line, junit
from simulator.scenarios.reports.page import page
from simulator.scenarios.spec.journal import read_journal

ONE = (FailureType.PROVIDER, Tier.BATCH)
TWO = (FailureType.TOOL_LOOP, Tier.BATCH)


def driven(actor, small, cells=(ONE,)):
    asked = drill_ask(actor=actor, fabric=small, cells=cells, seed=7)
    batch_drill(asked.batch, "h")
    return asked


def test_every_form_and_every_status_has_its_row():
    assert set(FORMS) == set(get_args(Form)) == {*WRITES, "journal"}
    assert set(NO_VERDICT) == set(Status)


def test_a_stored_drill_reads_as_the_command_tells_the_same_cell(actor, small):
    seen = drill_get(actor, driven(actor, small).drills[0])
    told = drill(revision_get(actor, small).spec, *ONE, seed=7)
    assert build_cell(seen) == told
    one = [Drilled(small, [build_cell(seen)])]
    seconds, at = build_cell(seen).seconds, None
    assert drill_report(seen, "json").text == json_line(one, seconds) + "\n"
    assert "<testcase" in drill_report(seen, "junit").text
    assert drill_report(seen, "junit").text.count("<testcase") == junit(one, seconds, at=at).count("<testcase")
    assert "Drill coverage of small" in drill_report(seen, "html").text
    assert drill_report(seen, "html").text.split("<main")[0] == page(one, seconds).split("<main")[0]


def test_what_was_stopped_is_an_error_in_a_pipeline_and_never_a_pass(actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE, TWO])
    stop_drills(actor=actor, batch=asked.batch, reason="")
    found = batch_report(batch_get(actor, asked.batch), "junit")
    root = ET.fromstring(found.text)
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("2", "2", "0")
    assert "it was stopped before it came to a verdict" in found.text
    assert found.name == f"drills-{asked.batch}.xml"


def test_the_coverage_counts_what_is_stale_or_was_never_drilled_as_unknown(actor, small):
    driven(actor, small, [ONE, TWO])
    Drill.objects.filter(failure=str(TWO[0])).update(covers="before")
    told = json.loads(coverage_report(coverage(actor, small), "json").text)
    assert (len(told["cells"]), told["passed"], told["failed"]) == (24, 1, 23)
    by_cell = {(one["failure"], one["tier"]): one for one in told["cells"]}
    assert "drill it again" in by_cell[TWO]["observed"]
    assert by_cell[FailureType.DEADLOCK, Tier.BATCH]["observed"] == "not drilled: it was never drilled"
    assert by_cell[ONE]["verdict"] == "pass"


def test_a_scenario_stands_under_its_name_and_has_chaostoolkits_journal(actor, small):
    asked = scenario_ask(actor=actor, fabric=small, scenario="endpoint-down", tiers=[Tier.BATCH])
    batch_drill(asked.batch, "h")
    seen = drill_get(actor, asked.drills[0])
    told = json.loads(drill_report(seen, "json").text)["cells"][0]
    assert (told["failure"], told["verdict"]) == ("endpoint-down", "pass")
    for form in WRITES:
        assert "endpoint" in drill_report(seen, form).text.lower()
    found = read_journal(drill_report(seen, "journal").text)
    assert (found.status, found.deviated) == ("completed", False)
    assert found.steady_states.after.steady_state_met is True
    assert found.run[0].output["struck"] > 0


def test_a_journal_that_there_is_not_is_refused(actor, small):
    with pytest.raises(Refused, match="played no scenario") as refused:
        drill_report(drill_get(actor, driven(actor, small).drills[0]), "journal")
    assert refused.value.code == "conflict"
    asked = scenario_ask(actor=actor, fabric=small, scenario="endpoint-down", tiers=[Tier.BATCH])
    with pytest.raises(Refused, match="has not ended"):
        drill_report(drill_get(actor, asked.drills[0]), "journal")


def test_a_form_that_there_is_not_is_refused(actor, small):
    seen = drill_get(actor, driven(actor, small).drills[0])
    with pytest.raises(Refused, match="no report as 'pdf'; there are: html, json, junit") as refused:
        drill_report(seen, "pdf")
    assert refused.value.code == "not_found"
