"""Trusted Types in a real browser: no text becomes elements or a script but what the console itself fetched; what was stopped is reported."""

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
    "eval": "window.eval('1')",
    "function": "new Function('return 1')()",
    "another policy": "trustedTypes.createPolicy('mine', {createHTML: text => text})",
    "a second one": "trustedTypes.createPolicy('fabric', {createHTML: text => text})",
}


def test_no_text_becomes_elements_or_a_script(visit):
    page = visit().page
    for name, tried in TRIES.items():
        said = page.evaluate(f"() => {{ try {{ {tried}; return '' }} catch (error) {{ return error.name }} }}")
        assert said in ("TypeError", "EvalError"), name


def test_what_htmx_fetched_is_put_in_and_what_was_stopped_is_reported(visit):
    visitor = visit("/runs")
    page = visitor.page
    with page.expect_response(lambda answer: answer.url.endswith("/csp-reports")) as reported:
        page.evaluate("() => { try { document.body.innerHTML = 'x' } catch (error) {} }")
    assert reported.value.status == 204
    visitor.complaints.clear()
    fetched = "() => htmx.ajax('GET', '/search?q=nothing', {target: '#notice', swap: 'innerHTML', select: 'h1'})"
    page.evaluate(fetched)
    assert page.locator("#notice h1").inner_text()
    assert visitor.complaints == []
