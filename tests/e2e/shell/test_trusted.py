"""Trusted Types in a real browser: no text becomes elements or a script but what the console itself fetched."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route

from tests.e2e.conftest import NOWHERE

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TRIES = {
    "innerHTML": "document.body.innerHTML = '<b>x</b>'",
    "insertAdjacentHTML": "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
    "DOMParser": "new DOMParser().parseFromString('<b>x</b>', 'text/html')",
    "srcdoc": "document.createElement('iframe').srcdoc = '<b>x</b>'",
    "script address": "document.createElement('script').src = 'https://evil.example/x.js'",
    "script text": "document.createElement('script').text = 'alert(1)'",
}
"""Without eval: what a debugger evaluates may use it."""

BEGUN = "document.querySelectorAll('[data-htmx-powered]').length"
"""How many elements htmx looks after."""
LOADED = """() => new Promise((done) => {
  const look = () => (document.readyState !== "loading" && window.htmx ? setTimeout(() => setTimeout(done)) : setTimeout(look));
  look();
})"""
"""The page is parsed, and htmx would have begun."""


def test_no_text_becomes_elements_or_a_script(visit):
    page = visit().page
    for name, tried in TRIES.items():
        said = page.evaluate(f"() => {{ try {{ {tried}; return '' }} catch (error) {{ return error.name }} }}")
        assert said == "TypeError", name


def test_htmx_begins_when_it_has_the_policy(visit):
    """The browser refuses what comes in on a socket before, and it is lost."""
    page = visit(NOWHERE).page
    waiting: list[Route] = []

    def holds(route: Route) -> None:
        waiting.append(route)

    page.route(re.compile("/shell/trusted"), holds)
    with page.expect_request(re.compile("/shell/trusted")):
        page.goto("/runs", wait_until="commit")
    page.evaluate(LOADED)
    assert page.evaluate(BEGUN) == 0
    waiting[0].continue_()
    page.locator("[data-htmx-powered]").first.wait_for(state="attached")
