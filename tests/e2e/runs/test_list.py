"""The list of runs in a real browser: new ones wait, rows change where they stand, the line, the keys, and all of it without script."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.conftest import NOWHERE, Visitor
from tests.e2e.installation import RUN, Installation

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def changed(installation: Installation, run_id: str, state: str) -> None:
    """The run's row as a journal writer would leave it: the page must see it from any writer."""
    with closing(sqlite3.connect(Path(installation.environ["FABRIC_DATA"]) / "fabric.sqlite3", timeout=30)) as opened:
        opened.execute("UPDATE fabric_run SET state = ?, last_seq = last_seq + 1 WHERE id = ?", (state, run_id))
        opened.commit()


def begin(visitor: Visitor, text: str) -> str:
    """The id of a run that a member starts in another tab; it goes on until it waits for a person."""
    page = visitor.context.new_page()
    page.goto("/runs/start")
    page.get_by_role("radio", name=re.compile("doubtful")).check()
    page.get_by_label("Your request").fill(text)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    run_id = page.url.rpartition("/")[2]
    page.close()
    return run_id


@pytest.fixture(scope="module")
def waiting() -> dict[str, str]:
    """The run that the tests share, once one of them has begun it."""
    return {}


@pytest.fixture
def first(visit, waiting) -> str:
    """A run that waits for a person."""
    if not waiting:
        visitor = visit(NOWHERE)
        waiting["id"] = begin(visitor, "the first request")
        visitor.page.goto("/runs?q=request")
        visitor.page.locator(f"#run-{waiting['id']}").get_by_text("Waiting for a person").wait_for()
    return waiting["id"]


def test_new_runs_wait_behind_a_bar_and_rows_change_where_they_stand(visit, installation, first):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs?q=request")
    page.locator("#live[data-live=live]").wait_for()
    row = page.locator(f"#run-{first}")
    row.locator("a.cell").focus()
    before = page.locator("#runs-list tbody tr").count()
    newer = begin(visitor, "a second request")
    bar = page.locator("#new-rows a")
    bar.wait_for()
    assert bar.inner_text().strip() == "1 new"
    assert page.locator("#runs-list tbody tr").count() == before
    changed(installation, first, "paused")
    row.get_by_text("Paused").wait_for()
    assert page.evaluate("document.activeElement.closest('tr').id") == f"run-{first}"
    bar.click()
    page.locator(f"#run-{newer}").wait_for()
    assert page.locator("#runs-list tbody tr").count() == before + 1
    assert page.locator("#new-rows").is_hidden()
    changed(installation, first, "waiting")
    assert visitor.complaints == []


def test_a_paused_page_asks_nothing(visit, first):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.clock.install()
    page.goto("/runs")
    with page.expect_request("**/runs/news*"):
        page.clock.fast_forward(10_000)
    page.locator("#live[data-live=live]").wait_for()
    page.locator("#live-pause").click()
    page.locator("#live[data-live=paused]").wait_for()
    page.wait_for_load_state("networkidle")  # What was asked before has come back.
    heard = []
    page.on("request", lambda request: heard.append(request.url))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.clock.fast_forward(60_000)
    assert [url for url in heard if "/runs/news" in url] == []
    with page.expect_request("**/runs/news*"):
        page.locator("#live-pause").click()
    page.locator("#live[data-live=live]").wait_for()


def test_a_page_whose_server_is_gone_says_so(visit, first):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs")
    page.locator("#live[data-live=live]").wait_for()
    visitor.context.route("**/runs/news*", lambda route: route.abort())
    page.locator("#live[data-live=stale]").wait_for()
    visitor.context.unroute("**/runs/news*")
    page.locator("#live[data-live=live]").wait_for()


def test_the_keys(visit, first):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('tr').rowIndex") == 1
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("state:waiting")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?q=state%3Awaiting")
    page.keyboard.press("f")
    page.locator("#add-field:focus").wait_for()
    page.locator("#add-field").select_option("recovered")
    page.get_by_label("Value").fill("no")
    page.get_by_role("button", name="Add the filter").click()
    page.wait_for_url("**/runs?q=state%3Awaiting+recovered%3Ano")
    page.get_by_role("link", name="Remove filter state waiting").first.click()
    page.wait_for_url("**/runs?q=recovered%3Ano")
    assert visitor.complaints == []


def test_the_list_works_without_script(visit, first):
    page = visit(NOWHERE, java_script_enabled=False).page
    page.goto("/runs")
    page.get_by_label("Query").fill("state:waitin")
    with page.expect_navigation():
        page.get_by_role("button", name="Filter", exact=True).click()
    assert "did you mean waiting?" in page.locator("#q-problem").inner_text()
    assert page.locator(f"#run-{first}").count() == 1
    page.locator("#q-problem").get_by_role("link").click()
    page.wait_for_url("**/runs?q=state%3Awaiting")
    assert page.locator(f"#run-{first}").count() == 1
    page.locator("#add-filter summary").click()
    page.get_by_label("Value").fill("failed")
    page.get_by_label("Comparison").select_option("not")
    page.get_by_role("button", name="Add the filter").click()
    page.wait_for_url("**/runs?q=state%3Awaiting+-state%3Afailed")
    with page.expect_navigation():
        page.get_by_role("link", name=re.compile("As of")).click()
    assert page.locator(f"#run-{first}").count() == 1


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_never_scrolls_sideways(visit, first, width):
    page = visit(viewport={"width": width, "height": 844}).page
    for address in ("/runs", "/runs?q=" + "state:running,waiting+" * 3, "/runs?q=zebra+cost:>1+" + "x" * 200):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
