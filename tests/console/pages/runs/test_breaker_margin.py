"""The shared breaker among the margins of a run's page: there while the run goes on, with a way to its row, and as of now."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.live.reader import RunKey
from console.pages.runs import panels as run_parts
from console.pages.runs.live_source import DatabaseSource
from fabric.core.breaker.table import BreakerState, Standing
from fabric.core.spec.policies.breakers import BreakerScope
from fabric.core.values.flow import RunState, Stage
from fabric.selectors.models.breakers import list_breaker_views
from fabric.selectors.runs.margins.breakers import SHARED_BREAKER
from tests.console.pages.runs.test_page import WORKER, fanned_out, shown
from tests.fabric.selectors.journals import Teller
from tests.fabric.selectors.models.breaker_rows import change, tell

OPEN = Standing(state=BreakerState.OPEN, trips=1, signal="rate_limit", failures=3, threshold=3.0)


@pytest.fixture
def provider(actor, small):
    """The breaker that a fabric has that names none."""

    def now():
        (one,) = [one for one in list_breaker_views(actor) if one.over == BreakerScope.PROVIDER]
        return one

    return now


def margin(page: str) -> str:
    """Its margin in the header."""
    head = page.partition('id="panel-ask"')[0]
    found = re.findall(rf'<div class="margin"[^>]*><dt><span><a [^>]*>{SHARED_BREAKER}</a></span>.*?</dd></div>', head)
    assert len(found) == 1
    return found[0]


def test_it_stands_in_the_header_with_its_count_and_leads_to_its_row(browser, journaled, provider):
    run_id = journaled(fanned_out())
    assert SHARED_BREAKER not in shown(browser, run_id)  # Nothing is counted: others are nearer.
    assert "0<small> / 3</small>" in shown(browser, run_id, "?view=protections")
    tell(provider(), s0=1)
    assert "1<small> / 3</small>" in margin(shown(browser, run_id))
    tell(provider(), s0=1)
    said = margin(shown(browser, run_id))
    assert 'data-tone="warn"' in said
    assert "2<small> / 3</small>" in said
    assert "provider scripted: rate limit or server error or timeout, opens at 3 in a row" in said
    anchor = re.search(r'<a href="/models/breakers#([^"]+)"', said)[1].replace("%3A", ":")
    assert f'id="{anchor}"' in browser.get("/models/breakers").content.decode()


def test_what_counted_something_is_there_though_others_are_nearer(browser, journaled, provider):
    tell(provider(), s0=1)
    teller = Teller().start(60).planned().enter(Stage.FAN_OUT, "reader").wait(36).ask(WORKER, 1, "reader")
    shown_margin = margin(shown(browser, journaled(teller)))
    assert "data-tone" not in shown_margin
    assert "1<small> / 3</small>" in shown_margin


def test_one_that_is_open_is_red_and_says_so(browser, journaled, provider):
    run_id = journaled(fanned_out())
    change(provider(), OPEN)
    said = margin(shown(browser, run_id))
    assert 'data-tone="danger"' in said
    assert "provider scripted: calls are refused" in said
    assert re.search(r"open\s*</b>", said)
    change(provider(), Standing(state=BreakerState.HALF_OPEN, trips=1, signal="rate_limit"))
    assert 'data-tone="warn"' in margin(shown(browser, run_id))


def test_it_stands_with_the_circuit_breaker_among_the_protections(browser, journaled, provider):
    run_id = journaled(fanned_out())
    tell(provider(), s0=1)
    tab = shown(browser, run_id, "?part=protections")
    mine = tab.partition('id="p-circuit_breaker"')[2].partition('id="set-circuit_breaker"')[0]
    assert f">{SHARED_BREAKER}</a></span>" in mine
    assert "1<small> / 3</small>" in mine


def test_a_run_that_has_ended_has_none(browser, journaled, provider):
    """The rows of now say nothing about how it was then."""
    tell(provider(), s0=2)
    assert SHARED_BREAKER not in shown(browser, journaled(fanned_out().end(RunState.COMPLETED)))


@pytest.mark.parametrize("view", ["timeline", "protections"])
def test_it_costs_the_page_one_statement(browser, journaled, provider, view):
    """Though the header and the protections show it both."""
    run_id = journaled(fanned_out())
    tell(provider(), s0=1)
    with CaptureQueriesContext(connection) as asked:
        page = shown(browser, run_id, f"?view={view}")
    assert page.count(f">{SHARED_BREAKER}</a></span>") == {"timeline": 1, "protections": 2}[view]
    assert sum("fabric_guard_count" in one["sql"] for one in asked) == 1


def test_one_that_cannot_be_judged_costs_the_page_nothing_else(browser, journaled, monkeypatch):
    monkeypatch.setattr(run_parts, "breaker_nearest", lambda run, spec: 1 / 0)
    page = shown(browser, journaled(fanned_out()))
    assert "Handoffs" in page
    assert SHARED_BREAKER not in page


def test_the_live_reader_draws_it_anew_though_the_run_does_nothing(actor, journaled, provider):
    key = RunKey(actor.workspace_id, journaled(fanned_out()))
    before = DatabaseSource().read(key, 0, 100).head
    assert before.again
    tell(provider(), s0=2)
    after = DatabaseSource().read(key, 0, 100).head
    assert [a.name for a, b in zip(before.panels, after.panels, strict=True) if a.version != b.version] == ["head"]
    assert DatabaseSource().read(key, 0, 100).head.versions == after.versions


def test_nothing_is_drawn_anew_for_a_run_that_has_ended(actor, journaled, provider):
    key = RunKey(actor.workspace_id, journaled(fanned_out().end(RunState.COMPLETED)))
    assert not DatabaseSource().read(key, 0, 100).head.again
