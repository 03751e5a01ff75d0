"""Terminating, pausing and resuming from outside."""

import pytest

from fabric.core.events.inputs import INBOX, PauseRequested
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox
from fabric.selectors.runs.lookup import run_get
from fabric.services.errors import Refused
from fabric.services.runs.control import run_pause, run_resume, run_terminate
from fabric.services.runs.start import run_start
from tests.fabric.services.world import HeardNudge, ran


@pytest.fixture
def asked(store, nudge, actor, small):
    """A run that no worker has claimed yet, as the services name it."""
    started = run_start(store=store, nudge=HeardNudge(), actor=actor, fabric=small, text="What do the notes say?")
    return {"store": store, "nudge": nudge, "actor": actor, "run_id": started.run_id}


def inputs(run_id):
    rows = Inbox.objects.filter(run_id=run_id).order_by("created_at", "input_id")
    return [row.input_id for row in rows if not row.input_id.startswith("start:")]


def test_a_paused_run_is_paused_once_and_resumed_once_however_often_it_is_asked_for(asked, nudge):
    assert run_pause(**asked, reason="The end\0point moves") is True
    assert run_pause(**asked) is False
    assert run_resume(**asked) is True
    assert run_resume(**asked) is False
    assert run_pause(**asked) is True
    assert inputs(asked["run_id"]) == ["pause:1", "resume:1", "pause:2"]
    assert nudge.woken == [asked["run_id"]] * 4
    (row,) = Inbox.objects.filter(input_id="pause:1")
    given = PauseRequested(input_id="pause:1", actor="owner", reason="The end\ufffdpoint moves")
    assert INBOX.validate_json(bytes(row.body)) == given


def test_a_run_that_was_paused_before_it_began_rests_as_paused_and_ends_after_it_was_resumed(asked, actor):
    run_pause(**asked, reason="not before noon")
    run = Following(actor, asked["run_id"]).to_rest()
    assert (run.state, run.reason) == (RunState.PAUSED, "paused by owner: not before noon")
    run_resume(**asked)
    assert Following(actor, asked["run_id"]).to_rest().state is RunState.COMPLETED


def test_a_termination_needs_a_reason_and_is_asked_for_once(asked):
    with pytest.raises(Refused, match="needs a reason") as caught:
        run_terminate(**asked, reason=" \t")
    assert (caught.value.code, caught.value.field) == ("invalid", "reason")
    assert inputs(asked["run_id"]) == []
    assert run_terminate(**asked, reason="wrong customer") is True
    assert run_terminate(**asked, reason="again") is False
    assert inputs(asked["run_id"]) == ["terminate"]


def test_a_terminated_run_is_aborted_and_says_who_and_why(asked, actor):
    run_terminate(**asked, reason="wrong customer")
    run = Following(actor, asked["run_id"]).to_rest()
    assert (run.state, run.reason) == (RunState.ABORTED, "terminated by owner: wrong customer")
    assert run_terminate(**asked, reason="wrong customer") is False, "asked again after a lost answer"
    assert inputs(asked["run_id"]) == ["terminate"]


@pytest.mark.parametrize("act", [run_pause, run_resume, lambda **asked: run_terminate(**asked, reason="x")])
def test_a_run_that_has_ended_is_not_taken_hold_of(act, store, nudge, actor, small):
    run = ran(actor, small)
    with pytest.raises(Refused, match=r"already ended \(completed\)") as caught:
        act(store=store, nudge=nudge, actor=actor, run_id=run.id)
    assert caught.value.code == "conflict"
    assert nudge.woken == []


@pytest.mark.parametrize("act", [run_pause, run_resume, lambda **asked: run_terminate(**asked, reason="x")])
def test_no_one_takes_hold_of_a_run_of_another_workspace(act, asked, stranger):
    with pytest.raises(Refused) as caught:
        act(**asked | {"actor": stranger})
    assert caught.value.code == "not_found"
    assert inputs(asked["run_id"]) == []


def test_a_paused_run_shows_as_paused_at_once_after_it_was_claimed(asked, actor):
    run_pause(**asked)
    Following(actor, asked["run_id"]).to_rest()
    assert run_get(actor, asked["run_id"]).state is RunState.PAUSED
