"""A person declines one call, and the run goes on without it: the agent reads why, and whatever refers to its result is not made (S2 "User feedback")."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, travel
from tests.fabric.core.scripts import asks, call, summary

TOO_DEAR = "Too dear: ask for the small room."


def asked(worker, **more):
    desk = Desk()
    return desk, go(at_the_desk(travel(), desk, worker, **more), desk)


def read_by_the_model(world):
    """Return what the agent read of its refused calls."""
    return [content["error"] for content in world.content_of(ev.CallRefused)]


@pytest.mark.parametrize("tier", Tier)
def test_a_declined_call_is_not_made_and_the_run_goes_on_with_the_words(tier):
    desk, world = asked([asks(booking(9, "pay")), summary("Not paid.")], tier=tier)
    world.decide("decline", actor="ann", message=TOO_DEAR)
    go(world, desk)
    assert desk.ledger == []
    assert world.end.state is RunState.COMPLETED
    (refused,) = world.of(ev.CallRefused)
    assert (refused.tool, refused.cause, refused.correction) == ("pay", Cause.USER_CANCEL, False)
    assert read_by_the_model(world)[0]["message"] == f"ann declined this call: {TOO_DEAR}"
    (content,) = world.content_of(ev.CallRefused)
    assert content["call"] == {"id": "call-9", "tool": "pay", "args": {"room": 9}}
    (told,) = [message.text for message in world.requests[-1].messages if message.role == "tool"]
    assert json.loads(told) == content, "the model reads the whole object"
    assert world.of(ev.ReviewDecided)[0].verb == "decline"


def test_what_refers_to_a_declined_call_is_refused_without_a_review():
    pay = booking(9, "pay")
    follows = call("pay", "after", room={"$ref": f"calls.{pay.call_id}.result.room"})
    desk, world = asked([asks(pay, follows), summary("Neither.")])
    world.decide("decline", message=TOO_DEAR)
    go(world, desk)
    assert [refused.cause for refused in world.of(ev.CallRefused)] == [Cause.USER_CANCEL, Cause.DEPENDENCY_FAILED]
    assert len(world.of(ev.ReviewOpened)) == 1
    assert (desk.ledger, world.end.state) == ([], RunState.COMPLETED)


def test_a_declined_call_may_be_proposed_otherwise():
    desk, world = asked([asks(booking(9, "pay")), asks(booking(1, "pay")), summary("Paid.")])
    world.decide("decline", message=TOO_DEAR)
    go(world, desk)
    world.decide("approve")
    go(world, desk)
    assert [args["room"] for tool, args in world.executed if tool == "pay"] == [1]
    assert world.end.state is RunState.COMPLETED


def test_who_declines_says_why():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("decline")
    go(world, desk)
    assert "needs a reason" in world.of(ev.InputIgnored)[0].reason
    assert world.run.reviews, "the review stays open"


def test_who_started_the_run_may_decline_and_not_approve():
    desk, world = asked([asks(booking(9, "pay")), summary("Not paid.")], requester="alice")
    world.decide("approve", actor="alice")
    world.decide("decline", actor="alice", message=TOO_DEAR)
    go(world, desk)
    assert [ignored.input_kind for ignored in world.of(ev.InputIgnored)] == ["decision_made"]
    assert (desk.ledger, world.end.state) == ([], RunState.COMPLETED)


def test_what_a_server_asks_in_mid_call_may_be_declined():
    """The answers to a question of a server are those to any call."""
    from fabric.core.reviews.reviews import VERBS

    assert "decline" in VERBS["pre_action"]
    assert not any("decline" in verbs for item, verbs in VERBS.items() if item != "pre_action")
