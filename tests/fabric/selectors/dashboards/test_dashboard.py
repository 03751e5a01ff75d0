"""Dashboards over a small known set of runs: each number is exact, on both databases; unknown is never a success."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fabric.core.values.units import US
from fabric.models import Run
from fabric.selectors.dashboards import dashboard as dashboards
from fabric.selectors.dashboards import statement
from fabric.selectors.dashboards.asked import read_asked
from fabric.selectors.dashboards.dashboard import find_dashboard
from fabric.selectors.dashboards.figures import NO_FIGURES, OUTCOMES, ReviewFigures
from fabric.selectors.runs.punctuality import PUNCTUALITY
from fabric.selectors.runs.query.grammar import parse
from fabric.selectors.runs.query.list_pages import fabric_ids, match_runs
from tests.benchmarks.console import pages
from tests.fabric.selectors.dashboards.dashboard_runs import DAY, HOUR, NOW, make_fabric, make_review, make_run


def read_query(actor, line):
    found = parse(line, now=NOW, fabrics=tuple(fabric_ids(actor)))
    assert not hasattr(found, "message"), found
    return found


def find(actor, line="", *, by="", span="7d", width=""):
    asked = read_asked(span, width, by, now=NOW)
    return find_dashboard(actor, read_query(actor, line), fabric_ids(actor), asked)


def found_by(actor, line) -> set[str]:
    """The ids of the runs that a link of the dashboard leads to."""
    return set(match_runs(actor, read_query(actor, line), fabric_ids(actor)).values_list("id", flat=True))


@pytest.fixture
def known(actor) -> dict[str, Run]:
    """Nine runs of two fabrics: each outcome, an unknown cost, a run that waits, a child run and an old one."""
    (one, two), (other,) = make_fabric(actor, "ledger", 2), make_fabric(actor, "triage")
    return {
        "good": make_run(one, took_s=10, cost_usd_micros=100, agent={"planner": 60}, model={"fast": 40, "slow": 20}, labels={"team": "ops"}, fired=("retry",)),
        "again": make_run(two, took_s=30, cost_usd_micros=50, recovered=True, unconfirmed_usd_micros=20, agent={"planner": 50}, model={"fast": 50}, labels={"team": "ops"}, fired=("budget", "retry")),
        "static": make_run(two, took_s=20, cost_usd_micros=7, reason="safe_fallback", labels={"team": "two words"}),
        "failed": make_run(one, ago=DAY, took_s=40, state="failed", cost_usd_micros=30, fired=("budget",)),
        "cancelled": make_run(one, took_s=90_000, state="cancelled", cost_usd_micros=5),
        "waiting": make_run(other, ago=2 * DAY, state="waiting", cost_usd_micros=11, unconfirmed_usd_micros=11),
        "queued": make_run(other),
        "child": make_run(one, took_s=1, cost_usd_micros=1_000, parent_run_id="x"),
        "old": make_run(one, ago=30 * DAY, took_s=1, cost_usd_micros=1_000),
    }  # fmt: skip


def test_the_whole_is_exact(actor, known):
    whole = find(actor).whole
    assert [getattr(whole, name) for name in OUTCOMES] == [2, 1, 1, 1, 2]
    assert (whole.runs, whole.succeeded, whole.cost_usd_micros, whole.unconfirmed_usd_micros) == (7, 2, 203, 31)
    assert (whole.per_success, whole.success_share) == (102, 40)
    assert (whole.timed, whole.p50_us, whole.p95_us, whole.p99_us) == (4, 20 * US, 40 * US, 40 * US)
    assert whole.fired == {"budget": 2, "retry": 2}


def test_without_a_success_there_is_no_cost_of_one(actor, known):
    found = {group.name: group.figures for group in find(actor).groups}["triage"]
    assert (found.runs, found.unended, found.succeeded, found.cost_usd_micros) == (2, 2, 0, 11)
    assert (found.per_success, found.success_share, found.p50_us) == (None, None, None)
    assert find(actor, "why:safe_fallback").whole.per_success is None


def test_nothing_is_found(actor, known):
    for line in ("nowhere", "fabric:zzz*"):
        found = find(actor, line)
        assert (found.whole, found.groups, found.oldest_at, found.cut) == (NO_FIGURES, (), None, False)
        assert len(found.times) == 7


GROUPS = {
    "fabric": {"ledger": 192, "triage": 11},
    "revision": {"ledger, revision 1": 135, "ledger, revision 2": 57, "triage, revision 1": 11},
    "label.team": {"ops": 150, "two words": 7, "without the label": 46},
    "model": {"ledger, fast": 90, "ledger, slow": 20, "ledger, tools and child runs": 82, "triage, tools and child runs": 11},
    "agent": {"ledger, planner": 110, "ledger, no agent": 82, "triage, no agent": 11},
}  # fmt: skip


@pytest.mark.parametrize("by", GROUPS)
def test_groups_have_the_whole_cost_and_lead_to_their_runs(actor, known, by):
    found = find(actor, by=by)
    assert {group.name: group.figures.cost_usd_micros for group in found.groups} == GROUPS[by]
    assert sum(group.figures.cost_usd_micros for group in found.groups) == found.whole.cost_usd_micros
    for group in found.groups:
        assert sum(group.costs) == group.figures.cost_usd_micros
        assert sum(group.counts) == group.figures.runs
        if group.query:
            assert len(found_by(actor, group.query)) == group.figures.runs
        else:
            assert "tools and child runs" in group.name or "no agent" in group.name
    assert [group.figures.cost_usd_micros for group in found.groups] == sorted(GROUPS[by].values(), reverse=True)


def test_a_run_counts_in_each_model_that_it_called(actor, known):
    groups = {group.name: group.figures for group in find(actor, by="model").groups}
    fast, slow = groups["ledger, fast"], groups["ledger, slow"]
    assert (fast.runs, fast.succeeded, fast.per_success, slow.runs, slow.per_success) == (2, 2, 45, 1, 20)
    assert (fast.unconfirmed_usd_micros, fast.p50_us, fast.p99_us) == (None, 10 * US, 30 * US)


def test_times_add_up_and_lead_to_their_runs(actor, known):
    found = find(actor)
    assert [one.figures.runs for one in found.times] == [0, 0, 0, 0, 1, 1, 5]
    assert [one.figures.cost_usd_micros for one in found.times] == [0, 0, 0, 0, 11, 30, 162]
    assert [len(found_by(actor, one.query)) for one in found.times] == [one.figures.runs for one in found.times]
    assert len(found_by(actor, found.query)) == found.whole.runs
    by_hour = find(actor, span="1d")
    assert [one.figures.runs for one in by_hour.times] == [0] * 22 + [5, 0]
    assert len(found_by(actor, by_hour.times[22].query)) == 5


def test_the_query_filters_all_of_it(actor, known):
    found = find(actor, "label.team=ops", by="revision")
    assert (found.whole.runs, [group.name for group in found.groups]) == (
        2,
        ["ledger, revision 1", "ledger, revision 2"],
    )
    assert found.groups[0].query == "label.team=ops started:>=2026-11-19 fabric:ledger revision:1"


def test_all_beyond_the_largest_groups_are_one(actor, known, monkeypatch):
    everything = find(actor, by="revision")
    monkeypatch.setattr(statement, "GROUPS_MAX", 1)
    for name in ("_PLACED", "_GROUPS_NAMED"):
        monkeypatch.setattr(statement, name, getattr(statement, name).replace("> 10", "> 1").replace("<= 10", "<= 1"))
    first, other = find(actor, by="revision").groups
    assert (first.name, first.other, other.name, other.other, other.query) == (
        "ledger, revision 1",
        False,
        "other",
        True,
        "",
    )
    assert first.figures == everything.groups[0].figures
    assert (other.figures.runs, other.figures.cost_usd_micros) == (4, 68)
    assert (other.figures.p50_us, other.figures.p99_us) == (20 * US, 30 * US), "a percentile of all of them"
    assert other.figures.fired == {"budget": 1, "retry": 1}


def test_it_says_from_when_on_runs_are_counted(actor, known, monkeypatch):
    assert find(actor).cut is False
    monkeypatch.setattr(dashboards, "RUNS_MAX", 6)
    found = find(actor)
    assert (found.cut, found.whole.runs, found.oldest_at) == (True, 6, NOW - DAY)


def test_reviews_by_the_time_of_their_answer(actor, known):
    make_review(known["good"], decided=-2 * HOUR, due=-HOUR)
    make_review(known["good"], decided=-HOUR, due=-HOUR)
    make_review(known["again"], decided=-HOUR, due=-2 * HOUR)
    make_review(known["failed"], decided=-HOUR, due=-HOUR, by_system=True, verb="reject")
    make_review(known["failed"], decided=-HOUR, due=-HOUR, by_system=True, verb="withdrawn")
    make_review(known["failed"], decided=-HOUR, due=-HOUR, by_system=True, item="follow_up")
    make_review(known["waiting"], due=-(10**15))
    make_review(known["waiting"], due=10**17)
    found = find(actor)
    assert found.whole.reviews == ReviewFigures(in_time=2, late=1, expired=1, overdue=1, waiting=1)
    assert (found.whole.reviews.due, found.whole.reviews.share) == (5, 40)
    assert ReviewFigures(waiting=3).share is None
    by_fabric = {group.name: group.figures.reviews for group in found.groups}
    assert by_fabric["triage"] == ReviewFigures(overdue=1, waiting=1)
    runs = {"in_time": "good", "late": "again", "expired": "failed", "overdue": "waiting", "waiting": "waiting"}
    assert set(runs) == set(PUNCTUALITY)
    for name, run in runs.items():
        assert found_by(actor, f"review:{name}") == {known[run].id}
    assert found_by(actor, "review:late,expired") == {known["again"].id, known["failed"].id}
    assert found_by(actor, "review:overdue review:waiting") == {known["waiting"].id}
    assert known["good"].id not in found_by(actor, "-review:in_time")


def test_a_reader_of_one_fabric_gets_figures_of_it_alone(known, actor, stranger):
    assert find(stranger).whole == NO_FIGURES


@pytest.mark.parametrize("by", ["fabric", "revision", "model", "agent", "label.team"])
def test_it_costs_the_same_for_any_number_of_runs(actor, known, by):
    for count in (1, 30):
        for _ in range(count):
            make_run(make_fabric(actor, f"f{Run.objects.count()}")[0], took_s=1)
        asked, fabrics, query = read_asked("7d", "", by, now=NOW), fabric_ids(actor), read_query(actor, "")
        with CaptureQueriesContext(connection) as captured:
            find_dashboard(actor, query, fabrics, asked)
        own = [one["sql"] for one in captured if one["sql"].startswith(("WITH", 'SELECT "fabric'))]
        assert len(own) == (2 if by == "revision" else 1)


@pytest.mark.parametrize("by", ["fabric", "model", "label.team"])
@pytest.mark.parametrize("line", ["", "state:failed", "label.team=ops", "fired:budget"])
def test_no_plan_reads_the_whole_table(actor, known, by, line):
    if connection.vendor != "sqlite":
        pytest.skip("the plans of SQLite are read")
    asked = read_asked("7d", "", by, now=NOW)
    with CaptureQueriesContext(connection) as captured:
        find_dashboard(actor, read_query(actor, line), fabric_ids(actor), asked)
    (sql,) = (one["sql"] for one in captured if one["sql"].startswith("WITH newest"))
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert not pages.SCAN.search(plan), plan
    assert "SCAN fabric_review" not in plan
    assert "SCAN fabric_run_label" not in plan
    assert "SEARCH fabric_run USING" in plan


def test_numbers_are_json(actor, known):
    json.dumps([find(actor).whole.cost_usd_micros, find(actor).whole.p50_us])
