"""Families and what takes hold of them: changes that are handed up, children in quarantine, pause and resume, terminate."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Status
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US
from tests.fabric.core.bookings import Desk, booking, travel
from tests.fabric.core.families import Household, at_a_person
from tests.fabric.core.family_member import Member
from tests.fabric.core.family_scenes import household, whole
from tests.fabric.core.scripts import HANGS, Answer, asks, fails, planned, say, summary

ROOM = {"plan_branches": 100, "sub_agents_alive": 100, "sub_agents_spawned": 200, "fan_out_inline_max": 2}
GIVES_UP = fails(Cause.AUTH, "no key").after(30)


def books(rooms: int = 1, last: Answer | None = None) -> Any:
    """A worker that books so many rooms, one a turn, and then says its ``last``; each branch for itself."""

    def answer(command: Any) -> Answer:
        turn = int(command.command_id.rpartition(".t")[2])
        return asks(booking(turn)) if turn <= rooms else last or summary()

    return answer


def booked(rooms: int = 1, *, tier: Tier = Tier.INTERACTIVE, book: Any = None, **fields: Any) -> tuple[Household, Desk]:
    """Four branches in two children, each of which books so many rooms; up to where both children have begun."""
    desk = Desk()
    family = Household(
        travel(workers=4, limits=ROOM, book=book, **fields), {"worker": books(rooms), **desk.script()}, tier=tier
    )
    desk.world = family  # type: ignore[assignment]
    family.start().go(until=lambda it: len(it.children) == 2)
    return family, desk


def plays(family: Household, child: Member, worker: Any) -> None:
    family.script = {**family.script, f"worker@{child.run_id}": worker}


# -- changes are handed up -------------------------------------------------------------------------------------------


def test_a_parent_that_ends_badly_undoes_what_its_completed_children_did() -> None:
    family, desk = booked()
    first, second = family.children
    plays(family, second, books(1, GIVES_UP))
    family.go()
    whole(family)
    assert first.run.state is RunState.COMPLETED
    assert second.run.state is not RunState.COMPLETED or second.run.family.lineage is not None
    assert family.root.run.state is RunState.FAILED
    assert sorted(desk.cancelled) == sorted(desk.booked)
    assert all(desk.cancelled.count(key) == 1 for key in desk.booked)
    taken = family.root.of(ev.MutationTakenOver)
    assert {fact.child_id for fact in taken} >= {first.run_id}
    assert all(m.status is Status.UNDONE for m in family.root.run.saga.mutations)
    assert "were undone" in family.end.reason


def test_what_children_did_stands_on_the_parents_list_where_they_answered() -> None:
    family, desk = booked(rooms=2)
    slow = family.children[1]
    plays(family, slow, HANGS)
    family.go(until=lambda it: bool(it.root.of(ev.ChildAnswered)))
    handed = [fact.key for fact in family.root.of(ev.MutationTakenOver)]
    assert len(handed) == 4
    assert handed == desk.booked[-4:]
    kinds = family.root.kinds
    at = kinds.index("child_answered")
    assert kinds[at + 1 : at + 5] == ["mutation_taken_over"] * 4
    family.cancel()
    whole(family)
    undone = [fact.of_key for fact in family.root.of(ev.CompensationAnswered)]
    assert undone == handed[::-1]
    shown = [args for tool, args, run_id in family.executed if tool == "cancel" and run_id == family.root.run_id]
    assert sorted(one["args"]["room"] for one in shown) == [1, 1, 2, 2]
    assert all(one["result"]["id"].startswith("b-") for one in shown)


def test_a_run_that_completes_keeps_what_its_children_did() -> None:
    family, desk = booked()
    family.go()
    whole(family)
    assert family.root.run.state is RunState.COMPLETED
    assert len(desk.booked) == 4
    assert desk.cancelled == []
    assert {m.status for m in family.root.run.saga.mutations} == {Status.EXECUTED}
    assert all(m.child_id for m in family.root.run.saga.mutations)


def test_a_child_that_is_told_to_stop_undoes_what_it_did_and_hands_up_nothing() -> None:
    family, desk = booked(rooms=3)
    family.go(until=lambda it: len(desk.booked) >= 2)
    family.cancel()
    whole(family)
    assert family.root.of(ev.MutationTakenOver) == []
    assert sorted(desk.cancelled) == sorted(desk.booked)
    assert family.root.run.state is RunState.CANCELLED


def test_what_a_child_could_not_undo_is_said_at_its_parents_end() -> None:
    family, desk = booked(rooms=2, saga={"unwind_on_cancel": False})
    family.go(until=lambda it: len(desk.booked) >= 2)
    family.cancel()
    whole(family)
    assert desk.cancelled == []
    taken = family.root.of(ev.MutationTakenOver)
    assert len(taken) == len(desk.booked)
    assert {fact.status for fact in taken} == {Status.ABANDONED}
    assert "not undone: " + ", ".join(["book"] * len(taken)) in family.end.reason


def test_what_is_handed_up_goes_up_all_the_way() -> None:
    desk = Desk()
    outer, inner = travel(workers=2), travel(workers=4, limits=ROOM)
    script = {"worker": books(1), **desk.script()}
    outer = outer.model_copy(update={"policy": inner.policy})
    family = Household(outer, script, nested={"worker": inner})
    desk.world = family  # type: ignore[assignment]
    family.start().go(until=lambda it: any(fact for fact in it.root.of(ev.ChildAnswered)))
    taken = family.root.of(ev.MutationTakenOver)
    child = family.runs[family.root.of(ev.ChildAnswered)[0].child_id]
    assert [m.key for m in child.run.saga.mutations] == [fact.key for fact in taken]
    assert all(m.child_id for m in child.run.saga.mutations)
    family.cancel()
    whole(family)
    assert sorted(desk.cancelled) == sorted(desk.booked)
    assert all(desk.cancelled.count(key) == 1 for key in desk.booked)


def replanning(script: Any, desk: Desk, workers: int = 4, **fields: Any) -> Household:
    fabric = travel(workers=workers, limits=ROOM, **fields)
    tree = fabric.model_dump(mode="json", by_alias=True)
    planner = {**tree["agents"][0], "name": "planner", "tools": []}
    tree["agents"] = [*tree["agents"], planner]
    tree["topology"] = {**tree["topology"], "plan": None, "planner": "planner"}
    tree["decision_table"] = {}
    made = type(fabric).model_validate(tree)
    family = Household(made, {"planner": planned(workers), **script, **desk.script()}, tier=Tier.BATCH)
    desk.world = family  # type: ignore[assignment]
    return family.start()


def test_a_parent_that_waits_to_undo_is_held_by_no_worker_and_due_at_no_instant() -> None:
    desk = Desk(failing=dict.fromkeys(range(1, 20), 4))
    family = replanning({"worker": books()}, desk, workers=6)
    family.go(until=lambda it: len(it.children) == 3)
    _, second, third = family.children
    plays(family, second, books(1, say("Not what was asked for.").after(5)))
    plays(family, third, books(1, HANGS))
    family.go(until=lambda it: "unwinding_started" in it.root.kinds)
    assert family.root.run.family.alive
    assert family.root.run.saga.unwinding is not None
    assert family.root.run.saga.unwinding.left
    family.go(steps=1)
    assert family.root.driver is None
    assert family.root.wake is None
    family.go()
    whole(family)


def test_what_comes_up_while_a_parent_waits_to_undo_is_undone_first() -> None:
    desk = Desk()
    family = replanning({"worker": books()}, desk, workers=6)
    family.go(until=lambda it: len(it.children) == 3)
    first, second, third = family.children
    plays(family, second, books(1, say("Not what was asked for.").after(5)))
    plays(family, third, books(1, summary().after(60)))
    family.go(until=lambda it: bool(third.run.started_at) and len(desk.booked) == 6)
    family.deaf = third.run_id  # Told to stop, it has ended well before it reads that.
    family.go(until=lambda it: "replanned" in it.root.kinds)
    taken = [fact.key for fact in family.root.of(ev.MutationTakenOver)]
    assert {fact.child_id for fact in family.root.of(ev.MutationTakenOver)} >= {first.run_id, third.run_id}
    assert [fact.of_key for fact in family.root.of(ev.CompensationAnswered)] == taken[::-1]


def test_a_replan_waits_for_its_children_and_undoes_what_they_hand_up_before_it() -> None:
    desk = Desk()
    family = replanning({"worker": books(1)}, desk)
    family.go(until=lambda it: len(it.children) == 2)
    first, second = family.children
    plays(family, second, books(1, say("Not what was asked for.").after(30)))
    family.go(until=lambda it: bool(it.root.of(ev.Replanned)) or it.root.run.terminal)
    kinds = family.root.kinds
    assert "replanned" in kinds
    at = kinds.index("replanned")
    assert not family.root.run.family.alive
    before = [event.fact for event in family.root.events[:at]]
    taken = [fact.key for fact in before if isinstance(fact, ev.MutationTakenOver)]
    undone = [fact.of_key for fact in before if isinstance(fact, ev.CompensationAnswered)]
    assert first.run.state is RunState.COMPLETED
    assert len(taken) >= 2
    assert undone == taken[::-1]
    family.go()
    whole(family)


@pytest.mark.parametrize("at", range(0, 120, 3))
def test_cancel_at_any_step_leaves_nothing_booked(at: int) -> None:
    family, desk = booked(rooms=2)
    family.go(steps=at) if at else family
    family.cancel()
    whole(family)
    if family.root.run.state is RunState.CANCELLED:
        assert sorted(desk.cancelled) == sorted(desk.booked)
    assert len(desk.cancelled) == len(set(desk.cancelled))


# -- a child in quarantine -------------------------------------------------------------------------------------------


def stuck(tier: Tier = Tier.BATCH, *, began: bool = True) -> tuple[Household, Member, Member]:
    """Two children, one of which kills its owners; the other is done."""
    family = household(8, tier=tier)
    family.go(until=lambda it: len(it.children) == 2 and bool(it.children[0].run.started_at) == began)
    poisoned, other = family.children
    family.poison(poisoned.run_id)
    return family, poisoned, other


def test_a_quarantined_child_is_a_review_at_its_parent() -> None:
    family, poisoned, other = stuck()
    assert poisoned.run.state is RunState.QUARANTINED
    assert other.run.state is RunState.COMPLETED
    [review] = [q.fact for q in family.root.run.reviews.values()]
    assert (review.item, review.verbs) == ("child", ("approve", "reject"))
    assert poisoned.run_id in review.reason
    assert family.root.run.suspended is not None
    assert visible_state(family.root.run) is RunState.WAITING
    assert family.root.driver is None


def test_approving_it_at_the_parent_lets_the_child_go_on() -> None:
    family, poisoned, _ = stuck()
    family.decide("root", "approve")
    whole(family)
    assert family.root.run.state is RunState.COMPLETED
    assert poisoned.of(ev.RunReleasedFromQuarantine)[0].actor == "alice"
    assert poisoned.of(ev.ReviewDecided)[0].verb == "approve"
    assert family.root.of(ev.ChildFreed)
    assert family.root.outcome == household(8, tier=Tier.BATCH).go().root.outcome


def test_answering_at_the_child_withdraws_the_parents_review() -> None:
    family, poisoned, _ = stuck()
    family.decide(poisoned.run_id, "approve")
    whole(family)
    assert family.root.of(ev.ReviewDecided) == []
    assert family.root.of(ev.ReviewWithdrawn)[0].reason == "the child run continues"
    assert family.root.run.state is RunState.COMPLETED


def test_rejecting_it_aborts_the_child_and_its_branch_is_the_tables() -> None:
    family, poisoned, _ = stuck()
    family.decide("root", "reject")
    assert poisoned.run.state is RunState.ABORTED
    assert "alice rejected it" in poisoned.run.reason
    decided = family.root.of(ev.ReactionDecided)[0]
    assert decided.cause.mechanism == "child"
    assert poisoned.run_id in decided.cause.message


def test_a_review_about_a_child_expires_as_a_rejection_by_the_system() -> None:
    family, poisoned, _ = stuck()
    due = next(iter(family.root.run.reviews.values())).fact.due_at
    family.go(until=lambda it: poisoned.run.terminal)
    assert family.now >= due
    assert family.root.of(ev.ReviewDecided)[0].system
    assert poisoned.run.state is RunState.ABORTED


def test_a_child_that_is_ended_without_being_folded_costs_what_was_reserved() -> None:
    family, poisoned, _ = stuck()
    poisoned.poisoned = True  # What a person has it try again, kills again; then it is damaged for good.
    family.decide("root", "approve", until=at_a_person)
    assert poisoned.run.state is RunState.QUARANTINED
    assert [q.fact.item for q in family.root.run.reviews.values()] == ["child"]
    assert len(family.root.of(ev.ChildQuarantined)) == 2
    poisoned.damage = "event 3 is missing"
    family.decide("root", "reject")
    answered = next(fact for fact in family.root.of(ev.ChildAnswered) if fact.child_id == poisoned.run_id)
    spawned = next(fact for fact in family.root.of(ev.ChildSpawned) if fact.child_id == poisoned.run_id)
    assert answered.cost_usd_micros == spawned.reserved_usd_micros
    assert answered.missing == spawned.briefs
    assert poisoned.kinds[-1] == "run_ended"
    family.go()
    assert not family.root.run.family.alive


def test_a_child_that_never_started_costs_nothing() -> None:
    family, poisoned, _ = stuck(began=False)
    family.decide("root", "reject", until=lambda it: poisoned.run.terminal and not it.root.inbox)
    assert "it never started" in poisoned.run.reason
    answered = next(fact for fact in family.root.of(ev.ChildAnswered) if fact.child_id == poisoned.run_id)
    assert (answered.cost_usd_micros, answered.missing) == (0, (0, 1, 2, 3))


@pytest.mark.parametrize("began", [False, True])
def test_cancelling_the_parent_ends_a_quarantined_child(began: bool) -> None:
    family, poisoned, _ = stuck(began=began)
    family.cancel()
    assert family.root.run.state is RunState.CANCELLED
    assert poisoned.run.state is RunState.CANCELLED
    assert family.root.run.reviews == {}
    assert family.held == []


# -- pause, resume, terminate ----------------------------------------------------------------------------------------


def pause(family: Household) -> Household:
    family.put("root", PauseRequested(input_id="pause:1", actor="alice", reason="lunch"))
    return family.go()


def test_a_pause_holds_the_children_and_resume_lets_them_go_on() -> None:
    family = household(10, tier=Tier.BATCH)
    family.go(until=lambda it: len(it.children) == 3)
    asked = len(family.requests)
    pause(family)
    for member in family.runs.values():
        assert visible_state(member.run) is RunState.PAUSED
        assert member.driver is None
    held = len(family.requests)
    assert held - asked <= 10  # What was out may come back; nothing more is asked.
    family.now += 1_000 * 24 * 3_600 * US
    family.go()
    assert len(family.requests) == held
    family.put("root", ResumeRequested(input_id="resume:1", actor="bob"))
    family.go()
    whole(family)
    assert family.root.run.state is RunState.COMPLETED
    for child in family.children:
        assert [fact.actor for fact in child.of(ev.RunPaused)] == ["alice"]
        assert [fact.actor for fact in child.of(ev.RunResumed)] == ["bob"]


def test_a_paused_family_can_be_cancelled() -> None:
    family = household(10, tier=Tier.BATCH)
    family.go(until=lambda it: len(it.children) == 3)
    pause(family).cancel()
    whole(family)
    assert {member.run.state for member in family.runs.values()} == {RunState.CANCELLED}


def test_terminate_goes_down_as_terminate_and_nothing_is_undone() -> None:
    family, desk = booked(rooms=3)
    family.go(until=lambda it: len(desk.booked) >= 3)
    family.put("root", TerminateRequested(input_id="terminate", actor="alice"))
    family.go()
    whole(family)
    assert {member.run.state for member in family.runs.values()} == {RunState.ABORTED}
    assert {member.run.ending.reaction for member in family.runs.values() if member.run.ending} == {"terminated"}
    assert desk.cancelled == []
    assert len(family.root.of(ev.MutationTakenOver)) == len(desk.booked)
    assert "not undone" in family.end.reason


def test_terminate_overtakes_a_cancel() -> None:
    family, desk = booked(rooms=3)
    desk.failing = dict.fromkeys(range(1, 20), 50)
    family.go(until=lambda it: len(desk.booked) >= 3)
    family.cancel(until=lambda it: any(child.run.reviews for child in it.children))
    assert not family.root.run.terminal
    family.put("root", TerminateRequested(input_id="terminate", actor="alice"))
    family.go()
    whole(family)
    assert [fact.how for fact in family.root.of(ev.ChildLetGo)][-1] == "terminate"
    assert family.root.run.state is RunState.CANCELLED  # What was decided before stands.
    assert "not undone" in family.end.reason
