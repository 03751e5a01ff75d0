"""An open page of a review hears what became of it: answered, undone, ended, claimed by another person."""

from __future__ import annotations

import re
import time

import pytest

from fabric.models import Inbox, Review
from fabric.selectors.reviews.lookup import list_open_reviews
from tests.console.pages.reviews.test_assignments import ana, post, text_of  # noqa: F401 - A fixture.
from tests.fabric.services.world import ran


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


class Page:
    """An open page of a review, as its script keeps it."""

    def __init__(self, client, item):
        self.client, self.item = client, item
        self.take(client.get(f"/reviews/{item.id}"))
        self.standing = self.found(r'name="standing" value="([^"]+)"')

    def take(self, answer):
        self.html, self.text = answer.content.decode(), text_of(answer)

    def found(self, pattern):
        found = re.search(pattern, self.html)
        return found and found[1]

    def ask(self):
        """The status of the question that the page asks every second."""
        seen = self.found(r'data-seen="([^"]+)"')
        answer = self.client.get(f"/reviews/{self.item.id}/news", {"seen": seen}, headers={"HX-Request": "true"})
        assert answer.content == b""
        return answer.status_code

    def hears(self):
        """Ask for news, send the heartbeat that follows, and return the page's text."""
        assert self.ask() == 200, "something is new"
        self.take(post(self.client, self.item, "beat", standing=self.standing))
        return self.text

    @property
    def moved(self):
        return 'id="moved"' in self.html


def test_a_page_that_is_as_it_was_hears_nothing(browser, doubt):
    page = Page(browser, doubt)
    assert page.ask() == 204
    post(browser, doubt, "beat", standing=page.standing)
    assert page.ask() == 204


def test_it_hears_who_answered_and_that_it_was_undone(browser, ana, doubt):  # noqa: F811
    page = Page(browser, doubt)
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest)
    said = page.hears()
    assert re.search(r"Ana approved this \S+ UTC \. The run uses it at \S+ UTC ; until then it can be undone\.", said)
    assert page.moved
    assert page.ask() == 204, "it is told once"
    answer = Inbox.objects.get(input_id__startswith="decision").input_id
    post(ana, doubt, "undo", answer=answer)
    said = page.hears()
    assert "ana answered" in said
    assert "and undid it" in said
    assert not page.moved, "the form may be sent again"


def test_the_news_of_a_later_beat_is_still_news_for_the_form(browser, ana, doubt):  # noqa: F811
    page = Page(browser, doubt)
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest)
    page.hears()
    page.take(post(browser, doubt, "beat", standing=page.found(r'name="standing" value="([^"]+)"')))
    assert page.moved


@pytest.mark.parametrize(
    ("verb", "by", "by_system", "said"),
    [
        ("reject", "ana", False, "Ana rejected this"),
        ("reject", "owner", False, "You rejected this"),
        ("reject", "expiry", True, "The system decided this"),
        ("withdrawn", "the run was cancelled", False, "This review was withdrawn"),
    ],
)
def test_it_hears_the_end_and_follows_no_longer(browser, doubt, verb, by, by_system, said):
    page = Page(browser, doubt)
    now = time.time_ns() // 1_000
    Review.objects.filter(id=doubt.id).update(decided_at=now, verb=verb, decided_by=by, by_system=by_system)
    assert said in page.hears()
    assert page.moved
    assert page.found(r"data-news=(.)") is None
    assert 'id="beat"' not in page.html
    assert "data-news" not in Page(browser, doubt).html


def test_it_hears_that_the_time_is_over(browser, doubt):
    page = Page(browser, doubt)
    Review.objects.filter(id=doubt.id).update(due_at=time.time_ns() // 1_000)
    assert "The time to answer ended" in page.hears()
    assert page.moved


def test_it_hears_of_another_version_and_of_a_first_approval(browser, doubt):
    page, row = Page(browser, doubt), Review.objects.filter(id=doubt.id)
    row.update(digest="f" * 64)
    assert "This review is about another version now." in page.hears()
    row.update(proposed_by="ana")
    row.update(approvals=2, agreed="\nana\n")
    assert "Ana agreed, and a second person is needed." in page.hears()
    assert page.moved


def test_it_hears_of_a_claim_and_of_a_release(browser, ana, doubt):  # noqa: F811
    page = Page(browser, doubt)
    taken = post(ana, doubt, "claim").content.decode()
    assert "Claimed by ana" in page.hears()
    assert not page.moved, "who may answer is judged at the answer"
    lease = re.search(r'name="lease" value="(\d+)"', taken)[1]
    post(ana, doubt, "release", lease=lease)
    assert "Unclaimed" in page.hears()


def test_while_an_answer_waits_the_page_says_whose_it_is_and_offers_no_claim(browser, ana, doubt):  # noqa: F811
    post(browser, doubt, "decision", verb="reject", message="No.", digest=doubt.digest)
    mine, hers = Page(browser, doubt), Page(ana, doubt)
    assert re.search(r"Yours, sent to the run at \S+ UTC", mine.text)
    assert "Answered by owner" in hers.text
    for page in (mine, hers):
        assert "Unclaimed" not in page.text
        assert 'data-press="claim"' not in page.html
