"""The page of dashboards: its figures, its links, and what it says when it has none."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from console.pages.dashboards.views import OUTCOME_WORDS, REVIEW_WORDS, SPANS
from console.pages.runs.list.chart import PARTS
from fabric.models import Run
from fabric.selectors import database_time
from fabric.selectors.dashboards import dashboard as dashboards
from fabric.selectors.dashboards.asked import DAYS
from fabric.selectors.dashboards.figures import OUTCOMES, REVIEWS
from tests.fabric.selectors.dashboards.dashboard_runs import DAY, NOW, make_fabric, make_review, make_run


@pytest.fixture
def known(actor, monkeypatch) -> list[Run]:
    """Four runs of two fabrics; the page's clock is theirs."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000)
    (one,), (other,) = make_fabric(actor, "ledger"), make_fabric(actor, "triage")
    runs = [
        make_run(one, took_s=10, cost_usd_micros=120_000, agent={"planner": 70_000}, model={"fast": 90_000}, fired=("budget",), labels={"team": "ops"}),
        make_run(one, ago=DAY, took_s=20, state="failed", cost_usd_micros=60_000, unconfirmed_usd_micros=50_000),
        make_run(other, state="waiting"),
        make_run(other, took_s=1, state="cancelled"),
    ]  # fmt: skip
    make_review(runs[2], due=-1)
    return runs


def read(browser, status=200, **asked) -> str:
    answer = browser.get("/dashboards", asked)
    assert answer.status_code == status, answer.content[:500]
    return answer.content.decode()


def words(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def test_words_are_total():
    assert set(SPANS) == set(DAYS)
    assert set(OUTCOME_WORDS) == set(OUTCOMES) == {field for field, _, _ in PARTS}
    assert {(tone, said) for said, tone in OUTCOME_WORDS.values()} == {(tone, said) for _, tone, said in PARTS}
    assert set(REVIEW_WORDS) == set(REVIEWS)


def test_the_figures(browser, known):
    shown = words(read(browser))
    assert "4 runs started in the last 7 days" in shown
    assert "Spent $0.1800 $0.0500 of it not confirmed" in shown
    assert "Cost per success $0.1800" in shown
    assert "Successes 1 33 % of ended runs" in shown
    assert "Latency p50, p95, p99 10 s 20 s, 20 s" in shown
    assert "Reviews in time 0 % 0 of 1" in shown
    assert "open and overdue" in shown


def test_without_a_success_the_cost_of_one_is_none(browser, known):
    shown = words(read(browser, q="fabric:triage"))
    assert "Cost per success none no run succeeded" in shown
    assert "Latency p50, p95, p99 none no run has ended" in shown


@pytest.mark.parametrize(
    "by",
    [{}, {"by": "revision"}, {"by": "model"}, {"by": "agent"}, {"by": "label", "key": "team"}, {"by": "label.team"}],
)
@pytest.mark.parametrize("span", ["1d", "7d", "90d"])
def test_each_link_opens_as_many_runs_as_it_says(browser, known, by, span):
    page = read(browser, range=span, **by)
    links = re.findall(r'<a (?:class="[\w ]+" )?href="(/runs\?[^"]+)"(?: tabindex="-1")?>(.*?)</a>', page, re.DOTALL)
    assert len(links) > 10
    for href, inner in dict.fromkeys(links):
        answer = browser.get(unescape(href))
        assert answer.status_code == 200, href
        count = re.search(r"(\d+) of (\d+)", words(answer.content.decode()))
        said = words(inner).strip()
        if said.isdecimal():
            assert (int(count[2]) if count else 0) == int(said), (href, inner)
        else:
            assert count, (href, inner)


def test_the_line_of_the_list_filters_and_is_kept(browser, known):
    page = read(browser, q="state:failed,waiting", by="revision")
    assert "2 runs started" in words(page)
    assert 'value="state:failed,waiting"' in page
    assert '<option value="revision" selected>' in page


def test_an_empty_range_says_so(browser, actor):
    assert "No run that was started in the last 7 days matches" in words(read(browser))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"q": "stat:failed"}, "there is no field 'stat': did you mean state?"),
        ({"range": "2y"}, "is no range of a dashboard"),
        ({"range": "30d", "bucket": "hour"}, "take a wider one"),
        ({"by": "colour"}, "groups no runs"),
        ({"by": "label"}, "A label has no key"),
        ({"by": "label", "key": "A b"}, "is not taken"),
    ],
)
def test_what_is_not_understood_is_said(browser, known, asked, says):
    page = read(browser, 422, **asked)
    assert says in words(page)
    assert f'<option value="{asked.get("range", "7d")}" selected>' in page or asked.get("range") == "2y"


def test_a_cut_is_said(browser, known, monkeypatch):
    monkeypatch.setattr(dashboards, "RUNS_MAX", 2)
    assert "runs are counted, from" in words(read(browser))


def test_a_slow_answer_is_said(browser, known, monkeypatch):
    monkeypatch.setattr(dashboards, "LIMIT_S", 0.0)
    monkeypatch.setattr(database_time, "STEPS", 1)
    assert "Choose a shorter range, or narrow the query" in words(read(browser, 503))


def test_the_page_costs_the_same_for_many_runs(browser, actor, known, django_assert_max_num_queries):
    for _ in range(30):
        make_run(make_fabric(actor, f"f{Run.objects.count()}")[0], took_s=1)
    with django_assert_max_num_queries(18):
        read(browser, by="revision")
