"""The drills in a real browser: the matrix fills while they are done, by a worker, and one of them is run again."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import begun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(begun, scope="module")
PAGE = "/drills?fabric=small-model"
OPEN = '.mcell:is([data-v="queued"], [data-v="running"])'


def test_the_matrix_fills_while_it_is_looked_at(visit, installation):
    visitor = visit(PAGE)
    page = visitor.page
    page.get_by_text("24 cells were never drilled").wait_for()
    page.keyboard.press("R")
    page.get_by_text("24 cells are drilled in virtual time.").wait_for()
    page.evaluate("window.sameDocument = true")
    page.wait_for_function(
        "selector => !document.querySelector(selector) && !document.querySelector('[data-v=never]')", arg=OPEN
    )
    assert page.evaluate("window.sameDocument"), "it filled without being loaded again"
    assert page.locator(".mcell").count() == 24
    assert page.locator(".banner", has_text="A drill is running").count() == 0
    page.locator("#drill-cell-provider_failure-batch").click()
    page.get_by_role("heading", name="Provider failure × long-running batch").wait_for()
    page.get_by_role("button", name="Rerun with the same seed").click()
    page.locator("#drill tr[id^=d-]").wait_for()
    page.locator("#player-play").wait_for()
    seeds = installation.stored("SELECT seed FROM drills_drill WHERE failure = 'provider_failure' AND tier = 'batch'")
    assert len(seeds) == 2
    assert seeds[0] == seeds[1]
    assert visitor.complaints == []


def test_without_a_script_they_are_asked_for_and_shown_by_loading_again(visit, installation):
    page = visit("/drills?fabric=document-review", java_script_enabled=False).page
    page.get_by_role("button", name="Drill unsafe output, high-stakes regulated").click()
    page.get_by_text("One cell is drilled in virtual time.").wait_for()
    while page.locator(OPEN).count():
        page.locator("#live").click()
    assert page.locator("#cell-unsafe_output-high_stakes a").count() == 1
    assert page.locator('.mcell[data-v="never"]').count() == 23


def test_they_are_a_place_of_their_own(visit):
    page = visit().page
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/drills")
    assert page.locator('#nav-links a[aria-current="page"]').inner_text().startswith("Drills")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator("html").evaluate("html => html.scrollWidth") <= 390
