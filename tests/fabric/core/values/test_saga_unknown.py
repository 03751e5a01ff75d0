"""Calls that change the world and whose outcome is unknown: reconciled or asked about, never sent again blindly."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.engine import decide
from fabric.core.events.inputs import CancelRequested, ToolFinished
from fabric.core.state.context import Contents, Context
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Outcome, Status
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, in_turn, never_sent, one_by_one, say_no, travel
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import Answer, asks, fails, summary

AUTH = fails(Cause.AUTH, "401")


@pytest.mark.parametrize("tier", list(Tier))
def test_without_a_reconcile_tool_a_person_is_asked_and_nothing_is_sent_meanwhile(tier):
    desk = Desk(lost={1})
    world = go(at_the_desk(travel(), desk, one_by_one(1), tier=tier), desk)
    review = world.review.fact
    assert (review.item, review.failure_type) == ("failure", None)
    assert "it is unknown whether book was executed" in review.reason
    assert len([c for c in world.performed if c.kind == "call_tool"]) == 1
    world.decide("reject", message="no")
    go(world, desk)
    assert (world.end.state, desk.cancelled) == (RunState.ABORTED, desk.booked)
    assert "1 of its changes was undone" in world.end.reason


def test_a_persons_word_sends_it_again_under_the_same_key():
    desk = Desk(lost={1})
    world = go(at_the_desk(travel(), desk, [asks(booking(1)), asks(booking(1)), summary()]), desk)
    world.decide("approve")
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    first, second = world.of(ev.MutationIntended)
    assert first.key == second.key
    assert first.command_id != second.command_id
    assert desk.booked == [first.key]


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "never sent"])
def test_that_a_second_attempt_was_not_done_says_nothing_of_the_first(refused):
    """Done, and its answer lost; sent again by a person's word, and refused then: whether the first was done is as unknown as before."""
    desk = Desk(lost={1})
    world = at_the_desk(travel(), desk, [asks(booking(1)), asks(booking(1)), summary()])
    again = say_no() if refused else never_sent()
    world.script = {**world.script, "book": in_turn(desk.script()["book"], again)}
    go(world, desk)
    world.decide("approve")
    go(world, desk)
    assert world.run.saga.mutations[0].doubted
    assert [one.status for one in world.of(ev.MutationSettled)] == [Status.UNKNOWN, Status.UNKNOWN]
    assert "it is unknown whether book was executed" in world.review.fact.reason
    world.decide("reject")
    go(world, desk)
    assert desk.cancelled == desk.booked != []


def test_a_reconcile_tool_knows_of_every_attempt_under_the_key():
    desk = Desk()
    world = at_the_desk(travel(book={"reconcile": "find"}), desk, [asks(booking(1)), asks(booking(1)), summary()])
    unknown = fails(Cause.SERVER_ERROR, "503")
    world.script = {**world.script, "book": in_turn(unknown, never_sent(), desk.script()["book"])}
    world.script |= {"find": [unknown] * 3}
    go(world, desk)
    world.script = {**world.script, "find": desk.script()["find"]}
    world.decide("approve")
    go(world, desk)
    assert world.of(ev.ReconciliationEnded)[-1].found == "not_executed"
    statuses = [one.status for one in world.of(ev.MutationSettled)]
    assert statuses == [Status.UNKNOWN, Status.UNKNOWN, Status.NOT_EXECUTED]


@pytest.mark.parametrize("executed", [True, False])
def test_a_reconcile_tool_is_asked_first(executed):
    desk = Desk(lost={1}) if executed else Desk(silent={1})
    world = go(at_the_desk(travel(book={"reconcile": "find"}), desk, one_by_one(1)), desk)
    assert world.end.state is RunState.COMPLETED
    assert [entry.what for entry in desk.ledger] == (["book", "ask"] if executed else ["ask", "book"])
    assert world.of(ev.ReconciliationEnded)[0].found == ("executed" if executed else "not_executed")
    assert len(desk.booked) == 1
    assert world.reactions == ([] if executed else ["retry"])
    last = world.content_of(ev.ToolAnswered)[-1]
    assert last == {"result": {"id": "b-1"}}


def test_a_reconcile_tool_that_does_not_say_leaves_it_to_a_person():
    desk = Desk(lost={1})
    world = at_the_desk(travel(book={"reconcile": "find"}), desk, one_by_one(1))
    world.script = {**world.script, "find": fails(Cause.SERVER_ERROR, "503")}
    go(world, desk)
    assert len(world.of(ev.ReconciliationIssued)) == 3
    assert len(world.of(ev.ReconciliationFailed)) == 2
    assert world.of(ev.ReconciliationEnded)[0].found == "unknown"
    assert world.review.fact.item == "failure"


@pytest.mark.parametrize("reconcile", [True, False])
def test_a_process_that_dies_sends_it_not_again(reconcile):
    desk = Desk(lost={1})
    world = at_the_desk(travel(book={"reconcile": "find"} if reconcile else {}), desk, one_by_one(1))
    while not desk.ledger:
        world.go(steps=1)
    world.crash()
    go(world, desk)
    assert sum(c.kind == "call_tool" and c.tool == "book" for c in world.performed) == 1
    assert world.of(ev.AttemptInterrupted)
    if reconcile:
        assert (world.end.state, desk.booked) == (RunState.COMPLETED, [world.run.saga.mutations[0].key])
    else:
        assert world.review.fact.item == "failure"


def test_a_probe_that_may_have_changed_something_is_marked_as_one():
    def unsure(command):
        return Answer(
            lambda c: ToolFinished(
                command_id=c.command_id,
                attempt=c.attempt,
                result=None,
                error="no",
                outcome=Outcome.UNKNOWN,
                probed="the desk",
            )
        )

    world = at_the_desk(travel(), Desk(), [asks(booking(1)), summary()])
    world.script = {**world.script, "book": unsure}
    world.go()
    assert [fact.probed for fact in world.of(ev.AttemptFailed)] == ["the desk"]


def test_a_late_result_counts_as_executed_and_is_known_to_the_compensation():
    desk = Desk()
    world = at_the_desk(travel(), desk, [asks(booking(1)), AUTH], late=True)
    book = desk.script()["book"]
    world.script = {**world.script, "book": lambda command: book(command).after(4)}
    while not desk.booked:
        world.go(steps=1)
    world.cancel("changed my mind")
    go(world, desk)
    settled = world.of(ev.MutationSettled)
    assert settled[0].outcome is Outcome.UNKNOWN
    assert desk.cancelled == desk.booked
    assert world.end.state is RunState.CANCELLED


def refused_late(world):
    """The answer that a booking which was let go of was not done."""
    intended = world.of(ev.MutationIntended)[0]
    return ToolFinished(command_id=intended.command_id, attempt=1, error="409: refused", result=None)


def being_undone(until):
    """A run that was cancelled while its booking was out, and cannot undo it."""
    desk = Desk(silent={1}, failing={1: 50})
    world = at_the_desk(travel(), desk, one_by_one(1))
    while not world.of(ev.MutationIntended):
        world.go(steps=1)
    world.put(CancelRequested(input_id="cancel", actor="alice", reason="changed my mind"))
    while not world.of(until):
        world.go(steps=1)
    return desk, world


def test_what_turns_out_not_to_have_been_done_is_not_tried_to_be_undone_again():
    desk, world = being_undone(ev.CompensationFailed)
    world.answered(refused_late(world))
    go(world, desk)
    assert len(world.of(ev.CompensationIssued)) == 1
    assert (world.end.state, world.run.saga.mutations[0].status) == (RunState.CANCELLED, Status.NOT_EXECUTED)


def test_it_is_not_tried_again_either_once_the_attempt_that_is_out_has_failed():
    desk, world = being_undone(ev.CompensationIssued)
    world.answered(refused_late(world))
    go(world, desk)
    assert (len(world.of(ev.CompensationIssued)), len(world.of(ev.CompensationFailed))) == (1, 1)
    assert (world.end.state, world.run.saga.mutations[0].status) == (RunState.CANCELLED, Status.NOT_EXECUTED)


def test_no_tool_is_asked_any_more_how_it_shall_be_undone():
    _, world = being_undone(ev.CompensationStuck)
    ctx = Context(world.now, "run-1", "t" * 32, 7, world.compiled, Contents())
    decision = decide(world.run, refused_late(world), ctx)
    assert decision.run.reviews == {}
    assert decision.run.state is RunState.CANCELLED
    assert "review_withdrawn" in [one.event.fact.kind for one in decision.emitted]


NO_FINDING = WorkspacePolicy.model_validate({"tools": ["http:desk.invalid/book", "http:desk.invalid/cancel"]})
AT = {"kind": "http", "method": "POST"}


def by_http(fabric):
    """The same with tools that go out, which a workspace's policy may take away."""
    tree = fabric.model_dump(mode="json", by_alias=True)
    tools = [{**one, **AT, "target": f"https://desk.invalid/{one['name']}"} for one in tree["tools"]]
    return type(fabric).model_validate({**tree, "tools": tools})


def under(world, policy):
    """Another process goes on with the run, under the policy of now."""
    world.compiled = World(world.spec, {}, policy=policy).compiled
    return world.crash()


def called(world):
    return [fact.target for fact in world.of(ev.CallIssued) if fact.call == "tool"]


def test_a_reconcile_tool_that_the_workspace_took_away_is_not_asked():
    desk = Desk(lost={1})
    world = at_the_desk(by_http(travel(book={"reconcile": "find"})), desk, one_by_one(1))
    while not called(world):
        world.go(steps=1)
    go(under(world, NO_FINDING), desk)
    assert called(world) == ["book"]
    assert not world.of(ev.ReconciliationIssued)
    assert "it is unknown whether book was executed" in world.review.fact.reason


def test_a_reconcile_tool_that_the_workspace_took_away_meanwhile_is_not_asked_again():
    desk = Desk(lost={1})
    fabric = by_http(travel(book={"reconcile": "find"}))
    world = at_the_desk(fabric, desk, one_by_one(1))
    world.script = {**world.script, "find": fails(Cause.SERVER_ERROR, "503")}
    while not world.of(ev.ReconciliationFailed):
        world.go(steps=1)
    go(under(world, NO_FINDING), desk)
    assert len(world.of(ev.ReconciliationIssued)) == 1
    assert world.of(ev.ReconciliationEnded)[0].found == "unknown"
    assert world.review.fact.item == "failure"
