"""Calls that change the world: never sent again blindly, met again by a step that runs once more, undone where the table says so, asked for beforehand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.reviews import reviews
from fabric.core.sagas.mutations import read_outcome
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.spec.tools import ToolSpec
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.saga import (
    MUTATES,
    ON_UNKNOWN,
    STATUS,
    UNWINDS,
    Effect,
    Outcome,
    Status,
    Then,
    build_key,
    read_scope,
)
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, never_sent, one_by_one, travel
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, say, summary

AUTH = fails(Cause.AUTH, "401")


# -- the tables ------------------------------------------------------------------------------------------------------


def test_the_tables_are_total():
    effects = set(get_args(ToolSpec.model_fields["effect"].annotation))
    assert effects == set(Effect) == set(ON_UNKNOWN)
    assert set(STATUS) == {(effect, outcome) for effect in Effect for outcome in Outcome}
    assert set(UNWINDS) >= set(Reaction)
    assert set(reviews.VERBS) == set(get_args(reviews.Item))


def test_every_way_to_end_a_run_has_its_row():
    """The reactions that ``reactions.end`` is called with, wherever it is called."""
    named: set[str] = set()
    for path in (Path(__file__).parents[4] / "fabric" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("end", "reactions.end"):
                said = node.args[2]
                named.add(said.value if isinstance(said, ast.Constant) else ast.unparse(said).removeprefix("Reaction."))
    assert {"SURFACE", "ABORT", "HALT", "reject", "cancel"} <= named
    assert {name.lower() for name in named} <= set(UNWINDS)


def test_only_what_changes_the_world_is_tracked_and_never_again_by_itself():
    assert {effect for effect, then in ON_UNKNOWN.items() if then is not Then.AGAIN} == MUTATES
    assert {effect for (effect, _), status in STATUS.items() if status is not Status.UNTRACKED} == MUTATES


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (ToolFinished(command_id="c", attempt=1, result={}), Outcome.ANSWERED),
        (ToolFinished(command_id="c", attempt=1, result=None, error="no"), Outcome.REJECTED),
        (ToolFinished(command_id="c", attempt=1, result=None, error="no", outcome=Outcome.UNKNOWN), Outcome.UNKNOWN),
        (CallFailed(command_id="c", attempt=1, cause=Cause.TIMEOUT, message="late"), Outcome.UNKNOWN),
    ],
)
def test_what_is_not_said_to_be_certain_is_not(given, outcome):
    assert read_outcome(given) is outcome


def test_the_key_leaves_out_the_round_and_on_request_the_epoch():
    step, again, replanned = "fan_out.1.e0.r0", "fan_out.1.e0.r1", "fan_out.1.e1.r0"
    scopes = [read_scope(one, carry_over=False) for one in (step, again, replanned)]
    assert scopes[0] == scopes[1] != scopes[2]
    assert (
        read_scope(step, carry_over=True)
        == read_scope(replanned, carry_over=True)
        != read_scope("fan_out.0.e0.r0", carry_over=True)
    )
    keys = {build_key("run", scope, "book", "args", 0) for scope in scopes} | {
        build_key("run", scopes[0], "book", "args", 1)
    }
    assert len(keys) == 3


# -- intent and outcome ----------------------------------------------------------------------------------------------


def test_the_way_back_is_journaled_with_the_intent_and_a_good_end_undoes_nothing():
    desk = Desk()
    world = go(at_the_desk(travel(), desk, one_by_one(2)), desk)
    assert world.end.state is RunState.COMPLETED
    kinds = world.kinds
    assert kinds[kinds.index("mutation_intended") + 1] == "call_issued"
    intended = world.of(ev.MutationIntended)
    assert [(one.tool, one.compensation, one.effect) for one in intended] == [("book", "cancel", Effect.MUTATING)] * 2
    issued = [fact.key for fact in world.of(ev.CallIssued) if fact.call == "tool"]
    assert issued == [one.key for one in intended] == desk.booked
    assert [one.status for one in world.run.saga.mutations] == [Status.EXECUTED] * 2
    assert desk.cancels == 0


def test_equal_calls_of_one_activation_are_two_and_have_two_keys():
    desk = Desk()
    same = [asks(booking(1)), asks(call("book", "other", room=1)), summary()]
    world = go(at_the_desk(travel(), desk, same), desk)
    assert (len(desk.booked), world.end.state) == (2, RunState.COMPLETED)


def test_what_was_never_sent_is_tried_again_by_the_ladder():
    desk = Desk()
    world = at_the_desk(travel(), desk, one_by_one(1))
    world.script = {**world.script, "book": [never_sent(), desk.script()["book"](_Probe("k"))]}
    go(world, desk)
    first, second = world.of(ev.MutationIntended)
    assert (first.key, first.attempt, second.attempt) == (second.key, 1, 2)
    assert [one.status for one in world.of(ev.MutationSettled)] == [Status.NOT_EXECUTED, Status.EXECUTED]
    assert world.reactions == ["retry"]
    assert world.end.state is RunState.COMPLETED


class _Probe:
    def __init__(self, key: str) -> None:
        self.idempotency_key = key


# -- a step that runs once more --------------------------------------------------------------------------------------


def test_a_step_that_runs_once_more_meets_its_own_booking():
    """The second activation proposes the same booking under another call id, and is answered from the journal."""
    desk = Desk()
    again = asks(call("book", "again", room=1))
    world = go(at_the_desk(travel(), desk, [asks(booking(1)), AUTH, again, summary()], tier=Tier.BATCH), desk)
    world.decide("respond", message="Book room 1.")
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.StepOpened)
    assert len(desk.booked) == 1
    repeated = world.of(ev.CallDeduplicated)[0]
    assert (repeated.call_id, repeated.tool) == ("again", "book")
    assert world.contents(repeated.result_ref) == {"result": {"id": "b-1"}}


# -- replanning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carry_over", [False, True])
def test_before_a_replan_the_old_epoch_is_undone_but_for_what_is_carried_over(carry_over):
    desk = Desk()
    fabric = planner(book={"carry_over": carry_over})
    off_schema = [say("no json")] * 4
    worker = [asks(booking(1)), *off_schema, asks(booking(1)), summary()]
    world = at_the_desk(fabric, desk, worker, tier=Tier.BATCH)
    world.script = {**world.script, "planner": planned(1)}
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    assert world.run.epoch == 1
    kinds = world.kinds
    if carry_over:
        assert (len(desk.booked), desk.cancelled) == (1, [])
        assert world.of(ev.CallDeduplicated)
    else:
        assert (len(desk.booked), desk.cancelled) == (2, desk.booked[:1])
        start, end, replan = (kinds.index(k) for k in ("unwinding_started", "unwinding_finished", "replanned"))
        assert kinds.index("stage_left") < start < end < replan
        assert world.content_of(ev.Replanned)[0]["stage"] == "fan_out"


def test_the_runs_deadline_waits_for_the_undoing_before_a_replan():
    """It passes while a compensation is tried again and again; it is noticed in the next epoch, not before."""
    desk = Desk(failing={1: 4})
    deadlines = {"batch": {"call_s": 5, "stage_s": 20, "run_s": 30}}
    fabric = planner(deadlines=deadlines, saga={"retry_base_s": 60.0, "retry_cap_s": 600.0})
    world = at_the_desk(fabric, desk, [asks(booking(1)), *[say("no json")] * 4], tier=Tier.BATCH)
    world.script = {**world.script, "planner": planned(1)}
    go(world, desk)
    decided = [(e.at, e.fact.cause.cause) for e in world.events if e.fact.kind == "reaction_decided"]
    finished = next(e.at for e in world.events if e.fact.kind == "unwinding_finished")
    assert finished > world.run.deadline_at
    assert [cause for at, cause in decided if at < finished] == [Cause.CORRECTIONS_SPENT]
    assert Cause.RUN_DEADLINE in [cause for _, cause in decided]
    assert desk.cancelled == desk.booked


def planner(**fields):
    found = travel(**fields)
    tree = found.model_dump(mode="json", by_alias=True)
    tree["agents"].append({**tree["agents"][0], "name": "planner", "tools": []})
    tree["topology"] |= {"planner": "planner", "plan": None}
    return type(found).model_validate(tree)


# -- unwinding -------------------------------------------------------------------------------------------------------


def test_the_compensation_gets_key_arguments_and_result_and_a_deadline_of_its_own():
    desk = Desk()
    fabric = travel(deadlines={"interactive": {"call_s": 30, "stage_s": 8, "run_s": 10}})
    world = go(at_the_desk(fabric, desk, [asks(booking(1)), HANGS]), desk)
    assert world.end.reaction == "abort"
    tool, args = world.executed[-1]
    assert (tool, args) == ("cancel", {"key": desk.booked[0], "args": {"room": 1}, "result": {"id": "b-1"}})
    issued = world.of(ev.CompensationIssued)[0]
    started = next(e.at for e in world.events if e.fact.kind == "compensation_issued")
    assert issued.deadline_at == started + 5 * US > world.run.deadline_at


def test_what_was_undone_and_answered_what_cannot_be_read_is_not_undone_again():
    desk = Desk(unread={1})
    world = go(at_the_desk(travel(), desk, one_by_one(2, AUTH)), desk)
    assert (desk.cancels, sorted(desk.cancelled)) == (2, sorted(desk.booked))
    assert world.of(ev.CompensationFailed) == []
    said = [content["result"] for content in world.content_of(ev.CompensationAnswered)]
    assert said == [{"status": "cancelled"}, "its JSON ends too early"]


def test_what_may_still_arrive_is_not_undone_before_its_deadline():
    desk = Desk(lost={1})
    world = at_the_desk(travel(), desk, one_by_one(1))
    while not desk.booked:
        world.go(steps=1)
    issued = next(fact for fact in world.of(ev.CallIssued) if fact.call == "tool")
    world.cancel()
    go(world, desk)
    undone = next(e.at for e in world.events if e.fact.kind == "compensation_issued")
    assert undone == issued.deadline_at
    assert (world.end.state, desk.cancelled) == (RunState.CANCELLED, desk.booked)


def test_not_yet_executed_is_no_answer_before_its_deadline():
    desk = Desk(silent={1})
    world = at_the_desk(travel(book={"reconcile": "find"}), desk, one_by_one(1))
    while not any(c.kind == "call_tool" for c in world.performed):
        world.go(steps=1)
    world.crash()
    go(world, desk)
    first, second = world.of(ev.MutationIntended)
    asked = [e.at for e in world.events if e.fact.kind == "reconciliation_issued"]
    assert asked[0] < first.deadline_at <= asked[1]
    assert second.key == first.key
    assert len(desk.booked) == 1


def test_unwinding_is_seen_and_cancelling_it_changes_nothing():
    desk = Desk()
    world = at_the_desk(travel(), desk, [*one_by_one(2, AUTH)])
    while not world.of(ev.CompensationIssued):
        world.go(steps=1)
    assert visible_state(world.run) is RunState.UNWINDING
    world.cancel("now")
    assert "cancelling changes nothing" in world.of(ev.InputIgnored)[0].reason
    go(world, desk)
    assert (world.end.state, len(desk.cancelled)) == (RunState.FAILED, 2)


@pytest.mark.parametrize("unwind", [True, False])
def test_a_cancelled_run_undoes_unless_the_fabric_says_no_and_then_says_what_stays(unwind):
    desk = Desk()
    world = at_the_desk(travel(saga={"unwind_on_cancel": unwind}), desk, one_by_one(1, HANGS))
    while len(world.requests) < 2:
        world.go(steps=1)
    world.cancel()
    go(world, desk)
    assert world.end.state is RunState.CANCELLED
    assert desk.cancelled == (desk.booked if unwind else [])
    assert [fact.stays for fact in world.of(ev.UnwindingOmitted)] == ([] if unwind else [("book",)])
    assert ("not undone: book" in world.end.reason) is not unwind


def stuck(tier: Tier = Tier.BATCH):
    desk = Desk(failing={2: 5})
    return desk, go(at_the_desk(travel(), desk, one_by_one(2, AUTH), tier=tier), desk)


def test_a_stuck_compensation_is_asked_about_and_the_run_holds_nothing():
    desk, world = stuck()
    if world.review.fact.item == "failure":
        world.decide("reject", message="no")
        go(world, desk)
    review = world.review.fact
    assert (review.item, review.verbs) == ("compensation", ("approve", "respond"))
    assert len(world.of(ev.CompensationFailed)) == 5
    assert world.driver is None
    assert visible_state(world.run) is RunState.UNWINDING
    shown = world.content_of(ev.ReviewOpened)[-1]
    assert shown["payload"]["key"] == review.scope
    assert shown["approve"] == "cancel is tried again"
    assert desk.cancelled == []


@pytest.mark.parametrize(
    ("answer", "status"), [("approve", Status.UNDONE), ("respond", Status.BY_HAND), ("", Status.ABANDONED)]
)
def test_what_a_person_says_about_a_stuck_compensation_and_what_silence_does(answer, status):
    desk, world = stuck()
    if world.review.fact.item == "failure":
        world.decide("reject", message="no")
        go(world, desk)
    if answer:
        world.decide(answer, message="I phoned the hotel.")
        go(world, desk)
    else:
        world.wait(100_000)
        go(world, desk)
    assert world.run.terminal
    assert [one.status for one in world.run.saga.mutations] == [Status.UNDONE, status]
    assert desk.cancelled == (desk.booked[::-1] if answer == "approve" else desk.booked[:1])
    assert ("not undone: book" in world.end.reason) is (answer == "")


def test_a_run_without_mutations_has_no_event_of_the_saga():
    desk = Desk()
    world = go(at_the_desk(travel(), desk, [summary()]), desk)
    assert not [kind for kind in world.kinds if kind.startswith(("mutation", "unwinding", "compensation", "reconcil"))]


def test_a_booking_that_was_made_before_a_failed_call_stands_when_that_call_is_made_again():
    desk = Desk()
    world = go(at_the_desk(travel(), desk, [asks(booking(1)), AUTH, summary()], tier=Tier.BATCH), desk)
    world.decide("approve")
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.StepOpened)[-1].keeps
    assert (len(desk.booked), len(world.requests)) == (1, 3)
