"""A member writes in a conversation, by keyboard alone: the message waits for the turn in flight, and the next speaker has read it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.accessibility import findings
from tests.e2e.conftest import NOWHERE
from tests.e2e.decided import decided
from tests.e2e.runs.saying_scenes import TALK
from tests.e2e.runs.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WORDS = "The VAT is 23 percent, not 21."


def held(installation, visit, **options):
    """A run whose first turn waits for a person."""
    installation.publish(TALK)
    visitor = visit(NOWHERE, **options)
    start(visitor, "billing-desk")
    return visitor


def read(page: Page) -> None:
    """Lets the turn in flight go on, and looks at what the next speaker was told."""
    decided(page, "approve")
    page.locator("#panel-talk").get_by_role("link", name="read by writer in turn 2").wait_for()
    page.locator("#live[data-live=ended]").wait_for()
    expect(page.locator("#say")).to_be_hidden()


def test_what_is_said_by_keyboard_waits_for_the_turn_in_flight_and_the_next_speaker_has_heard_it(installation, visit):
    visitor = held(installation, visit)
    page = visitor.page
    page.locator("article.review").wait_for()
    page.locator("#main").focus()
    page.keyboard.press("m")
    expect(page.locator("#say-text")).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#e-say")).to_contain_text("A message without words says nothing")
    expect(page.locator("#say-text")).to_be_focused()
    page.keyboard.type(WORDS)
    page.keyboard.press("Control+Enter")
    said = page.locator("#panel-talk li")
    expect(said).to_contain_text(WORDS)
    expect(said).to_contain_text("waits for the turn in flight (sums)")
    expect(said).to_contain_text("owner")
    expect(page.locator("#say-text")).to_have_value("")
    assert findings(page) == []
    read(page)
    page.locator("#panel-talk").get_by_role("link", name="read by writer in turn 2").click()
    page.wait_for_url(re.compile(r"/events/\d+"))
    expect(page.locator("main")).to_contain_text(f"owner, a person, says: {WORDS}")
    page.go_back()
    page.get_by_role("link", name="Graph").click()
    page.locator("#panel-graph").get_by_role("rowheader", name="owner, a person").wait_for()
    assert page.locator("#panel-graph .said-mark").count() == 1
    assert visitor.complaints == []


def test_it_is_said_without_a_script_too(installation, visit):
    visitor = held(installation, visit, java_script_enabled=False)
    page = visitor.page
    while page.locator("article.review").count() == 0:
        page.locator("#live").click()
    page.get_by_label("Say something").fill(WORDS)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".flash")).to_contain_text("Your message is sent")
    while page.locator("#panel-talk", has_text="waits for the turn in flight (sums)").count() == 0:
        page.locator("#live").click()
    assert WORDS in page.locator("#panel-talk").inner_text()
    assert visitor.complaints == []
