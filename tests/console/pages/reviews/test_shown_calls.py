"""A page of reviews shows, before an answer is taken, the call whole, its effect and who proposed it; and nothing once the time is over."""

from __future__ import annotations

import html
import re

import pytest

from fabric.core.values.fingerprint import encode
from fabric.models import Inbox, Review
from fabric.selectors.reviews.lookup import list_open_reviews
from tests.fabric.services.world import ran

TOGETHER = "/reviews/together"


@pytest.fixture
def payments(actor, paying):
    """Two payments that wait."""
    return [list_open_reviews(actor, ran(actor, paying, f"Invoice {n}.").id)[0] for n in range(2)]


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def put(item, **content):
    """Another content in the review's row, as its run would have written it."""
    Review.objects.filter(id=item.id).update(content=encode({**item.content, **content}))


def picked(*items):
    return [f"{item.id}:{item.digest}" for item in items]


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"to": "Nordwind \u202eGmbH\u200b", "usd": 77}, '"to": "Nordwind ⟨U+202E⟩GmbH⟨U+200B⟩", "usd": 77'),
        ({"text": "Paid.", "to": "Ana"}, '"text": "Paid.", "to": "Ana"'),
        ({}, "{}"),
    ],
    ids=["hidden characters", "a text among others", "no arguments"],
)
def test_a_call_is_shown_whole_on_its_page_and_among_several(browser, payments, payload, shown):
    put(payments[0], payload=payload)
    pages = (
        browser.get(f"/reviews/{payments[0].id}"),
        browser.post(TOGETHER, {"item": picked(*payments)}),
    )
    for page in pages:
        text = text_of(page)
        assert shown in text
        assert re.search(r"pay irreversible proposed by reader", text)
        assert "Pays somebody." in text


def test_what_passes_beside_a_text_is_shown_too(browser, payments):
    put(payments[0], tool="", payload={"text": "All is well.", "citations": ["a.md"], "gaps": ["no price"], "data": 7})
    text = text_of(browser.get(f"/reviews/{payments[0].id}"))
    assert "All is well." in text
    assert '"data": 7, "gaps": [ "no price" ]' in text


def test_several_are_bound_to_what_is_shown_and_what_changed_is_said(browser, payments):
    page = browser.post(TOGETHER, {"item": [f"{payments[0].id}:{'0' * 32}", *picked(payments[1])]})
    text = page.content.decode()
    assert text.count("Changed since you picked it") == 1
    assert all(f'value="{one}"' in text for one in picked(*payments))
    # What changes while a reviewer reads is left out, and listed with its reason.
    sent = {"item": [f"{payments[0].id}:{'0' * 32}", *picked(payments[1])], "sure": "1", "verb": "approve"}
    said = text_of(browser.post(TOGETHER, sent))
    assert said.count("Not recorded") == 1
    assert "nothing was shown under that digest" in said.lower()
    assert Inbox.objects.filter(input_id__startswith="decision:").count() == 1


def test_one_whose_time_is_over_takes_no_answer(browser, payments):
    item = payments[0]
    Review.objects.filter(id=item.id).update(due_at=item.opened_at)
    for address in (f"/reviews/{item.id}", f"/runs/{item.run_id}"):
        page = browser.get(address).content.decode()
        assert "The time to answer ended" in page
        assert f'action="/reviews/{item.id}/decision"' not in page
    sent = {"verb": "approve", "digest": item.digest}
    answer = browser.post(f"/reviews/{item.id}/decision", sent)
    assert (answer.status_code, "an answer comes too late" in text_of(answer)) == (409, True)
    said = text_of(browser.post(TOGETHER, {"item": picked(*payments), "sure": "1", "verb": "approve"}))
    assert "an answer comes too late" in said
    assert not Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision:").exists()


@pytest.mark.parametrize(
    ("closed", "why", "recorded_why"),
    [
        ({"due_at": 1}, "an answer comes too late", "an answer comes too late"),
        (
            {"decided_at": 5, "decided_by": "system", "by_system": True, "verb": "reject"},
            "It is answered already",
            "was decided by the system",
        ),
    ],
    ids=["its time is over", "it expired"],
)
def test_of_several_the_closed_ones_are_named_and_the_others_answered(browser, payments, closed, why, recorded_why):
    """Before the answer is written, and while a reviewer writes it."""
    over, waiting = payments
    Review.objects.filter(id=over.id).update(**closed)
    page = browser.post(TOGETHER, {"item": picked(*payments)})
    text = text_of(page)
    assert (page.status_code, "Decide 1 review together?" in text, text.count(why)) == (200, True, 1)
    assert f'value="{picked(over)[0]}"' not in page.content.decode()
    answer = browser.post(TOGETHER, {"item": picked(*payments), "sure": "1", "verb": "approve"})
    said = text_of(answer)
    assert (answer.status_code, said.count("Not recorded"), recorded_why in said) == (200, 1, True)
    sent = Inbox.objects.filter(input_id__startswith="decision:").values_list("run_id", flat=True)
    assert list(sent) == [waiting.run_id]


def test_where_none_takes_an_answer_any_more_that_is_said(browser, payments):
    Review.objects.update(due_at=1)
    page = browser.post(TOGETHER, {"item": picked(*payments)})
    text = text_of(page)
    assert (page.status_code, text.count("an answer comes too late")) == (422, 2)
    assert "None of these accepts an answer any more: reload the list" in text
    assert "nothing is picked" in text_of(browser.post(TOGETHER, {})).lower()


def test_what_is_written_too_late_is_not_lost(browser, payments):
    item = payments[0]
    Review.objects.filter(id=item.id).update(due_at=item.opened_at)
    sent = {"verb": "reject", "digest": item.digest, "message": "It was paid before."}
    answer = browser.post(f"/reviews/{item.id}/decision", sent)
    assert (answer.status_code, "It was paid before.</pre>" in answer.content.decode()) == (409, True)
    assert "If you submit this" not in text_of(browser.get(f"/reviews/{item.id}")), "nothing can be submitted"


def test_who_takes_an_answer_back_after_the_time_is_warned_and_answers_no_more(browser, actor, payments):
    item = payments[0]
    sent = {"verb": "reject", "digest": item.digest, "message": "It was paid before."}
    assert browser.post(f"/reviews/{item.id}/decision", sent).status_code == 302
    pages = (f"/reviews/{item.id}", f"/runs/{item.run_id}")
    warned = "If you undo this, no other answer is accepted: rejected by the system"
    assert [warned in text_of(browser.get(page)) for page in pages] == [False, False]
    Review.objects.filter(id=item.id).update(due_at=item.opened_at)
    assert [warned in text_of(browser.get(page)) for page in pages] == [True, True]
    undo = "was answered by owner at"
    told = browser.get(f"/api/v1/reviews/{item.id}").json()
    assert (told["answer"]["verb"], undo in told["why_not"], "owner can undo it until" in told["why_not"]) == (
        "reject",
        True,
        True,
    )
    for told in browser.get("/api/v1/reviews").json()["reviews"]:
        assert (undo in told["why_not"], told["why_not"] == "") == (told["id"] == item.id, told["id"] != item.id)
    together = text_of(browser.post(TOGETHER, {"item": picked(*payments)}))
    assert ("owner can undo it until" in together, "too late" in together) == (True, False)
    (row,) = re.findall(rf'<tr id="ask-{item.id}".*?</tr>', browser.get("/reviews").content.decode(), re.DOTALL)
    assert ("Answered, on its way" in row, "rejected by owner" in row) == (True, True)
    assert ("unanswered by then" in row, "Overdue" in row) == (False, False)
    assert browser.post(f"/reviews/{item.id}/undo").status_code == 302
    for page in pages:
        content = browser.get(page).content.decode()
        assert "The time to answer ended" in content
        assert f'action="/reviews/{item.id}/decision"' not in content
        assert "Decide</a>" not in content
    assert "It was paid before.</pre>" in browser.get(pages[0]).content.decode(), "what was written is still there"
    told = browser.get(f"/api/v1/reviews/{item.id}").json()
    assert (told["answer"], "an answer comes too late" in told["why_not"]) == (None, True)


def test_a_form_without_a_digest_approves_nothing(browser, payments):
    answer = browser.post(f"/reviews/{payments[0].id}/decision", {"verb": "approve"})
    assert (answer.status_code, "give the digest" in text_of(answer)) == (422, True)
    assert not Inbox.objects.filter(input_id__startswith="decision:").exists()
