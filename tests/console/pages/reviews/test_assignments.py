"""Having a review in hand on its page, answering several together, follow-ups, and what high-stakes asks for."""

from __future__ import annotations

import html
import re
import time

import pytest
from django.test import Client

from fabric.models import AuditLine, Inbox, Review, ReviewAssignment
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.actors import login_link_create
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import COSTLY, ran
from tests.people import aged, member

LONG_AGO = 1
PASSWORD = "six dull words beside the sea"


@pytest.fixture
def doubts(actor, doubtful):
    return [list_open_reviews(actor, ran(actor, doubtful).id)[0] for _ in range(2)]


@pytest.fixture
def doubt(doubts):
    return doubts[0]


@pytest.fixture
def ana(actor):
    """Another one who is asked."""
    client = Client(HTTP_HOST="127.0.0.1")
    client.post("/login/link", {"token": login_link_create(member("ana", "owner", "reviewer"))})
    return client


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def post(client, item, way, *, scripted=True, **fields):
    return client.post(f"/reviews/{item.id}/{way}", fields, headers={"HX-Request": "true"} if scripted else {})


def lease_in(answer):
    found = re.search(r'name="lease" value="(\d+)" form="decision"', answer.content.decode())
    return found[1] if found else ""


def decisions(item):
    return Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision").count()


def test_claimed_and_released_without_leaving_the_page(browser, doubt):
    taken = post(browser, doubt, "claim")
    assert taken.status_code == 200
    assert "<!doctype" not in taken.content.decode()
    assert "Claimed by you, expires" in text_of(taken)
    lease = lease_in(taken)
    assert lease
    assert "Claimed by you" in text_of(browser.get(f"/reviews/{doubt.id}"))
    let_go = post(browser, doubt, "release", lease=lease)
    assert "Unclaimed" in text_of(let_go)
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "Owner claimed it" in said
    assert "Owner released it" in said


def test_without_a_script_it_is_a_page(browser, doubt):
    assert post(browser, doubt, "claim", scripted=False).headers["Location"] == f"/reviews/{doubt.id}"
    assert "Claimed by you" in text_of(browser.get(f"/reviews/{doubt.id}"))


def test_in_another_persons_hand_it_is_not_answered_and_the_page_says_whose(browser, ana, doubt):
    post(ana, doubt, "claim")
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "Claimed by ana" in said
    refused = post(browser, doubt, "decision", verb="reject", message="No.", digest=doubt.digest)
    assert refused.status_code == 409
    assert "Ana has claimed review" in text_of(refused)
    assert "No.</textarea>" in refused.content.decode()
    assert decisions(doubt) == 0
    assert "Ana has claimed review" in text_of(post(browser, doubt, "claim"))


def test_a_lapsed_one_is_taken_over_and_the_page_says_from_whom(browser, ana, doubt):
    post(ana, doubt, "claim")
    ReviewAssignment.objects.update(lease_until=LONG_AGO)
    assert "Take over from ana" in text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "You took it over from ana." in text_of(post(browser, doubt, "claim"))
    assert "taken over from ana" in text_of(browser.get(f"/reviews/{doubt.id}"))


def test_an_open_page_hears_that_its_lease_is_gone_and_its_answer_is_not_taken_for_it(browser, ana, doubt):
    lease = lease_in(post(browser, doubt, "claim"))
    ReviewAssignment.objects.update(lease_until=LONG_AGO)
    post(ana, doubt, "claim")
    told = post(browser, doubt, "beat", lease=lease)
    assert "Your lease has run out, and ana has this now." in text_of(told)
    refused = post(browser, doubt, "decision", verb="approve", digest=doubt.digest, lease=lease, message="Mine.")
    assert refused.status_code == 409
    assert "Mine.</textarea>" in refused.content.decode()
    assert decisions(doubt) == 0


def test_an_open_page_renews_its_lease_and_says_who_else_looks(browser, ana, doubt):
    lease = lease_in(post(browser, doubt, "claim"))
    ReviewAssignment.objects.update(lease_until=time.time_ns() // 1_000 + 1_000_000)
    post(ana, doubt, "beat")
    told = post(browser, doubt, "beat", lease=lease)
    assert "ana is also viewing" in text_of(told)
    assert ReviewAssignment.objects.get().lease_until > time.time_ns() // 1_000 + 60_000_000


def test_it_is_handed_on_to_who_is_asked(browser, ana, doubt):
    page = browser.get(f"/reviews/{doubt.id}").content.decode()
    assert "<option>ana</option>" in page
    assert "It is assigned to ana now." in text_of(post(browser, doubt, "reassign", to="ana"))
    assert "assigned to you by owner" in text_of(ana.get(f"/reviews/{doubt.id}"))
    assert "there is no member" in text_of(post(browser, doubt, "reassign", to="nobody")).lower()


def test_the_next_free_one_is_claimed(browser, ana, doubts):
    Review.objects.update(barred="\ncleo\n")  # A colleague's, who started them.
    first, second = sorted(doubts, key=lambda item: (item.due_at, item.id))
    post(ana, first, "claim")
    assert b"Claim next" in browser.get("/reviews").content
    assert browser.post("/reviews/next").headers["Location"] == f"/reviews/{second.id}"
    done = browser.post("/reviews/next", follow=True)
    assert "No review is free for you" in text_of(done)
    assert browser.post("/reviews/next", {"fabric": "none"}).headers["Location"] == "/reviews"


def test_who_is_not_asked_is_told_whom_it_is_for(doubt):
    viewer = Client(HTTP_HOST="127.0.0.1")
    viewer.post("/login/link", {"token": login_link_create(member("vera", "viewer"))})
    page = viewer.get(f"/reviews/{doubt.id}")
    assert "This is not yours to decide:" in text_of(page)
    assert 'name="verb"' not in page.content.decode()
    assert "If you submit this" not in text_of(page)
    assert b"Claim next" not in viewer.get("/reviews").content
    refused = post(viewer, doubt, "decision", verb="reject", message="No.", digest=doubt.digest)
    assert refused.status_code == 409, "the script puts no 403 in the page's place"
    assert "is not asked" in text_of(refused)
    assert decisions(doubt) == 0


# -- high-stakes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def costly(actor):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name).id)
    return found


def test_high_stakes_wants_a_reason_and_a_fresh_sign_in(browser, costly):
    said = text_of(browser.get(f"/reviews/{costly.id}"))
    assert "required in high-stakes" in said
    assert "Sign in again to decide." not in said
    assert "Sign in again to decide." in text_of(aged(browser).get(f"/reviews/{costly.id}"))


def test_after_an_old_sign_in_the_link_leads_to_the_password_and_back_to_a_decision(costly):
    user = member("cleo", "finance", "reviewer")
    user.set_password(PASSWORD)
    user.save()
    cleo = Client(HTTP_HOST="127.0.0.1")
    cleo.post("/login", {"name": "cleo", "password": PASSWORD})
    page = aged(cleo).get(f"/reviews/{costly.id}").content.decode()
    (link,) = re.findall(r'id="sign-in-again" href="([^"]+)"', page)
    asked = cleo.get(html.unescape(link)).content.decode()
    sent = {name: re.search(rf'name="{name}" value="([^"]*)"', asked)[1] for name in ("name", "next")}
    back = cleo.post("/login", {**sent, "password": PASSWORD})
    assert back.headers["Location"] == f"/reviews/{costly.id}"
    assert "Sign in again to decide." not in text_of(cleo.get(back.headers["Location"]))
    done = post(cleo, costly, "decision", verb="reject", message="Too dear.", digest=costly.digest)
    assert done.headers["HX-Redirect"] == f"/reviews/{costly.id}"
    assert decisions(costly) == 1


def test_the_script_puts_a_draft_back_without_an_error_and_sends_nothing(browser, costly):
    sent = {"draft": "1", "verb": "approve", "cap_usd": "much", "message": "Worth it.", "digest": costly.digest}
    part = post(browser, costly, "changes", **sent).content.decode()
    assert part.lstrip().startswith('<div class="review-grid" id="review"')
    assert 'id="v-approve" checked' in part
    assert 'value="much"' in part
    assert "Worth it.</textarea>" in part
    assert 'class="err"' not in part
    assert decisions(costly) == 0


# -- two people ------------------------------------------------------------------------------------------------------


def test_where_two_have_to_agree_the_page_says_who_has(browser, ana, doubt):
    two = Review.objects.filter(id=doubt.id)
    two.update(approvals=2, barred="\ncleo\n")
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "0 of 2 agreed" in said
    assert "A second person must confirm the same content, not you, and not cleo." in said
    two.update(agreed="\nana\n")
    said = text_of(browser.get(f"/reviews/{doubt.id}"))
    assert "1 of 2 agreed" in said
    assert "ana agreed already: with yours it is decided." in said
    assert "ana agreed; a second person is needed" in text_of(browser.get("/reviews"))
    assert "it takes a second person" in text_of(ana.get(f"/reviews/{doubt.id}"))


# -- several together ------------------------------------------------------------------------------------------------


def together(client, items, **fields):
    return client.post("/reviews/together", {"item": [f"{one.id}:{one.digest}" for one in items], **fields})


def test_several_alike_are_shown_first_and_then_answered_one_by_one(browser, doubts):
    shown = together(browser, doubts)
    assert shown.status_code == 200
    assert "Decide 2 reviews together?" in text_of(shown)
    assert [decisions(item) for item in doubts] == [0, 0]
    assert "Pick an answer." in text_of(together(browser, doubts, sure="1"))
    wrong = together(browser, doubts, sure="1", verb="reject")
    assert wrong.status_code == 422
    assert "Say why in the message" in text_of(wrong)
    done = together(browser, doubts, sure="1", verb="reject", message="Not like this.")
    assert done.status_code == 200
    assert text_of(done).count("Rejected") == 2
    assert [decisions(item) for item in doubts] == [1, 1]


def test_calls_that_are_alike_are_declined_together_with_a_reason(browser, actor, paying):
    calls = [list_open_reviews(actor, ran(actor, paying).id)[0] for _ in range(2)]
    wrong = together(browser, calls, sure="1", verb="decline")
    assert (wrong.status_code, "Say why in the message" in text_of(wrong)) == (422, True)
    done = together(browser, calls, sure="1", verb="decline", message="Not today.")
    assert done.status_code == 200
    assert text_of(done).count("Declined") == 2


def test_each_is_bound_to_what_was_shown_of_it(browser, doubts):
    fields = {
        "item": [f"{doubts[0].id}:{doubts[0].digest}", f"{doubts[1].id}:{'0' * 32}"],
        "sure": "1",
        "verb": "approve",
    }
    said = text_of(browser.post("/reviews/together", fields))
    assert "nothing was shown under that digest" in said.lower()
    assert [decisions(item) for item in doubts] == [1, 0]


def test_what_is_not_alike_is_not_answered_together(browser, actor, doubt, paying, costly):
    payment = list_open_reviews(actor, ran(actor, paying).id)[0]
    for items, said in (
        ([doubt, payment], "are not alike"),
        ([doubt, costly], "is high-stakes"),
        ([], "Nothing is picked"),
    ):
        refused = together(browser, items, sure="1", verb="approve")
        assert refused.status_code == 422
        assert said in text_of(refused)
    assert [decisions(item) for item in (doubt, payment, costly)] == [0, 0, 0]


def test_high_stakes_ones_cannot_be_picked(browser, doubt, costly):
    page = browser.get("/reviews").content.decode()
    assert re.search(rf'value="{doubt.id}:{doubt.digest}" data-like="[^"]*" aria-label="[^"]*">', page)
    assert re.search(rf'value="{costly.id}:{costly.digest}" data-like="[^"]*" aria-label="[^"]*" disabled', page)


# -- the list --------------------------------------------------------------------------------------------------------


def rows(page):
    return set(re.findall(r'<tr id="ask-([^"]+)"', page.content.decode()))


def test_tabs_and_filters_say_what_is_shown(browser, actor, doubts, paying):
    payment = list_open_reviews(actor, ran(actor, paying).id)[0]
    post(browser, payment, "claim")
    every = {one.id for one in (*doubts, payment)}
    assert rows(browser.get("/reviews")) == every
    assert rows(browser.get("/reviews?tab=mine")) == {payment.id}
    assert rows(browser.get("/reviews?tab=unclaimed")) == every - {payment.id}
    assert rows(browser.get("/reviews?fabric=paying")) == {payment.id}
    assert rows(browser.get("/reviews?item=post_stage")) == every - {payment.id}
    assert rows(browser.get("/reviews?text=wants+to+call")) == {payment.id}
    none = browser.get("/reviews?fabric=paying&stage=validate")
    assert rows(none) == set()
    assert "No review matches all of this:" in text_of(none)
    counts = re.findall(
        r">(Claimed by you|Unclaimed|All open) <span[^>]*>(\d+)<", browser.get("/reviews").content.decode()
    )
    assert counts == [("Claimed by you", "1"), ("Unclaimed", "2"), ("All open", "3")]


def test_what_was_decided_last_is_said_when_nothing_waits(browser, doubts):
    Review.objects.update(decided_at=time.time_ns() // 1_000, verb="approve", decided_by="ana")
    assert "Nothing waits for you; last decided" in text_of(browser.get("/reviews"))
    decided = browser.get("/reviews?tab=decided")
    assert rows(decided) == {one.id for one in doubts}
    assert "approved by ana" in text_of(decided)


def test_a_claim_is_news_of_its_row(browser, ana, doubt):
    page = browser.get("/reviews").content.decode()
    seen = ",".join(".".join(row) for row in re.findall(r'<tr id="ask-([^"]+)" data-seq="([^"]+)"', page))
    post(ana, doubt, "claim")
    told = browser.get("/reviews/news", {"seen": seen}, headers={"HX-Request": "true"})
    assert rows(told) == {doubt.id}
    assert "ana" in text_of(told)


def test_acts_of_hands_are_told_to_the_audit_stream_alone(browser, doubt):
    post(browser, doubt, "claim")
    assert AuditLine.objects.filter(kind="review_claimed", subject=doubt.run_id).count() == 1
    assert decisions(doubt) == 0
