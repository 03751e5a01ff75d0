"""The notification of a browser: asked for by its button alone, shown in a hidden tab, and not where the browser blocks it."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import NOWHERE, begun
from tests.e2e.reviews.review_scenes import waiting
from tests.e2e.runs.held_scenes import PAYING

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BUTTON = "[data-press=notify]"
BROWSER = """
    window.shown = [];
    window.asked = 0;
    window.Notification = class {
      static permission = "%s";
      static async requestPermission() { window.asked += 1; this.permission = "%s"; return this.permission; }
      constructor(title, options) { window.shown.push([title, options.tag]); }
      close() {}
    };
    Object.defineProperty(document, "hidden", { get: () => true });
"""
"""The browser's own part: a browser without a screen shows no notification, and its tabs are never hidden."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    """A module of its own: nothing else waits there."""
    for found in begun(tmp_path_factory):
        found.publish(PAYING)
        yield found


@pytest.fixture
def opened(visit):
    """Opens Reviews in a browser with a permission, and with the answer of a person who is asked for it."""

    def make(permission: str, answer: str):
        visitor = visit(NOWHERE)
        visitor.page.add_init_script(BROWSER % (permission, answer))
        visitor.page.goto("/reviews")
        visitor.page.locator("#live[data-live=live]").wait_for()
        return visitor

    return make


def test_one_who_allows_it_is_notified_of_what_waits_more(opened, visit, installation):
    visitor = opened("default", "granted")
    page = visitor.page
    assert page.evaluate("window.asked") == 0, "nothing but the button asks"
    page.locator(BUTTON).click()
    page.locator(f"{BUTTON}[aria-pressed=true]", has_text="Notifies this browser").wait_for()
    waiting(visit(NOWHERE).page, installation, "paying")
    page.wait_for_function("() => window.shown.length > 0")
    title, tag = page.evaluate("window.shown[0]")
    assert (title.endswith(" in Reviews"), tag) == (True, "reviews")
    page.locator(BUTTON).click()
    page.locator(f"{BUTTON}[aria-pressed=false]", has_text="Notify me in this browser").wait_for()
    assert visitor.complaints == []


def test_one_who_denies_it_is_not_notified(opened, visit, installation):
    visitor = opened("default", "denied")
    page = visitor.page
    page.locator(BUTTON).click()
    page.locator(f"{BUTTON}[disabled][aria-pressed=false]").wait_for()
    assert "blocks notifications" in page.locator(BUTTON).get_attribute("title")
    before = page.evaluate("document.querySelector('#nav-links [data-route=reviews] .count')?.textContent ?? ''")
    waiting(visit(NOWHERE).page, installation, "paying")
    page.wait_for_function(
        "before => (document.querySelector('#nav-links [data-route=reviews] .count')?.textContent ?? '') !== before",
        arg=before,
    )
    assert page.evaluate("window.shown.length") == 0
    assert visitor.complaints == []


def test_where_the_browser_blocks_it_the_button_says_so(opened):
    visitor = opened("denied", "denied")
    page = visitor.page
    page.locator(f"{BUTTON}[disabled]").wait_for()
    assert page.evaluate("window.asked") == 0
    assert visitor.complaints == []
