"""A member writes on a run's page: a form where an agent would read it, the message with what became of it, and nothing lost where it is refused."""

from __future__ import annotations

import re
from html import unescape

import pytest

from console.pages.runs.live_source import panels
from fabric.composition import engine as wiring
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox, Run
from fabric.selectors.runs.lookup import run_get
from fabric.services.runs.start import run_start
from tests.fabric.services.world import HeardNudge, ran
from tests.people import member, signed_in

WORDS = "Mind the <VAT>."
HX = {"HX-Request": "true"}


def started(actor, fabric):
    return run_start(store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=fabric, text="What is owed?").run_id


@pytest.fixture
def run_id(actor, talking):
    """A run that no worker has claimed, whose workers will take turns."""
    return started(actor, talking)


def page_of(browser, run_id, query=""):
    return browser.get(f"/runs/{run_id}{query}").content.decode()


def key_in(page):
    found = re.search(r'name="start_key" value="(page-[^"]+)"', page)
    assert found
    return found[1]


def sent(run_id):
    return Inbox.objects.filter(run_id=run_id, input_id__startswith="say:").count()


@pytest.mark.parametrize("query", ["", "?view=graph", "?view=cost"])
def test_the_form_stands_on_every_view_of_a_run_with_a_conversation(browser, run_id, query):
    page = page_of(browser, run_id, query)
    assert f'<form id="say" action="/runs/{run_id}/say" method="post"' in page
    assert key_in(page) != key_in(page_of(browser, run_id, query))


def test_it_stands_nowhere_else(browser, actor, small, talking, run_id):
    assert 'id="say"' not in page_of(signed_in(member("looks-on", "viewer")), run_id)
    assert 'id="say"' in page_of(signed_in(member("holds", "operator")), run_id)
    assert 'id="say"' not in page_of(browser, started(actor, small))
    assert '<div id="panel-talk" hidden' in page_of(browser, ran(actor, small).id)
    assert 'id="say"' not in page_of(browser, ran(actor, talking).id)


def test_without_a_script_it_is_sent_once_and_stands_on_the_page_with_who_said_it(browser, actor, run_id):
    form = {"text": WORDS, "start_key": key_in(page_of(browser, run_id))}
    answer = browser.post(f"/runs/{run_id}/say", form, follow=True)
    assert answer.redirect_chain == [(f"/runs/{run_id}#talk", 302)]
    page = answer.content.decode()
    assert "Your message is sent" in page
    assert "on its way to the run" in page
    assert "Mind the &lt;VAT&gt;." in page
    assert "sent before" in browser.post(f"/runs/{run_id}/say", form, follow=True).content.decode()
    assert sent(run_id) == 1
    Following(actor, run_id).to_rest()
    page = page_of(browser, run_id)
    assert "read by reader in turn 2" in page
    assert "Mind the &lt;VAT&gt;." in page
    assert "<b>owner</b>" in page
    strip = page_of(browser, run_id, "?view=graph")
    assert "owner, a person" in strip
    assert "said-mark" in strip


def test_with_a_script_the_card_comes_back_with_an_empty_form_under_another_key(browser, run_id):
    key = key_in(page_of(browser, run_id))
    answer = browser.post(f"/runs/{run_id}/say", {"text": WORDS, "start_key": key}, headers=HX)
    part = answer.content.decode()
    assert (answer.status_code, part.startswith('<section class="card talk" id="talk"')) == (200, True)
    assert "on its way to the run" in part
    assert re.search(r"<textarea[^>]*></textarea>", part)
    assert key_in(part) != key


@pytest.mark.parametrize("headers", [{}, HX])
@pytest.mark.parametrize(
    ("text", "said"), [(" \n", "A message without words says nothing"), ("x" * 20_001, "has 20,001 characters")]
)
def test_a_text_that_is_none_or_too_long_is_refused_beside_the_field_and_kept(browser, run_id, text, said, headers):
    answer = browser.post(f"/runs/{run_id}/say", {"text": text, "start_key": "page-1"}, headers=headers)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert said in page
    assert 'aria-invalid="true" aria-describedby="e-say"' in page
    assert key_in(page) == "page-1"
    assert text.strip() in page
    assert sent(run_id) == 0


@pytest.mark.parametrize("headers", [{}, HX])
def test_what_comes_too_late_is_kept_and_says_so(browser, actor, run_id, headers):
    Following(actor, run_id).to_rest()
    answer = browser.post(f"/runs/{run_id}/say", {"text": WORDS}, headers=headers)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "has already ended (completed)" in page
    assert "Mind the &lt;VAT&gt;.</textarea>" in page


def test_another_message_from_a_page_that_was_not_told_of_the_first_is_sent_again_under_a_key_of_its_own(
    browser, run_id
):
    browser.post(f"/runs/{run_id}/say", {"text": WORDS, "start_key": "page-1"})
    answer = browser.post(f"/runs/{run_id}/say", {"text": "And the tax.", "start_key": "page-1"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "sent another message already" in page
    again = browser.post(f"/runs/{run_id}/say", {"text": "And the tax.", "start_key": key_in(page)})
    assert (again.status_code, sent(run_id)) == (302, 2)


def test_the_page_of_its_own_says_why_it_would_not_be_read(browser, actor, small, talking):
    page = unescape(page_of(browser, started(actor, small), "/say"))
    assert "This run has no conversation" in page
    assert "messages are no longer read" in page_of(browser, ran(actor, talking).id, "/say")
    answer = browser.post(f"/runs/{started(actor, small)}/say", {"text": WORDS})
    assert (answer.status_code, "has no conversation" in answer.content.decode()) == (409, True)


def test_the_live_panel_is_the_same_for_all_readers_and_says_when_no_one_reads_any_more(actor, run_id):
    def panel():
        found = {one.name: one.html for one in panels(actor, run_get(actor, run_id), [])}
        return found["talk"]

    assert "data-none" in panel()
    assert "form" not in panel()
    assert "data-closed" not in panel()
    Run.objects.filter(id=run_id).update(state=RunState.CANCELLING)
    assert "Messages are closed: the run is ending." in panel()
    assert "data-closed" in panel()
