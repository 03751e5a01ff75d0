"""Questions to people: what the card says, answering, answering twice."""

from __future__ import annotations

import html

import pytest
from django.contrib.auth.models import User
from django.test import Client

from fabric.models import Escalation, Inbox
from fabric.selectors.escalations import escalations_open
from fabric.services.fabrics import fabric_publish
from fabric.services.workspaces import login_link_create
from tests.fabric.services.world import DOUBTFUL, ran


@pytest.fixture
def waiting(actor, doubtful):
    run = ran(actor, doubtful)
    assert run.state == "waiting"
    return run


@pytest.fixture
def question(actor, waiting):
    (found,) = escalations_open(actor, waiting.id)
    return found


def answer(browser, question, verb="approve", message="", **headers):
    data = {"verb": verb, "message": message, "digest": question.digest}
    return browser.post(f"/reviews/{question.id}/decision", data, headers=headers)


def decisions(run):
    return [bytes(row.body) for row in Inbox.objects.filter(run_id=run.id, input_id__startswith="decision")]


def test_nothing_waits(browser):
    assert b"Nothing waits for you" in browser.get("/reviews").content


def test_the_list_leads_to_the_run(browser, waiting, question):
    page = browser.get("/reviews").content.decode()
    assert f"/runs/{waiting.id}#question-{question.id}" in page
    assert '<span class="count" data-tone="human">1' in page


def test_the_card_says_why_and_what_follows(browser, waiting, question):
    page = html.unescape(browser.get(f"/runs/{waiting.id}").content.decode())
    assert question.reason[1:] in page
    assert "limit 0.7" in page
    assert "0.55" in page
    for verb in question.verbs:
        assert f'name="verb" value="{verb}"' in page
    assert question.content["approve"] in page
    assert question.content["reject"] in page
    assert "ejected by the system" in page
    assert question.content["payload"]["text"][:40] in page
    assert "csrfmiddlewaretoken" in page


def test_approving(browser, waiting, question):
    done = answer(browser, question)
    assert done.headers["Location"] == f"/runs/{waiting.id}"
    (body,) = decisions(waiting)
    assert b'"verb":"approve"' in body
    assert b'"actor":"owner"' in body


def test_the_script_gets_a_part(browser, question):
    done = answer(browser, question, **{"HX-Request": "true"})
    assert done.status_code == 200
    assert b"You approved this" in done.content
    assert b"<!doctype" not in done.content


def test_twice_the_same_is_once(browser, waiting, question):
    assert [answer(browser, question).status_code for _ in range(2)] == [302, 302]
    assert len(decisions(waiting)) == 1


def test_rejecting_needs_a_reason(browser, waiting, question):
    refused = answer(browser, question, "reject")
    assert refused.status_code == 422
    assert b"A rejection needs a reason" in refused.content
    assert decisions(waiting) == []
    assert answer(browser, question, "reject", "the numbers are wrong").status_code == 302
    assert b"the numbers are wrong" in decisions(waiting)[0]


def test_who_was_faster_is_said_and_nothing_written_is_lost(browser, waiting, question):
    ana = User.objects.create_user("ana")
    other = Client(HTTP_HOST="127.0.0.1")
    other.post(f"/login/{login_link_create(ana)}")
    assert answer(other, question).status_code == 302
    for headers in ({}, {"HX-Request": "true"}):
        refused = answer(browser, question, "reject", "not like this", **headers)
        assert refused.status_code == 409
        page = refused.content.decode()
        assert "was answered by ana at" in page
        assert "not like this</textarea>" in page
    assert len(decisions(waiting)) == 1


def test_a_question_that_was_answered_long_ago(browser, waiting, question):
    Escalation.objects.filter(id=question.id).update(
        decided_at=question.opened_at + 1, verb="approve", decided_by="ana"
    )
    refused = answer(browser, question)
    assert refused.status_code == 409
    assert b"was answered by ana" in refused.content
    assert b'name="verb"' not in refused.content


def test_another_question_than_the_one_that_was_read(browser, waiting, question):
    refused = browser.post(f"/reviews/{question.id}/decision", {"verb": "approve", "digest": "0" * 32})
    assert refused.status_code == 409
    assert b"asks about something else by now" in refused.content
    assert decisions(waiting) == []


@pytest.mark.parametrize("verb", ["", "edit", "delete", "x" * 50])
def test_no_such_answer(browser, waiting, question, verb):
    assert answer(browser, question, verb).status_code == 422
    assert decisions(waiting) == []


def test_a_message_that_is_too_long_is_kept(browser, question):
    refused = answer(browser, question, "approve", "z" * 4_001)
    assert refused.status_code == 422
    assert b"z" * 4_001 in refused.content


def test_an_unknown_and_a_foreign_question_are_not_here(browser, actor, stranger, owner):
    fabric_publish(actor=stranger, source=DOUBTFUL)
    theirs = ran(stranger, "doubtful")
    (question,) = escalations_open(stranger, theirs.id)
    for escalation_id in (question.id, "0123456789abcdef"):
        assert browser.post(f"/reviews/{escalation_id}/decision", {"verb": "approve"}).status_code == 404
    assert decisions(theirs) == []


def test_the_part_of_the_page_that_each_viewer_fetches(browser, waiting, question):
    part = browser.get(f"/runs/{waiting.id}/question").content.decode()
    assert part.startswith('<section id="panel-ask"')
    assert f"question-{question.id}" in part
