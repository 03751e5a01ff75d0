"""What is withheld of a content is masked for everybody, and revealed to the role safety alone, by an act that the audit stream tells."""

from __future__ import annotations

import html
import json

import pytest
from django.test import Client

from fabric.core.fingerprint import encode
from fabric.models import AuditLine, Escalation, Event, Run
from fabric.selectors.contents import UNREAD
from fabric.selectors.escalations import escalations_open
from fabric.services.runs import title_of
from tests.fabric.services.world import ran
from tests.people import member, signed_in

KEY = "AKIA" + "QZ7T" + "M2XWPL4RD6VB"
MASK = "[credentials.aws_access_key: AKIA…, 20 characters]"


@pytest.fixture
def question(actor, paying):
    """A payment that waits, with a key in its arguments."""
    (item,) = escalations_open(actor, ran(actor, paying, f"Pay with {KEY}.").id)
    args = {"payload": {"to": KEY, "usd": 90}, "edit_initial": {"to": KEY, "usd": 90}}
    Escalation.objects.filter(id=item.id).update(content=encode({**item.given, **args}))
    return escalations_open(actor, item.run_id)[0]


@pytest.fixture
def event(question):
    """The run's first event, whose content is the request with the key."""
    return Event.objects.get(run_id=question.run_id, seq=1)


def told():
    lines = AuditLine.objects.filter(kind="content_revealed").order_by("at")
    bodies = [(line, json.loads(bytes(line.body))) for line in lines]
    assert all(body.pop("origin")["request"] for _, body in bodies)
    return [(line.actor, line.subject, body) for line, body in bodies]


def text(answer):
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize("address", ["/reviews/{item}", "/runs/{run}", "/runs/{run}?view=io", "/runs/{run}/events/1"])
def test_pages_mask_it(browser, question, address):
    page = text(browser.get(address.format(item=question.id, run=question.run_id)))
    assert KEY not in page
    assert "credentials.aws_access_key" in page


@pytest.mark.parametrize(
    "address", ["escalations/{item}", "escalations", "runs/{run}", "runs/{run}/events", "runs", "runs/{run}/explain"]
)
def test_the_api_masks_it(program, question, address):
    answer = program.get(f"/api/v1/{address.format(item=question.id, run=question.run_id)}")
    assert answer.status_code == 200
    assert KEY not in answer.content.decode()


@pytest.mark.parametrize("address", ["/", "/runs", "/runs/{run}", "/reviews", "/reviews/{item}", "/search?q={item}"])
def test_sentences_that_name_a_call_mask_its_arguments(browser, program, question, address):
    said = f'agent clerk asked for pay({{"to":"{KEY}"}}) 3 times'
    Escalation.objects.update(reason=said)
    Run.objects.update(reason=said)
    page = text(browser.get(address.format(item=question.id, run=question.run_id)))
    assert KEY not in page
    for named in ("escalations", f"escalations/{question.id}", "runs", f"runs/{question.run_id}"):
        assert KEY not in program.get(f"/api/v1/{named}").content.decode()


def test_the_api_says_that_something_is_withheld(program, question):
    assert program.get(f"/api/v1/escalations/{question.id}").json()["withheld"] is True
    assert question.content["payload"]["to"] == MASK


def test_whoever_judges_it_has_it_revealed_once_and_that_is_told(browser, question):
    address = f"/reviews/{question.id}"
    assert f'action="{address}/reveal"' in text(browser.get(address))
    assert told() == []
    revealed = browser.post(f"{address}/reveal")
    assert revealed.status_code == 200
    assert KEY in text(revealed)
    assert f'action="{address}/reveal"' not in text(revealed)
    assert told() == [("owner", question.id, {"run": question.run_id})]
    assert KEY not in text(browser.get(address)), "one look, one line"


def test_an_event_is_revealed_by_itself(browser, question, event):
    address = f"/runs/{question.run_id}/events/1"
    assert f'action="{address}/reveal"' in text(browser.get(address))
    assert KEY in text(browser.post(f"{address}/reveal"))
    assert told() == [("owner", question.run_id, {"seq": 1})]
    assert browser.post(f"/runs/{question.run_id}/events/2/reveal").status_code == 409


def test_programs_reveal_too(program, question, event):
    asked = program.post(f"/api/v1/escalations/{question.id}/reveal", {})
    assert asked.json()["content"]["payload"] == {"to": KEY, "usd": 90}
    given = program.post(f"/api/v1/runs/{question.run_id}/reveal", {"seq": 1})
    assert given.json()["content"]["text"] == f"Pay with {KEY}."
    assert [subject for _, subject, _ in told()] == [question.id, question.run_id]


@pytest.mark.parametrize("role", ["editor", "reviewer", "operator", "reader"])
def test_others_are_refused_with_who_may(actor, question, role):
    other = signed_in(member("ben", role))
    for address in (f"/reviews/{question.id}", f"/runs/{question.run_id}/events/1"):
        page = text(other.get(address))
        assert KEY not in page
        assert "/reveal" not in page
        assert "They are revealed to the role safety alone" in page.replace("<b>", "").replace("</b>", "")
        refused = other.post(f"{address}/reveal")
        assert refused.status_code == 403
        assert "may not do this: that is for safety" in text(refused)
    assert told() == []


@pytest.mark.parametrize("role", ["viewer", "auditor", "finance"])
def test_who_may_not_read_the_content_is_offered_nothing_to_reveal(actor, question, role):
    other = signed_in(member("ben", role))
    for address in (f"/reviews/{question.id}", f"/runs/{question.run_id}/events/1"):
        page = text(other.get(address))
        assert UNREAD in page
        assert "credentials.aws_access_key" not in page
        assert other.post(f"{address}/reveal").status_code == 403
    assert told() == []


def test_a_role_safety_without_any_other_reveals(actor, question):
    saul = signed_in(member("saul", "safety"))
    assert KEY in text(saul.post(f"/reviews/{question.id}/reveal"))
    assert told()[0][0] == "saul"


def test_nothing_to_reveal_is_said(browser, actor, paying):
    (item,) = escalations_open(actor, ran(actor, paying).id)
    assert "/reveal" not in text(browser.get(f"/reviews/{item.id}"))
    assert browser.post(f"/reviews/{item.id}/reveal").status_code == 409
    assert told() == []


def test_an_edit_that_keeps_a_mark_is_refused(browser, question):
    data = {"verb": "edit", "message": "Less.", "digest": question.digest, "edited": json.dumps({"to": MASK, "usd": 9})}
    refused = browser.post(f"/reviews/{question.id}/decision", data)
    assert refused.status_code == 422
    assert "the arguments hold a mark in place of a credential" in text(refused).lower()


@pytest.mark.parametrize(
    ("role", "status"),
    [("viewer", 403), ("editor", 403), ("auditor", 403), ("auditor,reader", 200), ("safety", 200), ("owner", 200)],
)
def test_a_journal_is_taken_away_byte_for_byte_by_few_and_that_is_told(actor, question, role, status):
    other = signed_in(member("ben", *role.split(",")))
    address = f"/runs/{question.run_id}/events.ndjson"
    assert ("form=journal" in text(other.get(f"/runs/{question.run_id}"))) is (status == 200)
    given = other.get(f"{address}?form=journal")
    assert given.status_code == status
    assert AuditLine.objects.filter(kind="run_exported", actor="ben").count() == (status == 200)
    if status == 403:
        assert "the readable lines have credentials masked" in text(given)
        assert other.post(f"/runs/{question.run_id}/export").status_code == 403


def test_the_readable_lines_are_for_everybody_and_masked(actor, question):
    viewer = signed_in(member("ben", "viewer"))
    given = viewer.get(f"/runs/{question.run_id}/events.ndjson?form=readable")
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
    assert title_of(f"Pay with {KEY}.") == f"Pay with {MASK}."


def test_nobody_without_a_session_reveals(question):
    assert Client().post(f"/reviews/{question.id}/reveal").status_code in (302, 403)
    assert told() == []
