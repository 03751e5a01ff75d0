"""The overview, the list of reviews and the fabric pages in a real browser, on a new installation and after its first runs.

The list of reviews follows, new ones wait behind a bar, and what was answered elsewhere says so where it stands.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from fabric.services.fabrics.templates import SAMPLES
from tests.e2e.conftest import NOWHERE, begun
from tests.e2e.decided import decided
from tests.e2e.installation import RUN
from tests.e2e.runs.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(begun, scope="module")


def answer(page) -> str:
    return page.locator("#overview-answer").inner_text()


SHOWN = """() => {
  const shown = document.getElementById("overview").cloneNode(true);
  shown.querySelectorAll("time").forEach((time) => time.remove());  // They grow older by themselves.
  return shown.innerHTML;
}"""


def test_the_three_steps_lead_to_a_run_that_one_sees_happen(visit):
    visitor = visit()
    page = visitor.page
    page.locator("#live[data-live=live]").wait_for()
    assert answer(page) == "Nothing is wrong"
    steps = page.locator("#card-steps")
    assert steps.get_by_text("(done)").count() == 1
    steps.get_by_role("link", name="Start", exact=True).click()
    page.wait_for_url("**/start?fabric=*")
    assert page.get_by_label("Your request").input_value()
    assert page.get_by_text("Read the example’s documents").locator("b").all_inner_texts() == ["minutes.md", "offer.md"]
    # A second tab looks on: what happens is seen there without a reload.
    watching = visitor.context.new_page()
    watching.goto("/")
    watching.evaluate("document.body.dataset.same = 'yes'")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    watching.locator("#step-3").wait_for()
    watching.locator("#card-steps li[data-tone=ok]").nth(2).wait_for()
    watching.get_by_text("1 ended in the last hour").wait_for()
    assert watching.evaluate("document.body.dataset.same") == "yes"
    watching.locator("#step-3").click()
    watching.wait_for_url(page.url)
    shown = watching.locator("#panel-head").inner_text()
    assert "minutes.md" in shown
    assert re.search(r"\$0\.01\d+ spent", watching.locator("main").inner_text())
    watching.get_by_text("loop detector").first.wait_for()
    assert visitor.complaints == []


# -- the list of reviews, before the first one -----------------------------------------------------------------------

BADGE_SAID = """
  window.said = [];
  const look = () => {
    const badge = document.getElementById("live");
    if (badge?.dataset.live === "live") window.said.push(badge.textContent);
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
"""


@pytest.mark.parametrize("path", ["/", "/runs", "/reviews"])
def test_a_live_badge_never_says_what_is_meant_for_who_has_no_script(visit, path):
    page = visit(NOWHERE).page
    page.add_init_script(BADGE_SAID)
    page.goto(path)
    page.locator("#live[data-live=live]").wait_for()
    told = page.evaluate("window.said")
    assert told
    assert [said for said in told if "reload" in said or "As of" in said] == []


def test_the_list_follows_without_a_row_that_jumps(visit):
    looking, other = visit(NOWHERE), visit(NOWHERE)
    page, run = looking.page, other.page
    page.goto("/reviews")
    page.locator("#live[data-live=live]").wait_for()
    page.get_by_text("Nothing waits for you").wait_for()
    start(other, "doubtful")
    run.locator("article.review").wait_for()
    bar = page.locator("#new-rows a")
    bar.wait_for()
    assert bar.inner_text().strip() == "1 new"
    assert page.get_by_text("Nothing waits for you").is_visible()
    bar.click()
    row = page.locator("#reviews-list tr[id^=ask-]")
    row.get_by_text("unanswered by then: rejected by the system").wait_for()
    page.locator("#live[data-live=live]").wait_for()
    row.locator("a.cell").focus()
    decided(run, "approve")
    page.locator("#reviews-list tr[id^=ask-][data-seq^=answered]").get_by_text("approved by owner").wait_for()
    assert page.evaluate("document.activeElement.closest('tr')?.dataset.seq").startswith("answered")
    assert looking.complaints == []


def test_without_script_the_badge_says_as_of_when_and_loads_again(visit):
    page = visit(NOWHERE, java_script_enabled=False).page
    page.goto("/reviews")
    assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC, reload", page.locator("#live").text_content() or "")
    page.locator("#live").click()
    page.wait_for_url("**/reviews")


# -- what has happened -----------------------------------------------------------------------------------------------


def test_paused_nothing_moves_and_going_on_catches_up(visit):
    visitor = visit()
    page = visitor.page
    page.locator("#live[data-live=live]").wait_for()
    page.locator("#live-pause").click()
    page.locator("#live[data-live=paused]").wait_for()
    before = page.evaluate(SHOWN)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    other = visit(NOWHERE)
    start(other, "doubtful")
    other.page.locator("article.review").wait_for()
    assert page.evaluate(SHOWN) == before
    assert [url for url in asked if "overview" in url] == []
    page.locator("#live-pause").click()
    page.locator("#card-reviews .next-up").wait_for()
    page.locator("#live[data-live=live]").wait_for()
    assert visitor.complaints == []


def test_a_server_that_is_away_is_said_by_the_badge_alone(visit):
    visitor = visit()
    page = visitor.page
    page.locator("#live[data-live=live]").wait_for()
    was = answer(page)
    visitor.context.set_offline(True)
    page.locator("#live[data-live=stale]").wait_for()
    assert (answer(page), page.locator("#notice").inner_text()) == (was, "")
    visitor.context.set_offline(False)
    page.locator("#live[data-live=live]").wait_for()


def test_it_answers_without_javascript(visit):
    page = visit(java_script_enabled=False).page
    assert answer(page)
    page.locator("#live").click()
    assert answer(page)
    page.get_by_role("link", name="Fabrics").first.click()
    page.get_by_role("link", name="Research desk").click()
    for tab in ("Topology", "Stages and gates", "Budgets and limits", "Decision table", "YAML", "Versions"):
        page.locator(".tabs").get_by_role("link", name=tab).click()
        assert page.locator(".tabs [aria-current=page]").inner_text().startswith(tab)


@pytest.mark.parametrize("width", [1440, 390])
def test_an_address_points_at_a_cell_of_the_decision_table(visit, width):
    """A run's inspector links to them; without script, and beside the column that stays where it is."""
    page = visit(NOWHERE, viewport={"width": width, "height": 700}, java_script_enabled=False).page
    page.goto("/fabrics/research-desk/r1?tab=table#cell-unsafe_output-high_stakes")
    assert page.locator(".tabs [aria-current=page]").inner_text().startswith("Decision table")
    cell = page.locator("td:target")
    assert cell.get_attribute("id") == "cell-unsafe_output-high_stakes"
    expect(cell).to_be_in_viewport()
    head, box = page.locator("#row-unsafe_output").bounding_box(), cell.bounding_box()
    assert head is not None
    assert box is not None
    assert box["x"] >= head["x"] + head["width"] - 1
    plain = page.locator("#cell-unsafe_output-batch")
    assert cell.evaluate(BACKGROUND) != plain.evaluate(BACKGROUND)
    page.goto("/fabrics/research-desk/r1?tab=table#cell-infinite_tool_loop-interactive")
    assert page.locator("td:target").get_attribute("id") == "cell-infinite_tool_loop-interactive"


BACKGROUND = "element => getComputedStyle(element).backgroundColor"


def test_a_page_that_asks_every_second_does_not_dim_its_button(visit):
    page = visit().page
    with page.expect_request("**/overview/live"):
        page.locator("#live[data-live=live]").wait_for()
    page.evaluate("document.getElementById('overview').classList.add('htmx-request')")
    assert page.locator("#overview-start").evaluate("element => getComputedStyle(element).opacity") == "1"


def test_the_yaml_is_downloaded(visit):
    page = visit(NOWHERE).page
    page.goto("/fabrics/research-desk")
    with page.expect_download() as download:
        page.locator(".page-head").get_by_role("link", name="YAML").click()
    assert download.value.suggested_filename == "research-desk-r1.yaml"
    assert download.value.path().read_text() == (SAMPLES / "research-desk.yaml").read_text()


@pytest.mark.parametrize("width", [1440, 390])
def test_no_part_of_a_fabric_scrolls_the_page_sideways(visit, width):
    page = visit(viewport={"width": width, "height": 900}).page
    for tab in ("agents", "topology", "stages", "limits", "table", "yaml", "versions"):
        page.goto(f"/fabrics/document-review?tab={tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
    page.goto("/fabrics")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert re.search("document-review", page.content())
