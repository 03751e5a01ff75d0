"""The list of questions in a real browser: it follows, new ones wait behind a bar, and what was answered elsewhere says so where it stands."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import begun
from tests.e2e.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

installation = pytest.fixture(begun, scope="module")

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
    page = visit().page
    page.add_init_script(BADGE_SAID)
    page.goto(path)
    page.locator("#live[data-live=live]").wait_for()
    told = page.evaluate("window.said")
    assert told
    assert [said for said in told if "reload" in said or "As of" in said] == []


def test_the_list_follows_without_a_row_that_jumps(visit):
    looking, other = visit(), visit()
    page, run = looking.page, other.page
    page.goto("/reviews")
    page.locator("#live[data-live=live]").wait_for()
    page.get_by_text("Nothing waits for you").wait_for()
    start(other, "doubtful")
    run.locator("article.question").wait_for()
    bar = page.locator("#new-rows a")
    bar.wait_for()
    assert bar.inner_text().strip() == "1 new"
    assert page.get_by_text("Nothing waits for you").is_visible()
    bar.click()
    row = page.locator("#reviews-list tbody tr")
    row.get_by_text("unanswered by then: rejected by the system").wait_for()
    page.locator("#live[data-live=live]").wait_for()
    row.locator("a.cell").focus()
    run.get_by_role("button", name=re.compile("^Approve")).click()
    row.get_by_text("approved by owner").wait_for()
    assert row.get_attribute("data-seq") == "answered"
    assert page.evaluate("document.activeElement.closest('tr')?.dataset.seq") == "answered"
    assert looking.complaints == []


def test_without_script_the_badge_says_as_of_when_and_loads_again(visit):
    page = visit(java_script_enabled=False).page
    page.goto("/reviews")
    assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC, reload", page.locator("#live").text_content() or "")
    page.locator("#live").click()
    page.wait_for_url("**/reviews")
