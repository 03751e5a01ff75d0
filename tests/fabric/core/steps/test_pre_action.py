"""Irreversible calls: last in their wave, after a person's word, never again while their outcome is unknown; skipped in unwinding, and said."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.reviews import reviews
from fabric.core.steps import pre_action
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.flow import RunState
from fabric.core.values.saga import build_key, read_scope
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, travel
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import asks, call, fails, gives, summary

AUTH = fails(Cause.AUTH, "401")


def test_an_irreversible_call_is_asked_about_at_once_and_waits_for_a_persons_word():
    desk = Desk()
    world = go(at_the_desk(travel(), desk, [asks(booking(9, "pay"), booking(1)), summary()]), desk)
    kinds = world.kinds
    assert kinds.index("tool_answered") > kinds.index("review_opened"), "asked when its wave was over"
    review = world.review.fact
    assert (review.item, review.scope, review.step_id) == (
        "pre_action",
        "fan_out.0.e0.r0.t1.c0",
        "fan_out.0.e0.r0",
    )
    assert [fact.target for fact in world.of(ev.CallIssued) if fact.call == "tool"] == ["book"]
    assert world.content_of(ev.ReviewOpened)[0]["payload"] == {"room": 9}
    world.decide("approve")
    go(world, desk)
    assert [fact.target for fact in world.of(ev.CallIssued) if fact.call == "tool"] == ["book", "pay"]
    assert world.end.state is RunState.COMPLETED
    assert len(desk.booked) == 2


@pytest.mark.parametrize("by", ["person", "time"])
def test_what_is_rejected_is_not_called(by):
    desk = Desk()
    world = go(at_the_desk(travel(), desk, [asks(booking(9, "pay")), summary()], tier=Tier.BATCH), desk)
    if by == "person":
        world.decide("reject", message="too dear")
    else:
        world.wait(90_000)
    go(world, desk)
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")
    assert world.of(ev.CallRefused)[0].tool == "pay"
    assert desk.ledger == []


def test_an_approval_about_other_bytes_counts_for_nothing():
    desk = Desk()
    world = go(at_the_desk(travel(), desk, [asks(booking(9, "pay")), summary()]), desk)
    world.decide("approve", digest="another")
    go(world, desk)
    assert world.of(ev.InputIgnored)
    assert desk.ledger == []


def test_it_is_skipped_in_unwinding_and_said():
    desk = Desk()
    fabric = travel(pay={"approval": "waived", "deviation": "small sums"})
    world = go(at_the_desk(fabric, desk, [asks(booking(1)), asks(booking(9, "pay")), AUTH]), desk)
    assert world.of(ev.ReviewOpened) == []
    assert [fact.tool for fact in world.of(ev.CompensationSkipped)] == ["pay"]
    assert world.of(ev.UnwindingFinished)[0].stays == ("pay",)
    assert "not undone: pay" in world.end.reason
    assert desk.cancelled == desk.booked[:1]


def test_one_whose_outcome_is_unknown_is_never_sent_again_even_by_a_persons_word():
    desk = Desk(lost={1})
    fabric = travel(pay={"approval": "waived", "deviation": "small sums", "reconcile": "find"})
    world = go(at_the_desk(fabric, desk, [asks(booking(9, "pay")), asks(booking(9, "pay")), summary()]), desk)
    assert world.of(ev.ReconciliationIssued) == []
    world.decide("approve")
    go(world, desk)
    assert sum(c.kind == "call_tool" and c.tool == "pay" for c in world.performed) == 1
    assert "never sent again" in world.of(ev.CallRefused)[-1].problem
    assert world.end.state is RunState.COMPLETED


# -- other words than yes and no -------------------------------------------------------------------------------------


def asked(worker, **more):
    desk = Desk()
    return desk, go(at_the_desk(travel(), desk, worker, **more), desk)


def paid(world):
    return [fact for fact in world.of(ev.CallIssued) if fact.target == "pay"]


def test_every_verb_has_its_way():
    assert set(pre_action.ANSWERS) == set(reviews.VERBS["pre_action"])


def test_an_edited_call_is_made_with_the_bytes_of_the_person_under_their_own_key():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("edit", edited={"room": 4})
    go(world, desk)
    (edited,), (issued,) = world.of(ev.CallEdited), paid(world)
    assert (edited.proposed_hash, edited.args_hash) == (fingerprint({"room": 9}), fingerprint({"room": 4}))
    assert issued.args_hash == fingerprint({"room": 4})
    (intended,) = world.of(ev.MutationIntended)
    assert (
        intended.key
        == issued.key
        == build_key("run-1", read_scope("fan_out.0.e0.r0", carry_over=False), "pay", issued.args_hash, 0)
    )
    assert world.executed == [("pay", {"room": 4})]
    assert world.of(ev.ToolAnswered)[0].args_hash == issued.args_hash
    assert world.end.state is RunState.COMPLETED
    assert len(world.of(ev.ReviewOpened)) == 1, "the person's own bytes are not asked about again"


def test_the_agent_is_told_what_was_changed():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("edit", edited={"room": 4}, message="the cheap one")
    go(world, desk)
    (told,) = world.content_of(ev.MessageInjected)
    assert "changed the arguments of your call call-9 of pay and says: the cheap one" in told["text"]
    assert '{"room":4}' in told["text"]


def test_an_edit_that_changes_nothing_is_an_approval():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("edit", edited={"room": 9})
    go(world, desk)
    assert world.of(ev.CallEdited) == []
    assert paid(world)[0].args_hash == fingerprint({"room": 9})


@pytest.mark.parametrize("edited", [None, 4, "room 4", [1], {"room": "no"}])
def test_an_edit_that_does_not_fit_is_ignored_with_its_reason_and_the_review_stays(edited):
    def room_is_a_number(args):
        return [] if isinstance(args.get("room"), int) else ["room is no number"]

    desk, world = asked([asks(booking(9, "pay")), summary()], validators={"pay": room_is_a_number})
    world.decide("edit", edited=edited)
    go(world, desk)
    assert world.of(ev.InputIgnored)[-1].reason.startswith("the edited arguments ")
    assert world.run.reviews
    world.decide("approve")
    go(world, desk)
    assert len(desk.booked) == 1


def test_an_edit_meets_the_protections_again():
    """The third equal call is the third one, with arguments of any author."""
    first = [asks(call("pay", f"call-{n}", room=n)) for n in (1, 2, 3)]
    desk = Desk()
    world = World(travel(), {"worker": [*first, summary()], "pay": gives("done")}).start()
    for _ in range(3):
        go(world, desk)
        world.decide("edit", edited={"room": 7})
    go(world, desk)
    refused = [fact for fact in world.of(ev.CallRefused) if fact.mechanism == "loop_detector"]
    assert [fact.args_hash for fact in refused] == [fingerprint({"room": 7})]
    assert len(paid(world)) == 2
    assert len({fact.key for fact in paid(world)}) == 2, "two equal calls of one activation are two"


def test_a_response_stands_in_place_of_the_result_and_nothing_is_called():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("respond", message="Ana pays by card.")
    go(world, desk)
    assert (desk.ledger, world.of(ev.MutationIntended), paid(world)) == ([], [], [])
    assert world.content_of(ev.CallResponded) == [{"result": "Ana pays by card."}]
    told = [message for message in world.performed[-1].messages if message.role == "tool"]
    assert [(message.call_id, message.error) for message in told] == [("call-9", False)]
    assert world.end.state is RunState.COMPLETED


def test_an_empty_response_is_none():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("respond")
    go(world, desk)
    assert "this one is empty" in world.of(ev.InputIgnored)[0].reason
    assert world.run.reviews


def test_what_a_person_wrote_survives_the_loss_of_the_worker():
    desk, world = asked([asks(booking(9, "pay")), summary()])
    world.decide("edit", edited={"room": 4})
    world.crash()
    assert world.of(ev.CallEdited)
    assert world.of(ev.ToolAnswered) == []
    world.crash()
    go(world, desk)
    assert world.review.fact.item == "failure", "the call was out when its worker died, and its outcome is unknown"
    assert {fact.args_hash for fact in paid(world)} == {fingerprint({"room": 4})}
    assert {str(args) for name, args in world.executed if name == "pay"} == {"{'room': 4}"}
