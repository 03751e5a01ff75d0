"""Comments and snoozes on the page of a review, with and without the page's script."""

from __future__ import annotations

import html
import re

import pytest

from fabric.models import ReviewComment, ReviewSnooze
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.comments import TEXT_CHARS_MAX
from tests.fabric.services.world import COSTLY, ran
from tests.people import member, signed_in

SCRIPTED = {"HX-Request": "true"}


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


def talk_of(page):
    found = re.search(r'<section class="card" aria-labelledby="h-talk".*?</section>', page, flags=re.DOTALL)
    assert found
    return html.unescape(found[0])


def test_a_comment_appears_as_text_and_does_not_act(browser, doubt):
    said = "<script>alert(1)</script> @owner, is 0.55 usual?"
    done = browser.post(f"/reviews/{doubt.id}/comment", {"text": said})
    assert (done.status_code, done.headers["Location"]) == (302, f"/reviews/{doubt.id}#talk")
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    assert "<script>alert" not in page
    assert said in talk_of(page)


def test_the_pages_script_gets_the_part_alone(browser, doubt):
    part = browser.post(f"/reviews/{doubt.id}/comment", {"text": "Hm."}, headers=SCRIPTED)
    assert part.status_code == 200
    assert "<!doctype" not in part.content.decode()
    assert "Hm." in talk_of(part.content.decode())


@pytest.mark.parametrize("scripted", [False, True])
def test_a_refused_comment_says_why_and_keeps_the_text(browser, doubt, scripted):
    member("vera", "viewer")
    sent = {"text": "What do you say, @vera?"}
    refused = browser.post(f"/reviews/{doubt.id}/comment", sent, headers=SCRIPTED if scripted else {})
    assert refused.status_code == 422
    part = talk_of(refused.content.decode())
    assert "@vera may not read this run" in part
    assert "What do you say, @vera?</textarea>" in part
    assert 'aria-invalid="true" aria-describedby="e-comment"' in part
    assert not ReviewComment.objects.exists()


def test_a_comment_that_is_too_long_is_refused_as_a_form(browser, doubt):
    refused = browser.post(f"/reviews/{doubt.id}/comment", {"text": "a" * (TEXT_CHARS_MAX + 1)})
    assert refused.status_code == 422
    assert "at most 4,000" in talk_of(refused.content.decode())


def test_who_reads_no_contents_reads_and_writes_no_comments(browser, doubt):
    browser.post(f"/reviews/{doubt.id}/comment", {"text": "The notes say 40 dollars."})
    vera = signed_in(member("vera", "viewer"))
    part = talk_of(vera.get(f"/reviews/{doubt.id}").content.decode())
    assert "40 dollars" not in part
    assert "<form" not in part
    assert vera.post(f"/reviews/{doubt.id}/comment", {"text": "Hm."}).status_code == 403


def test_whom_a_review_asks_comments_without_the_right_to_other_contents(actor):
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name).id)
    fay = signed_in(member("fay", "finance"))
    assert "<form" in talk_of(fay.get(f"/reviews/{item.id}").content.decode())
    assert fay.post(f"/reviews/{item.id}/comment", {"text": "Too dear."}).status_code == 302
    assert "Too dear." in talk_of(fay.get(f"/reviews/{item.id}").content.decode())


def test_a_snooze_is_shown_and_ended(browser, doubt):
    until = "2026-01-01T00:00"
    refused = browser.post(f"/reviews/{doubt.id}/snooze", {"until": until})
    assert refused.status_code == 422
    part = talk_of(refused.content.decode())
    assert "is past" in part
    assert f'value="{until}"' in part
    for wrong in ("soon", "", "2026-13-01", "9999-12-31T23:59:59+99:99"):
        assert browser.post(f"/reviews/{doubt.id}/snooze", {"until": wrong}).status_code == 422, wrong
    ReviewSnooze.objects.create(
        workspace_id=doubt.workspace_id, review=doubt.id, name="owner", until_at=doubt.due_at, digest=doubt.digest
    )
    assert "Hidden from your list until" in talk_of(browser.get(f"/reviews/{doubt.id}").content.decode())
    assert f"/reviews/{doubt.id}" not in browser.get("/reviews").content.decode()
    shown = browser.post(f"/reviews/{doubt.id}/snooze", {"end": "1"}, headers=SCRIPTED)
    assert "Snooze…" in talk_of(shown.content.decode())
    assert f"/reviews/{doubt.id}" in browser.get("/reviews").content.decode()


def test_it_is_handed_to_a_role(browser, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    assert '<option value="role:owner">owner</option>' in page
    browser.post(f"/reviews/{doubt.id}/reassign", {"to": "role:owner"})
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    assert "Assigned to the role owner by owner" in page
    refused = browser.post(f"/reviews/{doubt.id}/reassign", {"to": "role:finance"}, follow=True)
    assert "No member who is asked" in refused.content.decode()
