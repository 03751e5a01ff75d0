"""The list of reviews as one inbox: what the reader may answer, changes to approve, follow-ups; alike ones together."""

from __future__ import annotations

import re
import time

import pytest

from fabric.models import ChangeRequest, FollowUpClosure, Review, ReviewAssignment
from fabric.models.reviews import FOLLOW_UP
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.drafts.change_requests import change_request_open
from tests.console.pages.reviews.test_assignments import ana, post, rows, text_of, together  # noqa: F401 - A fixture.
from tests.fabric.services.world import EYES, published_by_two, ran
from tests.people import member, signed_in

BADGE = r'data-tone="human">(\d+)<span class="vh"> for you to decide'


@pytest.fixture
def doubt(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


def more(review, count, **changed):
    """Further reviews like that one, due later; their ids."""
    row = Review.objects.get(id=review.id)
    for number in range(count):
        row.id, row.step_id, row.due_at = f"{number:016x}", f"step-{number}", review.due_at + 1 + number
        for name, value in changed.items():
            setattr(row, name, value)
        row.save(force_insert=True)
    return [f"{number:016x}" for number in range(count)]


def test_a_change_stands_with_the_reviews_of_who_may_approve_it(browser, actor):
    published_by_two(actor, EYES)
    asked = change_request_open(actor=actor, source=EYES.replace("A small fabric", "Another"))
    ben = signed_in(member("ben", "editor"))
    page = ben.get("/reviews")
    assert f'href="/fabrics/small/requests/{asked.id}"' in page.content.decode()
    assert "Owner asks to publish a change of small" in text_of(page)
    assert "No review waits for you" in text_of(page)
    assert set(re.findall(BADGE, page.content.decode())) == {"1"}
    assert 'data-waits="1"' in ben.get("/reviews/news").content.decode()
    mine = browser.get("/reviews")
    assert "asks to publish" not in text_of(mine)
    assert "Nothing waits for you" in text_of(mine), "its author cannot approve it"
    assert re.findall(BADGE, mine.content.decode()) == []


def test_many_changes_are_folded_and_counted(actor):
    published_by_two(actor, EYES)
    change_request_open(actor=actor, source=EYES.replace("A small fabric", "Another"))
    row = ChangeRequest.objects.get(state="open")
    for number in range(6):
        row.id, row.author = f"change-{number}", f"author-{number}"
        row.save(force_insert=True)
    said = text_of(signed_in(member("ben", "editor")).get("/reviews"))
    assert "Changes for your approval 7" in said
    assert re.search(r"\b2 more \S+ asks to publish", said)


def test_an_open_follow_up_is_something_that_waits(browser, doubt):
    Review.objects.update(item=FOLLOW_UP, decided_at=time.time_ns() // 1_000, decided_by="system", by_system=True)
    said = text_of(browser.get("/reviews"))
    assert "No review waits for you" in said
    assert "1 follow-up of failed runs can be closed." in said
    closed = {
        "workspace_id": doubt.workspace_id,
        "run_id": doubt.run_id,
        "closed_at": 1,
        "closed_by": "ana",
        "note": ".",
    }
    FollowUpClosure.objects.create(review=doubt.id, **closed)
    assert "Nothing waits for you" in text_of(browser.get("/reviews"))


def test_the_list_begins_with_what_the_reader_may_answer(browser, doubt):
    vera = signed_in(member("vera", "viewer"))
    assert rows(browser.get("/reviews")) == {doubt.id}
    assert rows(vera.get("/reviews")) == set()
    assert "One open review of others" in text_of(vera.get("/reviews"))
    page = vera.get("/reviews?tab=open").content.decode()
    assert rows(vera.get("/reviews?tab=open")) == {doubt.id}
    assert re.search(r'class="c-asks muted"><span[^>]*>asks </span>owner<', page)
    assert re.search(r'class="c-asks"><span[^>]*>asks </span>owner<', browser.get("/reviews").content.decode())


def test_an_answer_on_its_way_is_its_authors_in_the_list(browser, ana, doubt):  # noqa: F811
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest)
    hers, mine = (text_of(one.get("/reviews?tab=open")) for one in (ana, browser))
    assert re.search(r"yours, sent at \S+ UTC", hers)
    assert "yours, sent" not in mine
    for said in (hers, mine):
        assert " unclaimed " not in said
    told = ana.get("/reviews/news", {"tab": "open", "seen": f"{doubt.id}.before"})
    assert "yours, sent at" in text_of(told), "a row that changes says the same"


def test_undo_gives_the_claim_back_and_only_to_who_had_it(browser, ana, doubt):  # noqa: F811
    post(ana, doubt, "claim")
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest, lease=1)
    assert ReviewAssignment.objects.get().holder == ""
    post(ana, doubt, "undo")
    assert "Claimed by you, expires" in text_of(ana.get(f"/reviews/{doubt.id}"))
    before = ReviewAssignment.objects.get()
    assert (before.holder, before.taken_from) == ("ana", "")
    post(ana, doubt, "release", lease=before.lease)
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest)
    post(ana, doubt, "undo")
    assert ReviewAssignment.objects.get().holder == "", "who had not claimed it has nothing back"
    post(ana, doubt, "claim")
    post(ana, doubt, "decision", verb="approve", digest=doubt.digest, lease=ReviewAssignment.objects.get().lease)
    post(browser, doubt, "claim")
    post(ana, doubt, "undo")
    assert ReviewAssignment.objects.get().holder == "owner", "another person has it meanwhile"


def test_to_go_to_the_next_is_remembered_for_the_person_who_chose_it(browser, actor, doubt):
    ticked = r'name="advance" value="1" checked'
    more(doubt, 2)
    sent = {"verb": "reject", "message": "No.", "digest": doubt.digest, "advance": "1"}
    post(browser, doubt, "decision", **sent)
    page = browser.get(f"/reviews/{0:016x}").content.decode()
    assert re.search(ticked, page)
    other = signed_in(member("ben", "owner", "reviewer"))
    other.cookies["review_advance"] = browser.cookies["review_advance"].value
    assert not re.search(ticked, other.get(f"/reviews/{0:016x}").content.decode()), "it is another person's choice"


# -- several together ------------------------------------------------------------------------------------------------


def failing(review, count):
    """Failures of one cause, as an open breaker leaves them."""
    content = b'{"cause": "server_error", "mechanism": "circuit_breaker"}'
    return more(review, count, item="failure", failure_type="provider_failure", content=content)


def test_many_failures_of_one_cause_are_folded_below_the_first(browser, doubt):
    ids = failing(doubt, 5)
    page = browser.get("/reviews").content.decode()
    shown, _, folded = page.partition('<tbody class="folded">')
    assert "4 more of the same cause: server error in doubtful" in text_of(browser.get("/reviews"))
    assert [f'id="ask-{one}"' in shown for one in ids] == [True, *[False] * 4]
    assert [f'id="ask-{one}"' in folded for one in ids] == [False, *[True] * 4]
    assert f'id="ask-{doubt.id}"' in shown


def test_few_failures_of_one_cause_stand_each(browser, doubt):
    failing(doubt, 3)
    assert 'class="folded"' not in browser.get("/reviews").content.decode()


def test_rows_that_one_answer_can_decide_have_one_mark(browser, doubt):
    failing(doubt, 2)
    found = re.findall(r'data-like="([^"]+)"', browser.get("/reviews").content.decode())
    assert sorted(found) == ["doubtful failure validate", "doubtful failure validate", "doubtful post_stage validate"]


def test_those_that_were_never_opened_are_marked(browser, actor, doubtful, doubt):
    other = list_open_reviews(actor, ran(actor, doubtful).id)[0]
    assert text_of(together(browser, [doubt, other])).count("Never opened by you") == 2
    post(browser, doubt, "beat")
    assert text_of(together(browser, [doubt, other])).count("Never opened by you") == 1
    assert text_of(together(signed_in(member("cleo", "owner", "reviewer")), [doubt])).count("Never opened by you") == 1
