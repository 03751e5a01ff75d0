"""Writing context variables of a run over the API: what is taken, and what is refused."""

from __future__ import annotations

import pytest

from fabric.management.run_follower import Following
from fabric.models import AuditLine, Inbox
from fabric.selectors.runs.lookup import run_events
from tests.fabric.services.world import ran

RUNS = "/api/v1/runs"


@pytest.fixture
def run_id(program, talking):
    return program.post(RUNS, {"fabric": talking, "text": "What is owed?"}).json()["id"]


def write(program, run_id, body):
    return program.post(f"{RUNS}/{run_id}/context", body)


def test_what_is_written_stands_in_the_conversation(program, actor, run_id):
    answer = write(program, run_id, {"set": {"flag": True}, "delete": ["old"]})
    assert (answer.status_code, answer.json()) == (202, {"run_id": run_id, "recorded": True})
    Following(actor, run_id).to_rest()
    events = {event.kind: event for event in run_events(actor, run_id)}
    assert (events["context_written"].fact["actor"], events["context_written"].fact["writes"]) == ("owner", 2)
    assert events["speaker_chosen"].content["context"]["flag"] is True
    assert AuditLine.objects.filter(kind="context_sent").count() == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "nothing is written: set a variable, or delete one"),
        ({"set": {"outcome": "success"}}, "'outcome' is written by the engine after each turn"),
        ({"set": {"": 1}}, "the name of a variable has 1 to 200 characters"),
        ({"set": {f"k{n}": n for n in range(101)}}, "101 variables are written; at most 100 are taken at once"),
        ({"set": {"k": "x" * 100_001}}, "what is written has more than 100,000 bytes"),
        ({"set": [1]}, "set"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(program, run_id, body, said):
    answer = write(program, run_id, body)
    assert answer.status_code in (413, 422), answer.json()
    assert said in str(answer.json()).replace("Nothing is", "nothing is").replace("The name", "the name").replace(
        "What is", "what is"
    )
    assert not Inbox.objects.filter(run_id=run_id, input_id__startswith="context:").exists()


def test_a_run_without_a_conversation_or_that_has_ended_takes_none(program, actor, small, talking):
    started = program.post(RUNS, {"fabric": small, "text": "What?"}).json()["id"]
    assert "has no conversation" in write(program, started, {"set": {"k": 1}}).json()["detail"]
    ended = ran(actor, talking)
    assert "has already ended" in write(program, ended.id, {"set": {"k": 1}}).json()["detail"]
