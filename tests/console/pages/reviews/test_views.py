"""Reviews to people: what the card says, answering, answering twice."""

from __future__ import annotations

import html
import re
import time

import pytest

from fabric.core.spec.policies.people import UNDO_S
from fabric.core.values.taxonomy import Tier
from fabric.management.run_follower import Following
from fabric.models import Inbox, Review, Run
from fabric.runtime.ports.journal import TAKEN_BACK
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.fabrics.revisions import fabric_publish
from tests.fabric.services.world import COSTLY, CROWDED, DOUBTFUL, ran
from tests.people import member, signed_in


@pytest.fixture
def waiting(actor, doubtful):
    run = ran(actor, doubtful)
    assert run.state == "waiting"
    return run


@pytest.fixture
def review(actor, waiting):
    (found,) = list_open_reviews(actor, waiting.id)
    return found


def answer(browser, review, verb="approve", message="", **headers):
    data = {"verb": verb, "message": message, "digest": review.digest}
    return browser.post(f"/reviews/{review.id}/decision", data, headers=headers)


def decisions(run):
    return [bytes(row.body) for row in Inbox.objects.filter(run_id=run.id, input_id__startswith="decision")]


def test_nothing_waits(browser):
    assert b"Nothing waits for you" in browser.get("/reviews").content


def test_the_list_leads_to_the_review(browser, waiting, review):
    page = browser.get("/reviews").content.decode()
    assert f'<a class="cell" href="/reviews/{review.id}">' in page
    assert "<title>(1) Reviews" in page
    assert '<span class="count" data-tone="human">1' in page


def test_a_run_says_why_it_waits_and_leads_to_the_review(browser, waiting, review):
    page = html.unescape(browser.get(f"/runs/{waiting.id}").content.decode())
    assert review.reason[1:] in page
    assert "limit 0.7" in page
    assert "0.55" in page
    assert "Rejected by the system." in page
    assert re.search(rf'<a class="btn primary" href="/reviews/{review.id}">.*Decide</a>', page)
    assert f'action="/reviews/{review.id}/' not in page, "it is decided on its own page"


def test_a_run_tells_who_may_not_decide_why_and_leads_them_to_the_review(browser, waiting, review):
    vera = signed_in(member("vera", "viewer"))
    for address in (f"/runs/{waiting.id}", f"/runs/{waiting.id}/review"):
        page = html.unescape(vera.get(address).content.decode())
        assert f"<b>This is not yours to decide:</b> it needs {', '.join(review.asked)}." in page
        assert f'<a class="btn" href="/reviews/{review.id}">Open the review</a>' in page
        assert "Decide</a>" not in page
    Review.objects.filter(id=review.id).update(approvals=2, barred="\nowner\n")
    page = html.unescape(browser.get(f"/runs/{waiting.id}").content.decode())
    assert "owner may only reject this: it is their own, so a second person must approve." in page
    assert "Decide</a>" in page, "and reject it"


def test_what_a_quarantined_run_does_not_take_yet(browser, waiting, review):
    """A reviewer who answered something else reads that this waits for the end of the quarantine, and can still take it back."""
    answer(browser, review)
    before = browser.get(f"/reviews/{review.id}").content.decode()
    assert "Continue now" in before
    assert "is quarantined" not in before
    Run.objects.filter(id=waiting.id).update(state="quarantined")
    page = browser.get(f"/reviews/{review.id}").content.decode()
    said = "It uses this answer after a person resumes it; until then you can undo it."
    assert said in page
    assert f"/reviews/{review.id}/undo" in page
    assert "Continue now" not in page
    assert said in browser.get(f"/runs/{waiting.id}").content.decode()
    Review.objects.filter(id=review.id).update(item="quarantine")
    assert "Continue now" in browser.get(f"/reviews/{review.id}").content.decode(), (
        "its own review is what it does take"
    )


def test_no_answer_to_a_quarantine(browser, waiting, review):
    said = "Nothing happens automatically: the run stays quarantined and this review open."
    page = browser.get(f"/runs/{waiting.id}").content.decode()
    assert said not in page
    assert "Rejected by the system." in page
    Review.objects.filter(id=review.id).update(item="quarantine")
    assert said in browser.get(f"/runs/{waiting.id}").content.decode()


def test_approving(browser, waiting, review):
    done = answer(browser, review)
    assert done.headers["Location"] == f"/reviews/{review.id}"
    (body,) = decisions(waiting)
    assert b'"verb":"approve"' in body
    assert b'"actor":"owner"' in body


def test_the_script_is_led_to_the_review(browser, review):
    done = answer(browser, review, **{"HX-Request": "true"})
    assert (done.status_code, done.headers["HX-Redirect"]) == (200, f"/reviews/{review.id}")


def test_twice_the_same_is_once(browser, waiting, review):
    assert [answer(browser, review).status_code for _ in range(2)] == [302, 302]
    assert len(decisions(waiting)) == 1


def test_rejecting_needs_a_reason(browser, waiting, review):
    refused = answer(browser, review, "reject")
    assert refused.status_code == 422
    assert b"A rejection needs a reason" in refused.content
    assert decisions(waiting) == []
    assert answer(browser, review, "reject", "the numbers are wrong").status_code == 302
    assert b"the numbers are wrong" in decisions(waiting)[0]


def test_who_was_faster_is_said_and_nothing_written_is_lost(browser, waiting, review):
    other = signed_in(member("ana", "owner"))
    assert answer(other, review).status_code == 302
    for headers in ({}, {"HX-Request": "true"}):
        refused = answer(browser, review, "reject", "not like this", **headers)
        assert refused.status_code == 409
        page = refused.content.decode()
        assert "was answered by ana at" in page
        assert "not like this</pre>" in page
        assert "Ana approved this" in page
        assert "/undo" not in page, "it is not hers to take back"
    assert len(decisions(waiting)) == 1


def test_a_review_that_was_answered_long_ago(browser, waiting, review):
    Review.objects.filter(id=review.id).update(decided_at=review.opened_at + 1, verb="approve", decided_by="ana")
    refused = answer(browser, review)
    assert refused.status_code == 409
    assert b"was answered by ana" in refused.content
    assert b'name="verb"' not in refused.content


def test_another_review_than_the_one_that_was_read(browser, waiting, review):
    refused = browser.post(f"/reviews/{review.id}/decision", {"verb": "approve", "digest": "0" * 32})
    assert refused.status_code == 409
    assert b"nothing was shown under that digest" in refused.content.lower()
    assert decisions(waiting) == []


@pytest.mark.parametrize("verb", ["", "edit", "delete", "x" * 50])
def test_no_such_answer(browser, waiting, review, verb):
    assert answer(browser, review, verb).status_code == 422
    assert decisions(waiting) == []


def test_a_message_that_is_too_long_is_kept(browser, review):
    refused = answer(browser, review, "approve", "z" * 4_001)
    assert refused.status_code == 422
    assert b"z" * 4_001 in refused.content


def test_an_unknown_and_a_foreign_review_are_not_here(browser, actor, stranger, owner):
    fabric_publish(actor=stranger, source=DOUBTFUL)
    theirs = ran(stranger, "doubtful")
    (review,) = list_open_reviews(stranger, theirs.id)
    for review_id in (review.id, "0123456789abcdef"):
        assert browser.post(f"/reviews/{review_id}/decision", {"verb": "approve"}).status_code == 404
    assert decisions(theirs) == []


def test_the_part_of_the_page_that_each_viewer_fetches(browser, waiting, review):
    part = browser.get(f"/runs/{waiting.id}/review").content.decode()
    assert part.startswith('<section id="panel-ask"')
    assert f"review-{review.id}" in part


def second_thought(browser, review, way, **more):
    headers = more.pop("headers", {})
    return browser.post(f"/reviews/{review.id}/{way}", more, headers=headers)


def test_an_answer_waits_a_while_and_says_how_long(browser, waiting, review):
    answer(browser, review, message="Looks right.")
    (row,) = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision")
    assert row.visible_at - row.created_at == UNDO_S[Tier(waiting.tier)] * 1_000_000
    page = browser.get(f"/reviews/{review.id}").content.decode()
    assert "You approved this</h2>" in page
    assert 'data-style="left">at ' in page
    assert "Looks right.</p>" in page
    for way in ("undo", "continue"):
        assert f'action="/reviews/{review.id}/{way}"' in page
    assert 'name="verb"' not in page, "it is answered"
    on_run = browser.get(f"/runs/{waiting.id}").content.decode()
    assert "<b>You approved this.</b> The run uses it" in on_run
    assert "Decide</a>" not in on_run
    assert f'href="/reviews/{review.id}">Open the review' in on_run


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_undone_with_and_without_the_script(browser, waiting, review, headers):
    answer(browser, review, message="Looks right.")
    done = second_thought(browser, review, "undo", headers=headers)
    assert done.status_code == (200 if headers else 302)
    assert done.headers["HX-Redirect" if headers else "Location"] == f"/reviews/{review.id}"
    page = browser.get(f"/reviews/{review.id}").content.decode()
    assert "You withdrew your answer." in page
    assert "Looks right.</textarea>" in page, "what was typed is kept"
    assert 'name="verb" value="approve"' in page
    (row,) = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision")
    assert row.consumed_seq == TAKEN_BACK


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_it_counts_at_once_when_that_is_asked(browser, waiting, review, headers):
    answer(browser, review)
    done = second_thought(browser, review, "continue", headers=headers)
    assert done.status_code == (200 if headers else 302)
    (row,) = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision")
    assert row.consumed_seq is None
    assert row.visible_at <= time.time_ns() // 1_000
    assert second_thought(browser, review, "continue", headers=headers).status_code == done.status_code


def test_what_the_run_took_is_not_taken_back(browser, actor, waiting, review):
    answer(browser, review)
    second_thought(browser, review, "continue")
    Following(actor, waiting.id, answered=frozenset({review.id})).to_rest()
    for headers in ({}, {"HX-Request": "true"}):
        refused = second_thought(browser, review, "undo", headers=headers)
        assert refused.status_code == 409
        page = html.unescape(refused.content.decode())
        assert "it can no longer be undone." in page
        assert "Your text is below" not in page


def test_no_person_takes_back_anothers_answer(browser, waiting, review):
    other = signed_in(member("ana", "owner"))
    answer(other, review)
    for way in ("undo", "continue"):
        refused = second_thought(browser, review, way)
        assert refused.status_code == 403
        assert b"was answered by ana" in refused.content
    assert len(decisions(waiting)) == 1


def test_an_old_page_takes_back_no_newer_answer(browser, waiting, review):
    answer(browser, review, message="First.")
    (first,) = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision").values_list(
        "input_id", flat=True
    )
    second_thought(browser, review, "undo", answer=first)
    answer(browser, review, message="Second.")
    second_thought(browser, review, "undo", answer=first)
    rows = Inbox.objects.filter(run_id=waiting.id, input_id__startswith="decision").order_by("created_at")
    assert [row.consumed_seq for row in rows] == [TAKEN_BACK, None]


def test_nothing_was_answered(browser, review):
    for way in ("undo", "continue"):
        assert second_thought(browser, review, way).status_code == 409
    assert second_thought(browser, review, "undo", answer="x" * 500).status_code == 409
    assert browser.get(f"/reviews/{review.id}/undo").status_code == 405


# -- a call that asks first ------------------------------------------------------------------------------------------


@pytest.fixture
def payment(actor, paying):
    (found,) = list_open_reviews(actor, ran(actor, paying, documents=()).id)
    return found


def edit(browser, review, text, verb="edit", **more):
    data = {"verb": verb, "digest": review.digest, "edited": text, "message": "", **more}
    return browser.post(f"/reviews/{review.id}/decision", data)


def test_the_arguments_stand_in_the_form(browser, payment):
    page = html.unescape(browser.get(f"/reviews/{payment.id}").content.decode())
    assert '"usd": 90' in page
    for verb in ("approve", "edit", "respond", "reject"):
        assert f'name="verb" value="{verb}"' in page
        assert payment.content[verb][1:] in page


def test_edited_arguments_are_shown_and_can_be_taken_back(browser, payment):
    assert edit(browser, payment, '{"to": "Ana", "usd": 40}').status_code == 302
    page = html.unescape(browser.get(f"/reviews/{payment.id}").content.decode())
    assert "You edited this</h2>" in page
    assert "<mark>4</mark>0" in page
    second_thought(browser, payment, "undo")
    page = html.unescape(browser.get(f"/reviews/{payment.id}").content.decode())
    assert re.search(r'name="f.usd"[^>]* value="40"', page)
    assert 'id="v-edit" checked' in page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON object is wanted"),
        ("{", "JSON"),
        ("[1]", "JSON object"),
        ('{"to": "Ana", "usd": 400}', "usd"),
        ('{"to": "Ana", "to": "Ben", "usd": 4}', "to"),
    ],
)
def test_arguments_that_do_not_fit_are_kept_with_what_is_wrong(browser, payment, text, said):
    refused = edit(browser, payment, text)
    assert refused.status_code == 422
    page = html.unescape(refused.content.decode())
    assert said in page
    assert f"{text}</textarea>" in page
    assert 'id="v-edit" checked' in page
    assert Inbox.objects.filter(run_id=payment.run_id, input_id__startswith="decision").count() == 0


def test_changed_arguments_are_never_approved_by_mistake(browser, payment):
    refused = edit(browser, payment, '{"to": "Ana", "usd": 40}', verb="approve")
    assert refused.status_code == 422
    assert b"You changed the content" in refused.content
    assert edit(browser, payment, '{"usd": 90, "to": "Ana"}', verb="approve").status_code == 302


# -- a new cap -------------------------------------------------------------------------------------------------------


@pytest.fixture
def overrun(actor):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=COSTLY).name).id)
    return found


def capped(browser, review, cap, verb="approve", **more):
    data = {"verb": verb, "digest": review.digest, "cap_usd": cap, "message": "Worth it.", **more}
    return browser.post(f"/reviews/{review.id}/decision", data, headers={"HX-Request": "true"})


def test_the_review_of_a_cost_overrun_asks_for_a_new_cap_and_no_other_does(browser, overrun, review):
    assert 'name="cap_usd"' in browser.get(f"/reviews/{overrun.id}").content.decode()
    assert 'name="cap_usd"' not in browser.get(f"/reviews/{review.id}").content.decode()


def test_the_new_cap_is_on_its_way_and_can_be_taken_back(browser, actor, overrun):
    capped(browser, overrun, "1.25")
    assert "New cap: <b>$1.2500</b>" in browser.get(f"/reviews/{overrun.id}").content.decode()
    back = browser.post(f"/reviews/{overrun.id}/undo", follow=True).content.decode()
    assert 'value="1.25"' in back
    capped(browser, overrun, "1.25")
    browser.post(f"/reviews/{overrun.id}/continue")
    assert Following(actor, overrun.run_id, answered=frozenset({overrun.id})).to_rest().state == "completed"
    page = browser.get(f"/runs/{overrun.run_id}").content.decode()
    assert "Cap raised" in page
    assert "$1.2500" in page


def test_the_form_offers_a_cap_that_carries_the_run_on(browser, actor, overrun):
    page = html.unescape(browser.get(f"/reviews/{overrun.id}").content.decode())
    (offered,) = re.findall(r'id="cap_usd"[^>]* value="([^"]+)"', page)
    (least,) = re.findall(r"the next call needs \$([\d.]+) or more", page)
    assert float(offered) >= float(least) > 0.0001
    assert capped(browser, overrun, "0.000101").status_code == 422
    capped(browser, overrun, offered)
    browser.post(f"/reviews/{overrun.id}/continue")
    Following(actor, overrun.run_id, answered=frozenset({overrun.id})).to_rest()
    done = [row.kind for row in run_events(actor, overrun.run_id, limit=500)]
    assert "model_answered" in done, "the call was made"


@pytest.mark.parametrize("cap", ["0.0001", "6", "much", "0.00000001", "1e3", "-1", "NaN"])
def test_a_cap_that_cannot_be_is_kept_with_what_is_wrong(browser, overrun, cap):
    answer = capped(browser, overrun, cap)
    assert answer.status_code == 422
    assert f'value="{cap}"' in answer.content.decode()
    assert not Inbox.objects.filter(run_id=overrun.run_id, input_id__startswith="decision").exists()


def test_a_rejection_is_none_of_the_cap(browser, overrun):
    assert capped(browser, overrun, "1.25", "reject", message="Too dear.").status_code == 200


@pytest.fixture
def crowded(actor):
    (found,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=CROWDED).name).id)
    return found


def test_the_review_asks_for_each_cap_that_stands_in_the_way(browser, crowded):
    page = browser.get(f"/reviews/{crowded.id}").content.decode()
    assert "New cap of stage plan</label>" in page
    assert "now 1,100 tokens, 0 tokens of it used" in page
    assert "New cap of agent planner</label>" in page
    sent = {"verb": "approve", "digest": crowded.digest, "cap_0": "50000", "cap_1": "40000", "message": "Yes."}
    answer = browser.post(f"/reviews/{crowded.id}/decision", sent, follow=True).content.decode()
    assert "New cap of stage plan: <b>50,000 tokens</b>" in answer
    back = browser.post(f"/reviews/{crowded.id}/undo", follow=True).content.decode()
    assert 'value="50000"' in back
    assert 'value="40000"' in back


@pytest.mark.parametrize("cap", ["1100", "many", "-1", "2.5", "9" * 20])
def test_a_token_cap_that_cannot_be_is_kept_with_what_is_wrong(browser, crowded, cap):
    sent = {"verb": "approve", "digest": crowded.digest, "cap_0": cap}
    answer = browser.post(f"/reviews/{crowded.id}/decision", sent, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert f'value="{cap}"' in answer.content.decode()
    assert not Inbox.objects.filter(run_id=crowded.run_id, input_id__startswith="decision").exists()
