"""The page of a review about a call: another call in its place, and what is wrong with it where it is written."""

from __future__ import annotations

import html
import re

import pytest

from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from tests.console.pages.reviews.test_page import decisions, send, text_of, typed
from tests.fabric.services.world import REPLACEABLE, ran


@pytest.fixture
def payment(actor, paying):
    return list_open_reviews(actor, ran(actor, paying).id)[0]


@pytest.fixture
def replaceable(actor):
    return list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=REPLACEABLE).name).id)[0]


@pytest.mark.parametrize("scripted", [False, True])
def test_another_call_is_made_in_place_of_the_one_that_is_shown(browser, replaceable, scripted):
    page = browser.get(f"/reviews/{replaceable.id}").content.decode()
    assert re.search(r'<select[^>]*name="tool"', page)
    assert '<option value="calculator">' in page
    wrong = send(browser, replaceable, "edit", tool="calculator", instead='{"sum": ', scripted=scripted, **typed())
    assert wrong.status_code == 422
    assert "JSON" in text_of(wrong)
    wrong = send(browser, replaceable, "edit", tool="calculator", instead='{"sum": 4}', scripted=scripted, **typed())
    assert wrong.status_code == 422
    shown = html.unescape(wrong.content.decode())
    assert '<option value="calculator" selected>' in shown
    assert re.search(r'name="instead"[^>]*aria-invalid="true"', shown)
    assert '{"sum": 4}</textarea>' in shown
    assert decisions(replaceable) == []
    done = send(browser, replaceable, "edit", tool="calculator", instead='{"expression": "2 * 45"}', **typed())
    assert done.status_code in (200, 302)
    (body,) = decisions(replaceable)
    assert b'"tool":"calculator"' in body
    assert b'"edited":{"expression":"2 * 45"}' in body
    assert "calculator is called instead" in text_of(browser.get(f"/reviews/{replaceable.id}"))


def test_another_tool_goes_with_no_approval(browser, replaceable):
    refused = send(browser, replaceable, "approve", tool="calculator", instead="{}", **typed())
    assert refused.status_code == 422
    assert "pick Edit to call it, or pick no tool" in text_of(refused)
    assert decisions(replaceable) == []


def test_where_there_is_no_other_tool_none_is_offered(browser, payment):
    assert 'name="tool"' not in browser.get(f"/reviews/{payment.id}").content.decode()
