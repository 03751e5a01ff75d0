"""A person's message to a run: who may send one, to which runs, how often it is taken, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Inbox, Run
from fabric.runtime.ports.journal import Document
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.runs.families import find_team
from fabric.selectors.runs.lookup import run_events, run_get
from fabric.selectors.runs.story.fold import run_story
from fabric.selectors.runs.story.messages import closed_because, find_messages, takes_turns
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.installation.retention import retention_apply, retention_set
from fabric.services.runs.control import MESSAGE_CHARS_MAX, run_context, run_say
from fabric.services.runs.start import run_start
from tests.fabric.services.world import TALKING, HeardNudge, ran, sample


@pytest.fixture
def talking(actor):
    return fabric_publish(actor=actor, source=TALKING).name


@pytest.fixture
def asked(store, nudge, actor, talking):
    """A run that no worker has claimed yet, whose workers will take turns."""
    run_id = run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=talking, text="What is owed?").run_id
    return {"store": store, "nudge": nudge, "actor": actor, "run_id": run_id}


def inbox(run_id):
    rows = Inbox.objects.filter(run_id=run_id, input_id__startswith="say:")
    return sorted(rows.values_list("input_id", flat=True))


def refused(**asked):
    with pytest.raises(Refused) as caught:
        run_say(**asked)
    return caught.value.code, caught.value.field, str(caught.value)


def test_under_one_key_a_message_is_sent_once_and_no_other_one(asked, nudge):
    assert run_say(**asked, text=" Mind the\0VAT. ", start_key="k" * 200) is True
    assert run_say(**asked, text="Mind the\ufffdVAT.", start_key="k" * 200) is False
    code, field, said = refused(**asked, text="Mind the tax.", start_key="k" * 200)
    assert (code, field) == ("conflict", "start_key")
    assert "was used for another message" in said
    ana = replace(asked["actor"], name="ana")
    assert refused(**{**asked, "actor": ana}, text="Mind the\ufffdVAT.", start_key="k" * 200)[:2] == (code, field)
    assert inbox(asked["run_id"]) == [f"say:{'k' * 200}"]
    assert refused(**asked, text="Hello?", start_key="k" * 201)[:2] == ("too_large", "start_key")
    assert nudge.woken == [asked["run_id"]]


def test_under_one_key_variables_are_written_once_and_in_no_other_way(asked):
    assert run_context(**asked, set={"k": 1}, start_key="one") is True
    assert run_context(**asked, set={"k": 1}, start_key="one") is False
    with pytest.raises(Refused, match="was used for another change of this run") as refusal:
        run_context(**asked, set={"k": 2}, start_key="one")
    assert (refusal.value.code, refusal.value.field) == ("conflict", "start_key")
    assert run_context(**asked, set={"k": 1}) is True


def test_without_a_key_each_is_another_one(asked):
    assert run_say(**asked, text="Mind the VAT.") is run_say(**asked, text="Mind the VAT.") is True
    assert len(inbox(asked["run_id"])) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" \t\n", "a message without words says nothing"),
        ("x" * (MESSAGE_CHARS_MAX + 1), "has 20,001 characters; at most 20,000 are taken"),
    ],
)
def test_a_text_is_neither_empty_nor_too_long(asked, text, said):
    code, field, sentence = refused(**asked, text=text)
    assert (code, field) == ("invalid", "text")
    assert said in sentence
    assert inbox(asked["run_id"]) == []
    assert run_say(**asked, text="x" * MESSAGE_CHARS_MAX) is True


def test_runs_without_a_conversation_are_told_nothing(asked, actor, stranger, small):
    supervised = {**asked, "run_id": run_start(**_ports(asked), fabric=small, text="Why?").run_id}
    assert not takes_turns(run_get(actor, supervised["run_id"]))
    code, _, said = refused(**supervised, text="Hello?")
    assert (code, "has no conversation" in said) == ("conflict", True)
    assert refused(**{**asked, "actor": stranger}, text="Hello?")[0] == "not_found"
    assert refused(**{**asked, "run_id": str(uuid4())}, text="Hello?")[0] == "not_found"
    Run.objects.filter(id=asked["run_id"]).update(state=RunState.CANCELLING)
    code, _, said = refused(**asked, text="Hello?")
    assert (code, "is ending (cancelling)" in said) == ("conflict", True)
    assert inbox(asked["run_id"]) == inbox(supervised["run_id"]) == []


def _ports(asked):
    return {name: asked[name] for name in ("store", "nudge", "actor")}


def test_who_may_not_take_hold_of_runs_may_not_speak_in_them(asked):
    viewer = replace(asked["actor"], roles=frozenset({"viewer"}))
    assert refused(**{**asked, "actor": viewer}, text="Hello?")[0] == "forbidden"


def test_the_next_speaker_has_read_it_and_the_run_says_who_said_it(asked, actor):
    run_say(**asked, text="Mind the VAT.", start_key="one")
    run = run_get(actor, asked["run_id"])
    (sent,), earlier = find_messages(actor, run, run_story(actor, run.id))
    assert (sent.actor, sent.text, sent.said, earlier) == ("owner", "Mind the VAT.", None, 0)
    run = Following(actor, run.id).to_rest()
    assert run.state is RunState.COMPLETED
    story = run_story(actor, run.id)
    (read,), _ = find_messages(actor, run, story)
    assert (read.actor, read.text) == ("owner", "Mind the VAT.")
    assert (read.said.reader, read.said.turn, read.said.epoch, read.said.after) == ("reader", 2, 0, 1)
    opened = {event.seq: event for event in run_events(actor, run.id) if event.kind == "turn_opened"}
    assert "owner, a person, says: Mind the VAT." in opened[read.said.read_seq].content["text"]
    assert len(opened) == 2
    assert [one.content for seq, one in opened.items() if seq != read.said.read_seq] == [None]
    (line,) = AuditLine.objects.filter(kind="message_sent")
    assert (line.actor, line.subject) == ("owner", run.id)


def test_the_same_again_after_the_end_is_no_error_and_another_one_is(asked, actor):
    run_say(**asked, text="Mind the VAT.", start_key="one")
    run = Following(actor, asked["run_id"]).to_rest()
    assert run_say(**asked, text="Mind the VAT.", start_key="one") is False
    assert refused(**asked, text="Mind the tax.", start_key="one")[1] == "start_key"
    code, _, said = refused(**asked, text="Too late.")
    assert (code, "has already ended (completed)" in said) == ("conflict", True)
    assert closed_because(run, None) == "the run has ended"


def test_what_was_said_is_erased_with_its_run(asked, actor):
    run_say(**asked, text="Mind the VAT.", start_key="one")
    run = Following(actor, asked["run_id"]).to_rest()
    retention_set(actor=actor, days=1)
    assert retention_apply(now=2**62)
    (sent,), _ = find_messages(actor, run, run_story(actor, run.id))
    assert (sent.actor, sent.text, sent.said.reader) == ("owner", None, "reader")
    assert refused(**asked, text="Mind the VAT.", start_key="one")[0] == "conflict"


def test_the_run_of_a_team_has_a_conversation_where_its_members_take_turns(actor):
    fabric_publish(actor=actor, source=sample("research-teams").replace("delay_s: 0.3", "delay_s: 0"))
    run = ran(
        actor, "research-teams", "Compare what the notes say about costs.", (Document("n.md", "It costs 40 dollars."),)
    )
    teams = revision_spec(run.revision_id).topology.teams
    of_teams = [run_get(actor, one) for one in Run.objects.filter(root_run_id=run.id).values_list("id", flat=True)]
    told = {find_team(one): takes_turns(one) for one in of_teams}
    assert told == {lead: teams[lead].topology.kind in ("graph", "handoff") for lead in told}
    assert True in told.values()
    assert takes_turns(run) is False


def test_a_run_without_a_conversation_has_no_messages(actor, small):
    run = ran(actor, small)
    assert find_messages(actor, run, run_story(actor, run.id)) == ([], 0)
