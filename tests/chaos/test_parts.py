"""The counted kinds of chaos, a few of each: long ones are made by hand, `manage.py dev chaos zombies|takeover|deploy|outage`."""

import os
import shutil

import pytest

from simulator.installation.database import ROOT
from tests.chaos import parts
from tests.chaos.parts import PARTS
from tests.chaos.test_chaos import PLANS, missing

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.redis]
ASKED = {
    "zombies": {"trials": 1, "workers": 2, "live": 8},
    "takeover": {"kills": 1, "workers": 2, "live": 8},
    "deploy": {"runs": 8, "delay": 3.0, "workers": 2},
    "outage": {"away": 1.0, "workers": 1, "broker": "redis", "live": 6},
}
SAYS = {
    "zombies": {"trials": 1, "stale_writes_accepted": 0},
    "takeover": {"kills": 1},
    "deploy": {"restarts": 2, "repeated": 0, "stale_writes_accepted": 0},
    "outage": {"not_once": 0},
}


@pytest.fixture(autouse=True)
def servers():
    if program := missing(PLANS["postgresql-redis"]):
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"left out: {program} is not installed", pytrace=False)
        pytest.skip(f"{program} is not installed")


def test_each_part_is_tried_here():
    assert set(ASKED) == set(SAYS) == set(PARTS)


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_lost_and_nothing_is_done_twice(name):
    line, bad = PARTS[name](ASKED[name], lambda said: None)
    print(f"\n{name}: {line}")
    assert bad == []
    assert {key: line[key] for key in SAYS[name]} == SAYS[name]
    assert (line["lost"], line["reexecuted"]) == (0, 0)
    assert line.get("stale_writes_refused", 0) >= line.get("trials", 0)
    assert line.get("runs_taken_over", 1) > 0
    assert sum(line.get("calls_out", [1])) > 0


def test_workers_of_a_version_before_are_replaced_while_runs_go_on(tmp_path):
    before = tmp_path / "before"
    for name in ("fabric", "console", "simulator", "templates", "static"):
        shutil.copytree(ROOT / name, before / name, ignore=shutil.ignore_patterns("__pycache__"))
    said = []
    line, bad = PARTS["deploy"]({"runs": 8, "delay": 3.0, "workers": 2, "before": before}, said.append)
    assert bad == []
    assert said[0].startswith("the tables were brought up to date in")
    assert (line["restarts"], line["repeated"], line["lost"], line["reexecuted"]) == (3, 0, 0, 0)


def test_percentiles_are_of_the_nearest_rank():
    assert [parts._percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.25, 0.5, 0.99, 1.0)] == [1.0, 2.0, 4.0, 4.0]
    assert parts._percentile([], 0.5) is None
