"""The scoreboard: its rows, its marks, and the command itself over real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from simulator.installation.database import clean_environment
from simulator.scoreboard.cases import FOUND, KEY, SCENARIOS
from simulator.scoreboard.runs import SeenRun, table, verdict

MANAGE = Path(settings.BASE_DIR) / "manage.py"
LOOP = next(one for one in SCENARIOS if one.name == "loop")
OK = next(one for one in SCENARIOS if one.name == "ok")
STOPPED = SeenRun(
    scenario="loop",
    tier="interactive",
    state="stopped",
    first="clerk asked for lookup({'order': '42'}) 3 times",
    seconds=1.0,
    requests=4,
    executions=2,
    kept=2,
    usd_micros=1_000,
    outcome=None,
    told="",
)


def test_the_board_has_twenty_rows_and_seven_controls():
    kinds = [one.kind for one in SCENARIOS]
    assert (kinds.count("board"), kinds.count("control")) == (20, 7)
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)
    assert all(one.ends == "answers" for one in SCENARIOS if one.kind == "control")


def test_a_run_that_is_stopped_and_says_why_has_all_marks():
    assert verdict(LOOP, STOPPED).whole


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({"seconds": 61.0}, "in_time"),
        ({"state": "running"}, "in_time"),
        ({"state": "running"}, "honest"),
        ({"state": "completed"}, "honest"),
        ({"told": f"the key {KEY}"}, "honest"),
        ({"first": "a limit was reached"}, "named"),
        ({"kept": 1}, "kept"),
        ({"requests": 5}, "few"),
    ],
)
def test_each_mark_is_missed_by_its_own_fault(changed, missing):
    assert not getattr(verdict(LOOP, replace(STOPPED, **changed)), missing)


@pytest.mark.parametrize(
    ("state", "text", "honest"), [("completed", FOUND, True), ("completed", "No.", False), ("stopped", FOUND, False)]
)
def test_a_control_answers(state, text, honest):
    assert verdict(OK, replace(STOPPED, state=state, outcome={"text": text})).honest is honest


def test_the_table_counts_what_is_missing():
    late = replace(STOPPED, seconds=90.0)
    lines = table([(LOOP, STOPPED, verdict(LOOP, STOPPED)), (LOOP, late, verdict(LOOP, late))])
    assert lines[-1].startswith("interactive: in time 1 of 2, honest 2 of 2")


def test_the_command_plays_over_http_in_an_installation_of_its_own():
    done = subprocess.run(
        [sys.executable, str(MANAGE), "dev", "scoreboard", "--tier", "batch", "--only", "ok,loop", "--json"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["scenario"]: row for row in json.loads(done.stdout.strip().splitlines()[-1])}
    assert (rows["ok"]["state"], rows["ok"]["requests"], rows["ok"]["executions"]) == ("completed", 2, 1)
    assert rows["loop"]["state"] == "waiting", "a person is asked"
    assert rows["loop"]["requests"] <= 4


SLOW = {"hang", "trickle", "storm429", "outage503", "late503"}
"""They take a call's whole time, or wait for their provider; ``tests/fabric/composition/test_provider_failures_http.py`` has their like."""


@pytest.mark.parametrize("tier", ["interactive", "batch", "high_stakes"])
def test_each_scenario_is_stopped_or_answered_with_its_cause_and_its_work(tier):
    names = ",".join(one.name for one in SCENARIOS if one.name not in SLOW)
    done = subprocess.run(
        [sys.executable, str(MANAGE), "dev", "scoreboard", "--tier", tier, "--only", names, "--json"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    rows = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(rows) == len(SCENARIOS) - len(SLOW)
    marks = ("honest", "named", "kept", "few")
    assert [(row["scenario"], mark) for row in rows for mark in marks if not row[mark]] == []


def test_a_scenario_that_does_not_exist_is_named():
    done = subprocess.run(
        [sys.executable, str(MANAGE), "dev", "scoreboard", "--only", "lop"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no scenario 'lop'; there are: loop, " in done.stderr
