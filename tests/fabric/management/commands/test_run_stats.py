"""`run stats`: the figures of the page Dashboards on a terminal and as JSON."""

from __future__ import annotations

import time

import pytest

from tests.fabric.management.console import command
from tests.fabric.selectors.dashboards.dashboard_runs import DAY, NOW, make_fabric, make_run


@pytest.fixture
def known(actor, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000)
    (one,), (other,) = make_fabric(actor, "ledger"), make_fabric(actor, "triage")
    make_run(one, took_s=10, cost_usd_micros=100_000, fired=("budget",), labels={"team": "ops"})
    make_run(one, ago=DAY, took_s=30, state="failed", cost_usd_micros=50_000, unconfirmed_usd_micros=50_000)
    make_run(other, state="waiting")


def test_a_line_for_all_for_each_group_and_for_each_day(known):
    done = command("run", "stats", "--zone", "UTC")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[1] == ["all", "3", "1", "1", "1", "$0.15", "$0.15", "10", "s", "30", "s", "30", "s"]
    assert ["triage", "1", "0", "0", "1", "$0", "none", "none", "none", "none"] in lines
    assert "fired: budget 1" in done.out
    assert "$0.05 of the cost is not confirmed" in done.out


def test_json_has_each_number(known):
    found = command("run", "stats", "fabric:ledger", "--by", "label.team", "--range", "30d", "--json").last
    assert (found["by"], found["bucket"], found["whole"]["runs"]) == ("label.team", "day", 2)
    assert {one["name"]: one["figures"]["cost_usd_micros"] for one in found["groups"]} == {
        "ops": 100_000,
        "without the label": 50_000,
    }
    assert len(found["times"]) == 30


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stat:failed",), "there is no field 'stat'"),
        (("--range", "2y"), "is no range of a dashboard"),
        (("--by", "colour"), "groups no runs"),
        (("--bucket", "minute"), "is no width"),
        (("--zone", "Mars"), "Mars"),
    ],
)
def test_what_is_not_understood_is_one_sentence(known, words, says):
    done = command("run", "stats", *words)
    assert done.code == 2
    assert says in done.err
