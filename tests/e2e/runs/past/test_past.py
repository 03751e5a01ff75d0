"""A run's past in a real browser: the range by keyboard, the address behind it, nothing live, and links without a script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import NOWHERE
from tests.e2e.runs.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_range_goes_through_the_events_by_keyboard(visit):
    visitor = visit(NOWHERE)
    page = visitor.page
    start(visitor, "research-desk")
    page.locator("#live[data-live=ended]").wait_for()
    page.get_by_role("link", name="Step through").click()
    last = int(page.locator("#as-of").get_attribute("max") or 0)
    shown = page.locator("#past")
    expect(shown).to_have_attribute("data-event", str(last))
    page.locator("#as-of").focus()
    for key, event in (("ArrowLeft", last - 1), ("Home", 1), ("ArrowRight", 2), ("End", last)):
        page.keyboard.press(key)
        expect(shown).to_have_attribute("data-event", str(event))
        expect(page).to_have_url(re.compile(rf"as_of={event}$"))
        expect(page.locator("#as-of")).to_be_focused()
        expect(page.locator(".scrub-says")).to_contain_text(f"As of event {event} of {last}")
    page.reload()
    expect(shown).to_have_attribute("data-event", str(last))
    assert page.locator("[hx-ws\\:connect]").count() == 0
    page.get_by_role("link", name="Back to now").click()
    page.wait_for_url(lambda url: "as_of" not in url)
    assert visitor.complaints == []


def test_without_a_script_its_links_and_its_button_do(visit):
    watching = visit(NOWHERE)
    start(watching, "research-desk")
    watching.page.locator("#live[data-live=ended]").wait_for()
    page = visit(NOWHERE, java_script_enabled=False).page
    page.goto(f"{watching.page.url.partition('?')[0]}?as_of=5")
    for name, event in (("Next", 6), ("Previous", 5), ("First", 1)):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("#past")).to_have_attribute("data-event", str(event))
    page.locator("#as-of").fill("7")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#past")).to_have_attribute("data-event", "7")
