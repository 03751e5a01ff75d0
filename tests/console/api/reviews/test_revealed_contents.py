"""Pages mask what is withheld of a content; the role safety alone reveals it, by an act that the audit stream records."""

from __future__ import annotations

import html
import json

import pytest
from django.test import Client

from fabric.core.values.fingerprint import encode
from fabric.models import AuditLine, Event, Review, Run
from fabric.selectors.contents import UNREAD
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.runs.start import find_title
from tests.fabric.services.world import ran
from tests.people import member, signed_in

KEY = "AKIA" + "QZ7T" + "M2XWPL4RD6VB"
MASK = "[credentials.aws_access_key: AKIA…, 20 characters]"


@pytest.fixture
def review(actor, paying):
    """A payment that waits, with a key in its arguments."""
    (item,) = list_open_reviews(actor, ran(actor, paying, f"Pay with {KEY}.").id)
    args = {"payload": {"to": KEY, "usd": 90}, "edit_initial": {"to": KEY, "usd": 90}}
    Review.objects.filter(id=item.id).update(content=encode({**item.given, **args}))
    return list_open_reviews(actor, item.run_id)[0]


@pytest.fixture
def event(review):
    """The run's first event, whose content is the request with the key."""
    return Event.objects.get(run_id=review.run_id, seq=1)


def told():
    lines = AuditLine.objects.filter(kind="content_revealed").order_by("at")
    bodies = [(line, json.loads(bytes(line.body))) for line in lines]
    assert all(body.pop("origin")["request"] for _, body in bodies)
    return [(line.actor, line.subject, body) for line, body in bodies]


def text(answer):
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize("address", ["/reviews/{item}", "/runs/{run}", "/runs/{run}?view=io", "/runs/{run}/events/1"])
def test_pages_mask_it(browser, review, address):
    page = text(browser.get(address.format(item=review.id, run=review.run_id)))
    assert KEY not in page
    assert "credentials.aws_access_key" in page


@pytest.mark.parametrize(
    "address", ["reviews/{item}", "reviews", "runs/{run}", "runs/{run}/events", "runs", "runs/{run}/explain"]
)
def test_the_api_masks_it(program, review, address):
    answer = program.get(f"/api/v1/{address.format(item=review.id, run=review.run_id)}")
    assert answer.status_code == 200
    assert KEY not in answer.content.decode()


@pytest.mark.parametrize("address", ["/", "/runs", "/runs/{run}", "/reviews", "/reviews/{item}", "/search?q={item}"])
def test_sentences_that_name_a_call_mask_its_arguments(browser, program, review, address):
    said = f'agent clerk asked for pay({{"to":"{KEY}"}}) 3 times'
    Review.objects.update(reason=said)
    Run.objects.update(reason=said)
    page = text(browser.get(address.format(item=review.id, run=review.run_id)))
    assert KEY not in page
    for named in ("reviews", f"reviews/{review.id}", "runs", f"runs/{review.run_id}"):
        assert KEY not in program.get(f"/api/v1/{named}").content.decode()


def test_the_api_says_that_something_is_withheld(program, review):
    assert program.get(f"/api/v1/reviews/{review.id}").json()["withheld"] is True
    assert review.content["payload"]["to"] == MASK


def test_the_reviewer_has_it_revealed_once_and_that_is_told(browser, review):
    address = f"/reviews/{review.id}"
    assert f'action="{address}/reveal"' in text(browser.get(address))
    assert told() == []
    revealed = browser.post(f"{address}/reveal")
    assert revealed.status_code == 200
    assert KEY in text(revealed)
    assert f'action="{address}/reveal"' not in text(revealed)
    assert told() == [("owner", review.id, {"run": review.run_id})]
    assert KEY not in text(browser.get(address)), "one look, one line"


def test_an_event_is_revealed_by_itself(browser, review, event):
    address = f"/runs/{review.run_id}/events/1"
    assert f'action="{address}/reveal"' in text(browser.get(address))
    assert KEY in text(browser.post(f"{address}/reveal"))
    assert told() == [("owner", review.run_id, {"seq": 1})]
    assert browser.post(f"/runs/{review.run_id}/events/2/reveal").status_code == 409


def test_programs_reveal_too(program, review, event):
    asked = program.post(f"/api/v1/reviews/{review.id}/reveal", {})
    assert asked.json()["content"]["payload"] == {"to": KEY, "usd": 90}
    given = program.post(f"/api/v1/runs/{review.run_id}/reveal", {"seq": 1})
    assert given.json()["content"]["text"] == f"Pay with {KEY}."
    assert [subject for _, subject, _ in told()] == [review.id, review.run_id]


@pytest.mark.parametrize("role", ["editor", "reviewer", "operator", "reader"])
def test_others_are_refused_with_who_may(actor, review, role):
    other = signed_in(member("ben", role))
    for address in (f"/reviews/{review.id}", f"/runs/{review.run_id}/events/1"):
        page = text(other.get(address))
        assert KEY not in page
        assert "/reveal" not in page
        assert "Only this role can reveal them: safety" in page.replace("<b>", "").replace("</b>", "")
        refused = other.post(f"{address}/reveal")
        assert refused.status_code == 403
        assert "may not do this: that is for safety" in text(refused)
    assert told() == []


@pytest.mark.parametrize("role", ["viewer", "auditor", "finance"])
def test_who_may_not_read_the_content_is_offered_nothing_to_reveal(actor, review, role):
    other = signed_in(member("ben", role))
    for address in (f"/reviews/{review.id}", f"/runs/{review.run_id}/events/1"):
        page = text(other.get(address))
        assert UNREAD in page
        assert "credentials.aws_access_key" not in page
        assert other.post(f"{address}/reveal").status_code == 403
    assert told() == []


def test_a_role_safety_without_any_other_reveals(actor, review):
    saul = signed_in(member("saul", "safety"))
    assert KEY in text(saul.post(f"/reviews/{review.id}/reveal"))
    assert told()[0][0] == "saul"


def test_nothing_to_reveal_is_said(browser, actor, paying):
    (item,) = list_open_reviews(actor, ran(actor, paying).id)
    assert "/reveal" not in text(browser.get(f"/reviews/{item.id}"))
    assert browser.post(f"/reviews/{item.id}/reveal").status_code == 409
    assert told() == []


def test_an_edit_that_keeps_a_mark_is_refused(browser, review):
    data = {"verb": "edit", "message": "Less.", "digest": review.digest, "edited": json.dumps({"to": MASK, "usd": 9})}
    refused = browser.post(f"/reviews/{review.id}/decision", data)
    assert refused.status_code == 422
    assert "the arguments hold a mark in place of a credential" in text(refused).lower()


@pytest.mark.parametrize(
    ("role", "status"),
    [("viewer", 403), ("editor", 403), ("auditor", 403), ("auditor,reader", 200), ("safety", 200), ("owner", 200)],
)
def test_a_journal_is_taken_away_byte_for_byte_by_few_and_that_is_told(actor, review, role, status):
    other = signed_in(member("ben", *role.split(",")))
    address = f"/runs/{review.run_id}/events.ndjson"
    assert ("form=journal" in text(other.get(f"/runs/{review.run_id}"))) is (status == 200)
    given = other.get(f"{address}?form=journal")
    assert given.status_code == status
    assert AuditLine.objects.filter(kind="run_exported", actor="ben").count() == (status == 200)
    if status == 403:
        assert "the readable lines have credentials masked" in text(given)
        assert other.post(f"/runs/{review.run_id}/export").status_code == 403


def test_the_readable_lines_are_for_all_members_and_masked(actor, review):
    viewer = signed_in(member("ben", "viewer"))
    given = viewer.get(f"/runs/{review.run_id}/events.ndjson?form=readable")
    lines = b"".join(_lines(given)).decode()
    assert "run_started" in lines
    assert KEY not in lines
    assert not AuditLine.objects.filter(kind="run_exported").exists()


def _lines(response):
    import asyncio

    async def all_of():
        return [piece async for piece in response.streaming_content]

    return asyncio.run(all_of())


def test_a_title_holds_no_credential():
    assert find_title(f"Pay with {KEY}.") == f"Pay with {MASK}."


def test_no_one_without_a_session_reveals(review):
    assert Client().post(f"/reviews/{review.id}/reveal").status_code in (302, 403)
    assert told() == []
