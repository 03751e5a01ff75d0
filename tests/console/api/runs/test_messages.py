"""Saying something to a run over the API: who is told what, and how often it is taken."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fabric.management.run_follower import Following
from fabric.models import Inbox
from fabric.selectors.runs.lookup import run_events
from tests.fabric.services.world import ran

RUNS = "/api/v1/runs"
KEY = {"Idempotency-Key": "note-1"}
SAID = {"text": "Mind the VAT."}


@pytest.fixture
def run_id(program, talking):
    return program.post(RUNS, {"fabric": talking, "text": "What is owed?"}).json()["id"]


def say(program, run_id, body=SAID, **more):
    return program.post(f"{RUNS}/{run_id}/say", body, **more)


def sent(run_id):
    return Inbox.objects.filter(run_id=run_id, input_id__startswith="say:").count()


def test_a_message_is_recorded_once_however_often_it_is_sent_and_read_by_who_speaks_next(program, actor, run_id):
    first, second = (say(program, run_id, headers=KEY) for _ in range(2))
    assert (first.status_code, first.json()) == (202, {"run_id": run_id, "recorded": True})
    assert (second.status_code, second.json()) == (202, {"run_id": run_id, "recorded": False})
    assert sent(run_id) == 1
    Following(actor, run_id).to_rest()
    events = {event.kind: event for event in run_events(actor, run_id)}
    assert (events["person_said"].fact["actor"], events["person_said"].content["text"]) == ("owner", SAID["text"])
    assert "owner, a person, says: Mind the VAT." in events["turn_opened"].content["text"]
    assert say(program, run_id, headers=KEY).json()["recorded"] is False


def test_a_key_that_was_another_message_s_is_refused(program, run_id):
    say(program, run_id, headers=KEY)
    answer = say(program, run_id, {"text": "Mind the tax."}, headers=KEY)
    told = answer.json()
    assert (answer.status_code, told["errors"][0]["path"]) == (409, "Idempotency-Key")
    assert "was used for another message to this run" in told["detail"]
    assert sent(run_id) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "text is missing"),
        ({"text": ""}, "too few characters"),
        ({"text": " \n "}, "a message without words says nothing"),
        ({"text": "x" * 20_001}, "at most 20000 are taken"),
        ({"text": 3}, "must be a string"),
        ({**SAID, "to": "reader"}, "is no field here"),
    ],
)
def test_a_text_that_is_none_or_too_long_is_refused_in_a_sentence(program, run_id, body, said):
    answer = say(program, run_id, body)
    assert answer.status_code == 422
    assert said in answer.json()["errors"][0]["message"].lower().replace("x is", "is")
    assert sent(run_id) == 0


def test_no_agent_gets_messages_without_a_conversation(program, actor, small, talking):
    missing = say(program, uuid4())
    assert (missing.status_code, "there is no run" in missing.json()["detail"].lower()) == (404, True)
    supervised = program.post(RUNS, {"fabric": small, "text": "Why?"}).json()["id"]
    silent = say(program, supervised)
    assert (silent.status_code, "has no conversation" in silent.json()["detail"]) == (409, True)
    ended = say(program, ran(actor, talking).id)
    assert (ended.status_code, "has already ended (completed)" in ended.json()["detail"]) == (409, True)
