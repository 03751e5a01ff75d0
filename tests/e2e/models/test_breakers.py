"""The page of circuit breakers in a real browser: one that opens is seen where it stands, with how long its endpoint wants to be left alone, and is reset with a reason."""

from __future__ import annotations

import re

import pytest

from tests.e2e.conftest import NOWHERE
from tests.e2e.runs.test_first_run import start
from tests.fabric.services.world import SMALL

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LIMITED = (
    SMALL.replace("name: small", "name: limited")
    .replace("title: A small fabric", "title: Limited")
    .replace(
        "    provider: scripted\n",
        "    provider: scripted\n    options: {fail: {cause: rate_limit, status: 429, retry_after_s: 1800}}\n",
    )
    .replace(
        "1000000}\n",
        "1000000}\n  breakers: [{scope: fabric, signals: [{names: [rate_limit], mode: consecutive, threshold: 1}]}]\n",
        1,
    )
)
"""Its endpoint asks to be left alone for half an hour; its breaker's own cooldown is a minute."""


def answers(page, sentence):
    """Waits until that is the page's answer."""
    page.locator("#breakers-answer", has_text=sentence).wait_for()


def test_one_that_opens_is_seen_without_a_reload_and_reset_with_a_reason(visit, installation):
    installation.publish(LIMITED)
    looking, other = visit(NOWHERE), visit(NOWHERE)
    page = looking.page
    page.goto("/models/breakers")
    page.locator("#live[data-live=live]").wait_for()
    answers(page, "All closed")
    page.evaluate("document.body.dataset.same = 'yes'")
    for _ in range(2):  # The first is told 429; the call after it opens the breaker, and is refused.
        start(other, "limited")
        other.page.locator("#live[data-live=ended]").wait_for()
    answers(page, "One breaker is open")
    row = page.locator("tr", has_text="Fabric limited")
    said = row.locator(".c-state").inner_text()
    assert re.search(r"probe in (2\d|30) m( \d+ s)?, as its Retry-After asks", " ".join(said.split())), said
    assert page.evaluate("document.body.dataset.same") == "yes"
    row.get_by_role("link").click()
    page.get_by_text("its endpoint asked for more: no probe before").wait_for()
    button = page.get_by_role("button", name=re.compile("Reset"))
    button.click()
    assert page.locator("[aria-invalid=true]").get_attribute("id") == "reason-reset"
    page.locator("#reason-reset").fill("The provider raised our limit.")
    button.click()
    page.get_by_text("The provider raised our limit.").first.wait_for()
    watching = other.page
    watching.goto("/models/breakers")
    answers(watching, "All closed")
    assert looking.complaints == other.complaints == []
