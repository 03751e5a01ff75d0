"""The page of one person's inbox."""

from __future__ import annotations

import html
import re

import pytest

from fabric.models import InboxSeen
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.reviews.comments import comment_add
from tests.fabric.services.world import ran
from tests.people import member, signed_in


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def test_it_says_when_it_is_empty(browser):
    assert "Nothing waits for you." in text_of(browser.get("/reviews/inbox"))


def test_it_lists_what_came_and_a_look_changes_nothing(browser, doubt):
    said = text_of(browser.get("/reviews/inbox"))
    assert "Since you were here: 1." in said
    assert "Waits for you 1" in said
    assert not InboxSeen.objects.exists()
    assert "Since you were here: 1." in text_of(browser.get("/reviews"))


def test_it_is_marked_as_seen_with_and_without_the_script(browser, doubt):
    page = browser.get("/reviews/inbox").content.decode()
    at = re.search(r'name="at" value="(\d+)"', page)
    assert at
    assert browser.post("/reviews/inbox/seen", {"at": "1"}, headers={"HX-Request": "true"}).status_code == 204
    assert "Since you were here: 1." in text_of(browser.get("/reviews/inbox"))
    assert browser.post("/reviews/inbox/seen", {"at": at[1]}).headers["Location"] == "/reviews/inbox"
    assert "Nothing new since you were here." in text_of(browser.get("/reviews/inbox"))
    assert "Since you were here" not in text_of(browser.get("/reviews"))


def test_a_mention_leads_to_the_comment(browser, actor, doubt):
    ana = signed_in(member("ana", "reviewer"))
    comment_add(actor=actor, review_id=doubt.id, text="@ana what do you say?")
    answer = ana.get("/reviews/inbox")
    assert "owner mentioned you" in text_of(answer).lower()
    assert f'href="/reviews/{doubt.id}#talk"' in answer.content.decode()


def test_a_browser_is_notified_only_after_a_press(browser, doubt):
    page = browser.get("/reviews").content.decode()
    button = re.search(r'<button[^>]*data-press="notify"[^>]*>', page)
    assert button
    assert "hidden" in button[0]
