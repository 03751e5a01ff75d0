"""A run's events in a real browser: appended while a person reads, picked by key, opened step by step, copied."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page

from tests.e2e.asked import asked
from tests.e2e.conftest import NOWHERE, Visitor
from tests.e2e.runs.feeder import Feeder, feeding

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def feeder(installation):
    with feeding(installation) as found:
        yield found


@pytest.fixture(scope="module")
def like(installation):
    return asked(installation, "doubtful", "What do the notes say?")


@dataclass
class Looking:
    """A person at a run of so many events, which another process adds to."""

    visitor: Visitor
    run_id: str
    feeder: Feeder

    @property
    def page(self) -> Page:
        return self.visitor.page

    @property
    def rows(self) -> list[int]:
        return self.visitor.rows

    def add(self, count: int, at_once: int) -> None:
        """Adds events, so many in a batch."""
        self.feeder.add(count, at_once)

    def open(self, query: str = "", path: str = "") -> None:
        """Opens the run's page, or what lies below it."""
        self.page.goto(f"/runs/{self.run_id}{path}{query}")

    def follow(self, query: str) -> None:
        """Opens the run's page, and waits until it follows the run."""
        self.open(query)
        self.page.locator("#live[data-live=live]").wait_for()


@pytest.fixture
def looking(visit, feeder, like):
    """Makes runs of so many events with a person in front of them: ``looking(50)`` goes on, ``looking(50, ended=True)`` has ended."""

    def make(count: int, *, ended: bool = False, **options: object) -> Looking:
        return Looking(visit(NOWHERE, **options), feeder.make(like, count, "completed" if ended else "running"), feeder)

    return make


def at_end(page):
    return page.evaluate(
        "(() => { const l = document.getElementById('events-scroll'); return l.scrollHeight - l.clientHeight - l.scrollTop < 24 })()"
    )


def covered(page):
    """Return what the list stands for, in its order: seqs of rows, and the ranges behind its links."""
    return page.eval_on_selector_all(
        "#events-rows tr",
        "rows => rows.map(r => [Number(r.dataset.seq ?? r.dataset.first), Number(r.dataset.seq ?? r.dataset.last)])",
    )


def whole(ranges):
    """Return True if they follow each other without a hole, a double or disorder."""
    return all(first == last_before + 1 for (_, last_before), (first, _) in pairwise(ranges))


def test_a_burst_of_10_000_arrives_whole_and_the_page_stays_small(looking):
    at = looking(50)
    page = at.page
    at.follow("?events=full")
    assert at_end(page)
    at.add(10_000, 250)
    page.locator("#events-rows tr[data-seq='10050']").wait_for()
    ranges = covered(page)
    assert whole(ranges)
    assert ranges[-1] == [10_050, 10_050]
    assert len(ranges) <= 1_000
    assert at_end(page)
    folded = page.locator("#events-rows tr.folded a")
    if folded.count():
        folded.last.click()
        page.locator("#events-rows tr[data-seq]").first.wait_for()
        assert whole(covered(page))
    assert at.visitor.complaints == []


def test_nothing_moves_under_who_reads_and_what_is_new_waits_behind_a_bar(looking):
    at = looking(150)
    page = at.page
    at.follow("?events=full")
    page.evaluate("document.getElementById('events-scroll').scrollTop = 400")
    list_top = "document.getElementById('events-scroll').getBoundingClientRect().top"
    place = f"document.querySelector('#events-rows tr[data-seq=\"20\"]').getBoundingClientRect().top - {list_top}"
    before = page.evaluate(place)
    at.add(30, 10)
    page.locator("#events-rows tr[data-seq='180']").wait_for(state="attached")
    page.locator("#events-new", has_text="30 new").wait_for()
    assert page.evaluate(place) == before
    page.locator("#events-new a").click()
    page.wait_for_function("document.getElementById('events-new').hidden")
    assert at_end(page)
    at.add(5, 5)
    page.locator("#events-rows tr[data-seq='185']").wait_for()
    assert at_end(page)
    assert page.locator("#events-new").is_hidden()
    assert at.rows == list(range(1, 186))


def test_what_does_not_match_the_filter_is_not_appended(looking):
    at = looking(40)
    page = at.page
    at.follow("?events=full&q=number+4")
    assert at.rows == [4, 40]
    at.add(20, 4)
    page.locator("#live[data-seq='60']").wait_for()
    assert at.rows == [4, 40, *range(41, 50)]
    at.follow("?events=raw")
    at.add(3, 3)
    page.locator("#events-new", has_text="3 new").wait_for()
    page.locator("#events-new a").click()
    page.locator("#events-rows tr[data-seq='63']").wait_for()
    assert at.visitor.complaints == []


def test_j_and_k_go_through_the_events_of_the_list(looking):
    at = looking(30, ended=True)
    page = at.page
    at.open("?events=full")
    for key, seq in (("j", 1), ("j", 2), ("j", 3), ("k", 2)):
        page.keyboard.press(key)
        page.locator(f"#inspector [data-shown='{seq}']").wait_for()
        assert page.locator("#events-rows a.seq[aria-current]").inner_text() == str(seq)
    page.locator("#q").fill("jk")
    assert page.locator("#q").input_value() == "jk"
    at.open("?events=full", "/events/7")
    page.keyboard.press("j")
    page.locator("#inspector [data-shown='8']").wait_for()


def test_a_value_is_opened_step_by_step_and_its_path_copied(looking):
    at = looking(3, ended=True)
    page = at.page
    at.visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    at.open("?events=full&event=1")
    more = page.locator("#inspector .jt-more a").first
    assert "400 more" in more.inner_text()
    more.click()
    page.locator("#inspector li[data-k='399']").wait_for()
    row = page.locator("#inspector li[data-k='350'] > details").first
    row.locator("> summary").click()
    row.locator("li[data-k='a']").first.hover()
    page.locator(".jt-path").click()
    assert page.evaluate("navigator.clipboard.readText()") == "/rows/350/deep/a"
    page.locator("#inspector [data-copy-link]").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.endsWith('/events/1'))")
    assert at.visitor.complaints == []


def test_it_all_works_without_a_script(looking):
    at = looking(450, ended=True, java_script_enabled=False)
    page = at.page

    def press(what: Locator, address: str) -> None:
        """Nothing but a load can come of it: the page that is asked about is the next one."""
        what.click()
        page.wait_for_url(address)

    at.open()
    press(page.get_by_role("navigation", name="Detail").get_by_role("link", name="Full"), "**?events=full#events")
    assert at.rows == list(range(251, 451))
    press(page.get_by_role("link", name="Earlier events"), "**before=251#events")
    assert at.rows == list(range(51, 251))
    page.locator("#q").fill("number 333")
    press(page.get_by_role("button", name="Filter"), "**q=number+333**")
    assert at.rows == [333]
    press(page.locator("#events-rows a.seq"), "**/events/333?*")
    assert "number 333" in page.locator(".verdict").inner_text()
    at.open("", "/events/1")
    press(page.get_by_role("link", name="400 more"), "**from=200")
    assert page.locator("li[data-k='200']").count()
    at.open()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Journal").click()
    lines = begun.value.path().read_text().splitlines()
    assert begun.value.suggested_filename == f"run-{at.run_id}.journal.ndjson"
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 451))
