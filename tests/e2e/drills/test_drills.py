"""The drills in a real browser: the matrix fills while they are done, by a worker; a drill is stepped through, leads to its run, and becomes a test;
scenarios are found, played and kept; schedules are made; all of it is stopped.
"""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.e2e.conftest import NOWHERE, begun
from tests.e2e.installation import RUN
from tests.e2e.runs.test_first_run import start
from tests.e2e.scenes import FABRIC, FABRICS

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(begun, scope="module")
PAGE = "/drills/coverage?fabric=small-model"
OPEN = '.mcell:is([data-v="queued"], [data-v="running"])'
DESK = "/drills/coverage?fabric=research-desk"
DRILL = re.compile(r"/drills/[0-9a-f-]{36}")
UNSAFE = "#cell-unsafe_output-interactive"
SOON_MS = 6_000
"""Less than the 15 seconds of the frame's own poll: what ends is gone from the page with the board."""
LIMITED = "A few 429 with Retry-After, then all is well"


def opened(page, words, cell):
    """Has one cell drilled from the coverage and opens its drill: the page is there with its script."""
    page.goto(DESK)
    page.get_by_role("button", name=f"Drill {words}").click()
    page.locator(f'{cell}[data-v="pass"] a').click()
    page.wait_for_url(DRILL)


def at_moment(page, number):
    """Waits until the player stands there."""
    page.locator(".moment .at", has_text=f"moment {number} of").wait_for()


def now_line(page):
    """Where the picture's line for the moment stands."""
    return float(page.locator(".ghosts .g-now").get_attribute("x1").removesuffix("%"))


def flash(page, sentence):
    """Waits until the page says what was done, or why not."""
    page.locator(".banner.flash", has_text=sentence).first.wait_for()


def test_the_matrix_fills_while_it_is_looked_at(visit, installation):
    visitor = visit(PAGE)
    page = visitor.page
    page.get_by_text("No cell has a drill yet").wait_for()
    page.keyboard.press("R")
    page.get_by_text("24 cells are being drilled in simulated time.").wait_for()
    page.evaluate("window.sameDocument = true")
    page.wait_for_function(
        "selector => !document.querySelector(selector) && !document.querySelector('[data-v=never]')", arg=OPEN
    )
    assert page.evaluate("window.sameDocument"), "it filled without being loaded again"
    assert page.locator(".mcell").count() == 24
    assert page.locator(".banner", has_text="A drill is running").count() == 0
    page.locator("#last tbody tr", has_text="24 pass").first.wait_for(timeout=SOON_MS)
    page.locator("#nav-links a[href='/drills']:not(:has(.count))").wait_for(timeout=SOON_MS)
    page.locator("#stop.ghost").wait_for(timeout=SOON_MS)
    page.locator("#drill-cell-provider_failure-interactive").focus()
    for key, cell in (
        ("ArrowRight", "provider_failure-batch"),
        ("ArrowDown", "schema_grounding_fail-batch"),
        ("End", "schema_grounding_fail-high_stakes"),
        ("ArrowRight", "schema_grounding_fail-high_stakes"),
        ("ArrowLeft", "schema_grounding_fail-batch"),
        ("ArrowUp", "provider_failure-batch"),
    ):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"drill-cell-{cell}", key
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.value") == "provider_failure"
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
    page = visit("/drills/coverage?fabric=document-review", java_script_enabled=False).page
    page.get_by_role("button", name="Drill unsafe output, high-stakes regulated").click()
    page.get_by_text("One cell is being drilled in simulated time.").wait_for()
    while page.locator(OPEN).count():
        page.locator("#live").click()
    page.locator("#cell-unsafe_output-high_stakes a").wait_for()
    assert page.locator('.mcell[data-v="never"]').count() == 23


def test_they_are_a_place_of_their_own(visit):
    page = visit().page
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/drills")
    assert page.locator('#nav-links a[aria-current="page"]').inner_text().startswith("Drills")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator("html").evaluate("html => html.scrollWidth") <= 390


def test_the_player_goes_by_keys_and_plays_by_itself_and_each_moment_has_an_address(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    opened(page, "unsafe output, low-latency interactive", UNSAFE)
    page.keyboard.press("Home")
    at_moment(page, 1)
    page.wait_for_url("**?at=1")
    first, said = now_line(page), page.locator(".moment .what").inner_text()
    page.keyboard.press("ArrowRight")
    at_moment(page, 2)
    assert page.locator(".moment .what").inner_text() != said
    page.keyboard.press("Space")
    page.locator('#player-play[aria-pressed="true"]', has_text="Pause").wait_for()
    assert page.locator("#player-play use").get_attribute("href").endswith("#i-pause")
    at_moment(page, 4)
    page.keyboard.press("Space")
    page.locator('#player-play[aria-pressed="false"]', has_text="Play").wait_for()
    assert page.locator("#player-play use").get_attribute("href").endswith("#i-play")
    page.keyboard.press("End")
    page.locator("#player-last[aria-disabled]").wait_for()
    assert now_line(page) > first
    assert page.locator("tr[aria-current=step]").count() == 1
    stands = page.locator(".moment").inner_text()
    page.reload()
    assert page.locator(".moment").inner_text() == stands
    assert visitor.complaints == []


def test_no_key_is_lost_while_an_answer_of_the_player_is_on_its_way(visit):
    page, held = visit(NOWHERE).page, []
    # Before the page is there: an open page learns a little later that a test looks at its requests, and does not report one sent by then.
    page.route("**/drills/*?at=2", lambda route: held.append(route))  # noqa: PLW0108  # Playwright marks what it is given.
    page.route("**/drills/*?at=5", lambda route: None)  # Never answered.
    opened(page, "unsafe output, low-latency interactive", UNSAFE)
    page.keyboard.press("Home")
    at_moment(page, 1)
    with page.expect_request("**/drills/*?at=2"):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    at_moment(page, 1)
    held.pop().continue_()
    at_moment(page, 4)
    page.wait_for_url("**?at=4")
    # A person is where they clicked meanwhile, whatever comes of what they asked for before.
    with page.expect_request("**/drills/*?at=5"):
        page.keyboard.press("ArrowRight")
    page.locator("#player-first").click()
    at_moment(page, 1)
    page.wait_for_url("**?at=1")


def test_a_drill_that_ends_while_it_is_looked_at_stands_still_from_then_on(visit, installation):
    visitor = visit(NOWHERE)
    page = visitor.page
    opened(page, "unsafe output, low-latency interactive", UNSAFE)
    worker = installation.worker()
    os.kill(worker, signal.SIGSTOP)  # So that the page is there before the drill ends.
    try:
        page.get_by_role("button", name="Rerun with the same seed").click()
        page.locator("#live[data-live=live]").wait_for()
        page.get_by_text("The chains appear when it ends").wait_for()
    finally:
        os.kill(worker, signal.SIGCONT)
    page.locator("#player-play").wait_for()
    page.locator("#live[data-live=ended]").wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/live") else None)
    page.keyboard.press("Home")
    at_moment(page, 1)
    page.keyboard.press("Space")
    for number in (2, 3, 4):  # It takes longer than the page's own question would.
        at_moment(page, number)
    assert asked == []
    assert visitor.complaints == []


def test_a_drill_leads_to_its_run_and_back_to_itself_as_a_test_and_as_a_report(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    opened(page, "provider failure, long-running batch", "#cell-provider_failure-batch")
    title = page.locator("h1").inner_text()
    page.get_by_role("link", name="Open run").click()
    page.wait_for_url(RUN)
    mark = page.locator("#drill-mark")
    assert "virtual clock" in mark.inner_text()
    assert page.locator('#nav-links a[aria-current="page"]').inner_text().startswith("Drills")
    mark.get_by_role("link", name="Undisturbed").click()
    page.locator('#drill-mark a[aria-current="page"]', has_text="Undisturbed").wait_for()
    page.get_by_role("link", name="open the drill").click()
    page.get_by_role("heading", name=title).wait_for()
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Copy as pytest").click()
    page.locator("#as-pytest", has_text="Copied").wait_for()
    assert "def test_provider_failure_batch" in (copied := page.evaluate("navigator.clipboard.readText()"))
    page.locator("#reports").click()
    page.get_by_role("link", name="Test for pytest").click()
    page.get_by_role("heading", name="This drill as a test").wait_for()
    assert page.locator("#pytest-text").inner_text().strip() == copied.strip()
    page.get_by_role("link", name="Open the drill").click()
    page.locator("#reports").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="JSON", exact=True).click()
    (cell,) = json.loads(found.value.path().read_text())["cells"]
    assert (cell["failure"], cell["tier"], cell["verdict"]) == ("provider_failure", "batch", "pass")
    assert f"seed {cell['seed']}" in page.locator("#drill").inner_text()
    assert visitor.complaints == []


def test_a_scenario_is_found_changed_tried_and_played(visit):
    visitor = visit("/scenarios?fabric=research-desk")
    page = visitor.page
    page.keyboard.press("/")
    page.keyboard.type("retry-after")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=retry-after**")
    page.get_by_role("link", name=LIMITED).click()
    page.locator("#p-times").fill("3")
    for tier in ("Low-latency interactive", "High-stakes regulated"):
        page.get_by_role("checkbox", name=tier).uncheck()
    page.get_by_role("button", name="Dry run").click()
    dry = page.locator("#dry")
    assert "Long-running batch" in dry.inner_text()
    assert dry.locator(".would-list li").count() >= 1
    assert page.locator("#p-times").input_value() == "3"
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(DRILL)
    page.get_by_text("The run followed the table, step by step.").wait_for()
    assert page.locator(".drill-side dd", has_text="3").count() >= 1
    page.locator(".lede a", has_text="rate-limit-then-healthy").click()
    page.locator("#scenario-drills tr[id^=d-]", has_text="Pass").wait_for()
    assert visitor.complaints == []


def test_what_failed_in_a_real_run_is_kept_as_a_scenario(visit, installation):
    title, description, options, budget = FABRICS["off-schema"]
    source = FABRIC.format(name="off-schema", title=title, description=description, options=options, budget=budget)
    installation.publish(source)
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "Off schema")
    page.locator("#live[data-live=ended]").wait_for()
    assert page.locator("#panel-head .badge").first.inner_text() == "Aborted"
    run = f"/runs/{page.url.partition('/runs/')[2].partition('?')[0]}"
    page.locator("#run-more summary").click()
    page.get_by_role("link", name="Save as a scenario").click()
    page.get_by_role("heading", name="Repeated failures").wait_for()
    page.get_by_label("Name").fill("off-schema-again")
    page.get_by_role("button", name="Save it").click()
    flash(page, "off-schema-again is in the library")
    assert page.get_by_role("link", name="Open the run").get_attribute("href") == run
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(DRILL)
    page.locator("#live[data-live=ended], #rerun").first.wait_for()
    assert page.locator("#player-play").is_visible()
    assert visitor.complaints == []


def test_a_schedule_is_made_paused_and_deleted(visit):
    visitor = visit("/drills/schedules")
    page = visitor.page
    page.get_by_label("Fabric", exact=True).select_option("research-desk")
    page.get_by_label("When").fill("every night")
    page.get_by_role("button", name="Make the schedule").click()
    page.locator("#e-cron").wait_for()
    page.get_by_label("When").fill("0 3 * * *")
    page.get_by_role("button", name="Make the schedule").click()
    flash(page, "The schedule is made")
    row = page.locator("tr[id^=s-]")
    row.get_by_role("button", name="Pause").click()
    flash(page, "The schedule is paused")
    row.get_by_text("Paused").wait_for()
    row.get_by_role("link", name="research-desk").click()
    page.locator("#delete-box summary").click()
    page.get_by_role("button", name="Yes, delete the schedule").click()
    flash(page, "The schedule is deleted")
    assert row.count() == 0
    assert visitor.complaints == []


def test_nothing_is_drilled_while_the_drill_stop_is_pulled_and_who_asks_is_told_by_whom_and_why(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    opened(page, "unsafe output, low-latency interactive", UNSAFE)
    drill = page.url
    before = visit(drill).page  # It does not know yet.
    page.locator("#stop").click()
    page.get_by_role("button", name="Stop all drills").click()
    page.locator("#e-reason").wait_for()
    page.get_by_label("Reason").fill("The provider asked for quiet.")
    page.get_by_role("button", name="Stop all drills").click()
    flash(page, "Drills are stopped.")
    page.get_by_role("heading", name="Drills are stopped").wait_for()
    try:
        before.get_by_role("button", name="Rerun with the same seed").click()
        flash(before, "owner stopped all drills on")
        flash(before, "The provider asked for quiet.")
        assert before.get_by_role("button", name="Run all 24").is_disabled()
        page.goto(drill)
        assert page.get_by_role("button", name="Rerun with the same seed").is_disabled()
    finally:
        page.locator("#stop").click()
        page.get_by_label("Reason").fill("It is quiet again.")
        page.get_by_role("button", name="Allow drills").click()
    flash(page, "Drills are allowed again")
    page.goto(drill)
    page.get_by_role("button", name="Rerun with the same seed").click()
    page.wait_for_url(DRILL)
    page.locator("#player-play").wait_for()
    assert visitor.complaints == []


def test_without_a_script_the_player_is_a_list_of_addresses(visit):
    page = visit(DESK, java_script_enabled=False).page
    page.get_by_role("button", name="Drill no progress, high-stakes regulated").click()
    while page.locator(OPEN).count():
        page.locator("#live").click()
    page.locator("#cell-semantic_no_progress-high_stakes a").first.click()
    page.locator("#player-first").click()
    at_moment(page, 1)
    first = now_line(page)
    page.locator("#player-next").click()
    at_moment(page, 2)
    page.locator("#player-last").click()
    page.locator("#player-last[aria-disabled]").wait_for()
    assert now_line(page) > first
    assert not page.locator("#player-play").is_visible()


def test_without_a_script_a_scenario_is_tried_and_the_drill_stop_is_pulled_and_released(visit):
    page = visit("/scenarios/rate-limit-then-healthy?fabric=research-desk", java_script_enabled=False).page
    page.get_by_role("button", name="Dry run").click()
    page.locator("#dry .would-list li").first.wait_for()
    page.get_by_role("link", name="Stop drills").click()
    page.get_by_label("Reason").fill("Quiet.")
    page.get_by_role("button", name="Stop all drills").click()
    page.get_by_role("heading", name="Drills are stopped").wait_for()
    page.get_by_label("Reason").fill("Enough.")
    page.get_by_role("button", name="Allow drills").click()
    page.get_by_role("heading", name="Drills enabled").wait_for()
