"""`run VERB RUN`: taking hold of a run from the command line."""

import json

import pytest

from fabric.models import Inbox, Run
from fabric.selectors.runs.lookup import run_get
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from tests.fabric.management.console import command
from tests.fabric.services.world import TALKING, HeardNudge, ran


@pytest.fixture
def queued(store, actor, small):
    """A run that no worker has claimed."""
    return run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=small, text="What do the notes say?").run_id


def test_a_run_is_paused_and_resumed(queued):
    paused = command("run", "pause", queued, "--reason", "not before noon", "--json")
    assert (paused.code, paused.last["state"], paused.last["reason"]) == (
        3,
        "paused",
        "paused by owner: not before noon",
    )
    resumed = command("run", "resume", queued, "--json")
    assert (resumed.code, resumed.last["state"]) == (0, "completed")


@pytest.mark.parametrize(("verb", "state"), [("cancel", "cancelled"), ("terminate", "aborted")])
def test_a_run_is_ended(queued, verb, state):
    done = command("run", verb, queued, "--reason", "wrong customer", "--json")
    assert (done.code, done.last["state"]) == (1, state)
    assert "wrong customer" in done.last["reason"]


def test_a_fork_is_followed_to_its_end_and_the_origin_stays(actor, small):
    origin = ran(actor, small)
    done = command("run", "fork", origin.id, "--event", "1", "--input", "What is the deadline?", "--json")
    assert (done.code, done.last["state"]) == (0, "completed")
    assert done.last["run_id"] != origin.id
    assert run_get(actor, done.last["run_id"]).title == "What is the deadline?"
    assert run_get(actor, origin.id).last_seq == origin.last_seq


def test_a_fork_with_an_edited_plan(tmp_path, actor, small):
    origin = ran(actor, small)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"goal": "x"}))
    done = command(
        "run", "fork", origin.id, "--event", str(origin.last_seq - 2), "--edit", "plan", "--input", f"@{plan}"
    )
    assert (done.code, done.out) == (2, "")
    assert "the edited output of plan does not fit" in done.err


def test_a_run_that_has_ended_is_told_nothing(actor):
    run = ran(actor, fabric_publish(actor=actor, source=TALKING).name)
    done = command("run", "say", run.id, "--input", "Mind the VAT.")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"run {run.id} has already ended (completed), so it cannot take a message or a variable"
    ]
    assert not Inbox.objects.filter(run_id=run.id, input_id__startswith="say:").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("run", "terminate", "{run}"), "terminating undoes nothing, so it needs a reason"),
        (("run", "fork", "{run}"), "give the event to continue from with --event N"),
        (("run", "fork", "{run}", "--event", "1", "--edit", "plan"), "--edit needs the stage's new output"),
        (("run", "fork", "{run}", "--event", "1", "--edit", "plan", "--input", "{"), "--input is no JSON"),
        (("run", "fork", "{run}", "--event", "99"), "and no event 99"),
        (("run", "pause", "nothing"), "there is no run"),
        (("run", "start", "small"), "give the request with --input TEXT, --input @FILE"),
    ],
)
def test_wrong_input_is_one_sentence_and_changes_nothing(queued, given, said):
    done = command(*(part.replace("{run}", queued) for part in given))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert Run.objects.get().state == "queued"
