"""Trusted Types in a real browser: no text becomes elements or a script but what the console itself fetched."""

from __future__ import annotations

import pytest

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


def test_no_text_becomes_elements_or_a_script(visit):
    page = visit().page
    for name, tried in TRIES.items():
        said = page.evaluate(f"() => {{ try {{ {tried}; return '' }} catch (error) {{ return error.name }} }}")
        assert said == "TypeError", name
