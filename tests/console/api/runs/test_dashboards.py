"""Dashboards over the API: the numbers of the page, and what is refused."""

from __future__ import annotations

import time

import pytest

from fabric.selectors.dashboards import dashboard as dashboards
from fabric.selectors.dashboards.asked import read_asked
from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.list_pages import fabric_ids
from tests.fabric.selectors.dashboards.dashboard_runs import DAY, NOW, make_fabric, make_run

ADDRESS = "/api/v1/dashboard"


@pytest.fixture
def known(actor, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000)
    (one,) = make_fabric(actor, "ledger")
    make_run(one, took_s=10, cost_usd_micros=100, labels={"team": "ops"}, model={"fast": 60}, fired=("budget",))
    make_run(one, ago=DAY, took_s=10, state="failed", cost_usd_micros=50)
    make_run(one, state="waiting", cost_usd_micros=7)


def test_the_numbers_are_the_page_s(program, actor, known):
    answer = program.get(ADDRESS).json()
    found = dashboards.find_dashboard(actor, Query(), fabric_ids(actor), read_asked("", "", "", now=NOW))
    whole = answer["whole"]
    assert (whole["runs"], whole["cost_usd_micros"], whole["cost_per_success_usd_micros"]) == (3, 157, 157)
    assert whole["fired"] == {"budget": 1}
    assert [one["name"] for one in answer["groups"]] == [one.name for one in found.groups] == ["ledger"]
    assert [one["figures"]["runs"] for one in answer["times"]] == [one.figures.runs for one in found.times]
    assert (answer["cut"], answer["by"], answer["bucket"]) == (False, "fabric", "day")
    assert len(program.get("/api/v1/runs", q=answer["groups"][0]["query"]).json()["runs"]) == 3


def test_groups_by_label_and_model_and_a_zone(program, known):
    by_label = program.get(ADDRESS, by="label.team", q="-state:waiting").json()
    assert {one["name"]: one["figures"]["runs"] for one in by_label["groups"]} == {"ops": 1, "without the label": 1}
    by_model = program.get(ADDRESS, by="model").json()["groups"]
    assert {one["name"]: one["figures"]["cost_usd_micros"] for one in by_model} == {
        "ledger, fast": 60,
        "ledger, tools and child runs": 97,
    }
    assert by_model[0]["figures"]["unconfirmed_usd_micros"] is None
    zoned = program.get(ADDRESS, zone="Europe/Berlin").json()
    assert zoned["times"][0]["since"] == "2026-11-18T23:00:00.000000Z"


def test_without_a_run_there_is_none(program, actor):
    answer = program.get(ADDRESS).json()
    assert (answer["groups"], answer["oldest_at"], answer["whole"]["cost_per_success_usd_micros"]) == ([], None, None)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"q": "stat:failed"}, "there is no field 'stat'"),
        ({"range": "2y"}, "is no range of a dashboard"),
        ({"bucket": "minute"}, "is no width of a stretch of time"),
        ({"by": "colour"}, "groups no runs"),
        ({"zone": "Mars"}, "there is no time zone"),
    ],
)
def test_what_is_not_understood_is_one_sentence(program, actor, asked, says):
    answer = program.get(ADDRESS, **asked)
    assert answer.status_code == 422
    assert says.lower() in answer.json()["detail"].lower()


def test_a_slow_answer_is_503(program, known, monkeypatch):
    monkeypatch.setattr(dashboards, "LIMIT_S", 0.0)
    monkeypatch.setattr("fabric.selectors.database_time.STEPS", 1)
    assert program.get(ADDRESS).status_code == 503
