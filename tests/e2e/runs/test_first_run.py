"""A new member's first minutes, in a real browser against the real thing."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import NOWHERE
from tests.e2e.decided import decided
from tests.e2e.installation import RUN
from tests.e2e.scenes import FAMILY

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NOTES = {
    "name": "notes.md",
    "mimeType": "text/markdown",
    "buffer": b"The budget is 40 dollars. The deadline is Friday.\n\n<script>document.title = 'broken'</script>",
}


def start(visitor, fabric, text="What do the notes say about costs?"):
    page = visitor.page
    page.goto("/runs/start")
    page.get_by_role("radio", name=re.compile(fabric)).check()
    page.get_by_label("Your request").fill(text)
    page.get_by_label("Documents to read").set_input_files([NOTES])
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    page.goto(f"{page.url}?events=full")


@contextmanager
def stopped_worker(installation):
    """The worker stands still meanwhile, so that a page is there before its run goes on."""
    worker = installation.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def test_start_and_watch_a_run_to_its_end(visit, installation):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs/start")
    page.get_by_role("radio", name=re.compile("Research desk")).check()
    page.get_by_role("link", name="Use example for Research desk").click()
    assert page.get_by_label("Your request").input_value().startswith("What do these documents say")
    page.get_by_label("Documents to read").set_input_files([NOTES])
    with stopped_worker(installation):
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_url(RUN)
        page.goto(f"{page.url}?events=full")
        page.locator("#live[data-live=live]").wait_for()
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .badge").first.inner_text() == "Completed"
    assert visitor.rows == list(range(1, len(visitor.rows) + 1))
    assert "40 dollars" in page.locator("#panel-outcome").inner_text()
    assert "<script>" in page.locator("#panel-outcome").inner_text() or "broken" not in page.title()
    seen = visitor.rows
    page.reload()
    assert visitor.rows == seen
    page.locator("#events-rows a.seq").nth(0).click()
    page.locator("#inspector [data-shown='1']").wait_for()
    assert "What do these documents say" in page.locator("#inspector").inner_text()
    page.goto("/runs")
    assert page.get_by_role("row").filter(has_text="What do these documents say").count() >= 1
    assert visitor.complaints == []


def test_child_runs_appear_on_an_open_page_and_are_followed_to_their_end(visit, installation):
    installation.publish(FAMILY)
    visitor = visit()
    page = visitor.page
    with stopped_worker(installation):
        start(visitor, "Many readers")
        page.locator("#live[data-live=live]").wait_for()
        children = page.locator("#panel-children tbody tr")
        assert children.count() == 0
    children.nth(2).wait_for()
    page.locator("#live[data-live=ended]").wait_for()
    page.locator("#panel-children:not([hx-get])").wait_for(state="attached")
    assert [row.locator(".badge").inner_text() for row in children.all()] == ["Completed"] * 3
    assert visitor.complaints == []


def test_a_web_server_that_dies_costs_a_page_nothing(visit, installation):
    """The run waits for a person until no process is left to tell the page, and goes on then."""
    visitor = visit(NOWHERE)
    start(visitor, "doubtful")
    visitor.page.locator("article.review").wait_for()
    visitor.page.locator("#live[data-live=live]").wait_for()
    run_id = visitor.page.url.partition("/runs/")[2].partition("?")[0]
    ((item, digest),) = installation.stored("SELECT id, digest FROM fabric_review WHERE run_id = ?", run_id)
    before = len(visitor.rows)
    installation.kill_web_server()
    installation.manage("review", "decide", str(item), "approve", "--digest", str(digest))
    visitor.page.locator("#live[data-live=ended]").wait_for()
    assert len(visitor.rows) > before
    assert visitor.rows == list(range(1, len(visitor.rows) + 1))
    assert visitor.complaints == []


def test_a_review_appears_and_leads_to_its_page(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "doubtful")
    card = page.locator("article.review")
    card.wait_for()
    assert page.locator("#panel-head .badge").first.inner_text() == "Waiting for a person"
    # Others may still wait here: an answer that was given is open until its run takes it.
    assert int(page.locator("#nav-links .count[data-tone=human]").inner_text().split()[0]) >= 1
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .badge").first.inner_text().startswith("Completed")
    assert page.locator("article.review").count() == 0
    assert visitor.rows == list(range(1, len(visitor.rows) + 1))
    assert visitor.complaints == []


def test_it_works_without_javascript(visit):
    visitor = visit(NOWHERE, alone=True, java_script_enabled=False)
    page = visitor.page
    page.goto("/runs/start")
    page.get_by_role("button", name="Start the run").click()
    assert "The request is empty" in page.locator("#e-text").inner_text()
    start(visitor, "doubtful")
    while page.locator("article.review").count() == 0:
        page.locator("#live").click()
    decided(page, "reject", "the notes say otherwise")
    while page.locator("#live[data-live=ended]").count() == 0:
        page.locator("#live").click()
    assert page.locator("#panel-head .badge").first.inner_text() == "Aborted"
    assert "the notes say otherwise" in page.locator("#panel-head").inner_text()
    page.locator("#events-rows a.seq").nth(2).click()
    page.wait_for_url("**/events/*")
    page.get_by_role("button", name="Sign out").first.click()
    page.wait_for_url("**/login")
    page.goto("/runs")
    page.wait_for_url("**/login?next=%2Fruns")


def test_on_a_phone_the_event_that_was_picked_is_brought_into_view(visit):
    visitor = visit(NOWHERE, alone=True, viewport={"width": 390, "height": 800})
    page = visitor.page
    start(visitor, "Research desk")
    page.locator("#live[data-live=ended]").wait_for()
    page.locator("#events-rows a.seq").nth(3).click()
    page.locator("#inspector [data-shown='4']").wait_for()
    page.wait_for_function("document.getElementById('inspector').getBoundingClientRect().top < innerHeight - 80")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")


def test_cancelling(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "doubtful")
    page.locator("article.review").wait_for()
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_label("Reason").fill("no longer needed")
    page.get_by_role("button", name="Cancel the run").click()
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .badge").first.inner_text() == "Cancelled"
    assert "no longer needed" in page.locator("#panel-head").inner_text()


def test_what_was_typed_and_attached_survives_a_mistake(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    page.goto("/runs/start")
    page.get_by_label("Your request").fill("   ")
    page.get_by_label("Documents to read").set_input_files([NOTES])
    page.get_by_role("button", name="Start the run").click()
    page.get_by_text("The request is empty").first.wait_for()
    assert page.locator("#documents").evaluate("input => input.files.length") == 1
    assert page.locator("#text").evaluate("field => field === document.activeElement")
    page.get_by_label("Your request").fill("What is the deadline?")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    assert "notes.md" in page.locator("#panel-head").inner_text()


def test_the_chosen_theme_stays(visit):
    visitor = visit(color_scheme="light")
    page = visitor.page
    shade = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(shade)
    page.locator(".nav .theme label", has_text="Dark").click()
    dark = page.evaluate(shade)
    assert dark != light
    page.goto("/runs")
    assert page.evaluate(shade) == dark
    assert page.locator("#theme-dark").is_checked()


@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_scrolls_sideways(visit, width):
    visitor = visit(NOWHERE, viewport={"width": width, "height": 900})
    page = visitor.page
    start(visitor, "Research desk", "What does " + "averylongwordwithoutanyplacetobreak" * 20 + " mean?")
    page.locator("#live[data-live=ended]").wait_for()
    run = page.url.partition("?")[0]
    for address in (
        "/",
        "/runs/start",
        "/fabrics",
        "/fabrics/research-desk",
        "/runs",
        "/reviews",
        run,
        f"{run}/events/1",
    ):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_a_form_is_filled_in_and_sent_by_keyboard(visit):
    page = visit(NOWHERE).page
    page.goto("/runs")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("n")
    page.wait_for_url("**/runs/start")
    assert page.evaluate("document.activeElement.id") == "text", "no Tab leads there: it has the focus"
    page.keyboard.type("What is due?")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "submit":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(RUN)
