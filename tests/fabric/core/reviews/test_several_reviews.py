"""Several calls of one answer wait for people at once: n approvals are no n delays in a row (S2 "Human-in-the-Loop")."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.living import asked_calls, visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, travel
from tests.fabric.core.handlers.test_control import pause, resume
from tests.fabric.core.harness import World, ran
from tests.fabric.core.reviews.test_asking_before import STEP, asked, ruled, sent
from tests.fabric.core.scripts import asks, call, fails, gives, summary

BY = ("approve", "edit", "respond", "decline")


def paying(number: int, **args: Any) -> Any:
    return call("pay", f"p{number}", n=number, **args)


def reacting(table: Any) -> FabricSpec:
    tree = ruled("args.n > 0").model_dump(mode="json", by_alias=True)
    return FabricSpec.model_validate(tree | {"decision_table": table})


def world_of(*calls: Any, look: Any = None, after: Any = None, tier: Tier = Tier.BATCH, **fields: Any) -> World:
    script = {"worker": [asks(*calls), *(after or [summary()])]} | ({"look": look} if look else {})
    return World(ruled("args.n > 0", **fields), script, tier=tier).start()


def test_two_payments_are_asked_about_while_an_unrelated_search_is_out():
    """Seen from outside (step-and-scale.md, row 8): the first review came once the search had ended, the second after the first answer."""
    world = world_of(paying(1), call(call_id="slow"), paying(2), look=gives("L").after(100)).go(until_s=30)
    assert asked(world) == [f"{STEP}.t1.c0", f"{STEP}.t1.c2"]
    assert sent(world) == ["slow"]
    assert world.run.suspended is None, "the clocks run while the search is out"
    world.decide("approve", about="c2").go(until_s=60)
    assert sent(world) == ["slow", "p2"], "it leaves with its own answer"
    world.go()
    assert visible_state(world.run) is RunState.WAITING
    assert world.run.suspended is not None, "only a person is waited for"
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("verb", ["respond", "decline"])
def test_an_answer_that_makes_no_call_lets_the_other_review_wait(verb):
    world = world_of(paying(1), paying(2)).go()
    world.decide(verb, about="c0", message="Not this one.").go()
    assert (visible_state(world.run), len(world.run.reviews)) == (RunState.WAITING, 1)
    assert world.run.suspended is not None
    world.decide("approve").go()
    assert (sent(world), world.end.state) == (["p2"], RunState.COMPLETED)


def test_a_rejection_withdraws_the_others():
    world = world_of(paying(1), paying(2), paying(3)).go()
    world.decide("reject", about="c1", message="Stop.").go()
    assert len(world.of(ev.ReviewWithdrawn)) == 2
    assert (sent(world), world.end.state) == ([], RunState.ABORTED)


def test_each_expires_at_its_own_time():
    """The second is asked an hour later: what it refers to comes back then."""
    later = call("pay", "later", n=9, of={"$ref": "calls.slow.result"})
    world = world_of(call(call_id="slow"), paying(1), later, look=gives("L").after(50)).go(until_s=100)
    first, second = world.of(ev.ReviewOpened)
    assert second.due_at - first.due_at >= 50_000_000
    world.wait(90_000).go()
    decided = world.of(ev.ReviewDecided)
    assert [(one.review_id, one.system) for one in decided] == [(first.review_id, True)]
    assert world.end.state is RunState.ABORTED


def test_of_two_irreversible_calls_the_one_that_is_let_pass_first_leaves_first_and_one_at_a_time():
    tree = ruled("args.n > 0").model_dump(mode="json")
    tree["tools"][2]["effect"] = "irreversible"
    wave = asks(paying(1), paying(2), paying(3))
    world = World(
        FabricSpec.model_validate(tree), {"worker": [wave, summary()], "pay": gives("paid").after(50)}, tier=Tier.BATCH
    )
    world.start().go(until_s=10)
    assert len(asked(world)) == 3
    world.decide("approve", about="c2").go(until_s=20)
    assert sent(world) == ["p3"]
    world.decide("approve", about="c0").go(until_s=30)
    assert sent(world) == ["p3"], "one at a time"
    world.go()
    assert sent(world) == ["p3", "p1"]
    world.decide("approve").go()
    assert (sent(world), world.end.state) == (["p3", "p1", "p2"], RunState.COMPLETED)


def test_a_call_that_fails_meanwhile_withdraws_the_reviews_of_its_step_and_they_are_asked_anew():
    """The failed search is retried as ever; once its ladder runs the step anew, the old step's review belongs to no step."""
    table = {"provider_failure": {"batch": {"rungs": [{"reaction": "escalate"}]}}}
    fabric = reacting(table)
    world = World(
        fabric,
        {"worker": [asks(paying(1), call(call_id="slow")), summary()], "look": [fails(Cause.AUTH, "401"), gives("L")]},
        tier=Tier.BATCH,
    )
    world.start().go()
    open_now = [one.fact.item for one in world.run.reviews.values()]
    assert open_now == ["failure"]
    assert len(world.of(ev.ReviewWithdrawn)) == 1
    world.decide("approve").go()
    assert [one.fact.item for one in world.run.reviews.values()] == ["pre_action"]
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_an_agent_that_is_stopped_asks_no_more():
    """A stage deadline, a loop: what stops the agent withdraws the reviews about its calls, which then never begin."""
    table = {"infinite_tool_loop": {"batch": {"rungs": [{"reaction": "terminate"}]}}}
    same = [call(call_id=f"l{n}") for n in range(4)]
    fabric = reacting(table)
    world = ran(fabric, {"worker": [asks(paying(1), *same), summary("Enough.")]}, tier=Tier.BATCH)
    assert not world.run.reviews
    assert world.end is not None
    assert [fact.tool for fact in world.of(ev.CallIssued) if fact.target == "pay"] == []


def test_equal_payments_have_keys_of_their_own_in_whatever_order_they_are_let_pass():
    """The second leaves first, the first is declined, and the agent asks for it once more: that is a third payment and no repeat of the second."""
    desk = Desk()
    two = asks(*(call("book", f"p{n}", room=1) for n in (1, 2)))
    worker = [two, asks(call("book", "p3", room=1)), summary()]
    world = at_the_desk(travel(book={"approve_when": "true"}), desk, worker, tier=Tier.BATCH).go()
    world.decide("approve", about="c1").go()
    world.decide("decline", message="One is enough.").go()
    world.decide("approve").go()
    assert sent(world) == ["p2", "p3"]
    assert len({fact.key for fact in world.of(ev.MutationIntended)}) == 2
    assert world.end.state is RunState.COMPLETED


def test_a_pause_between_two_answers_loses_nothing():
    """An answer that comes while the run is held counts when it goes on, although another review of its step is open."""
    world = world_of(paying(1), paying(2)).go()
    pause(world).go()
    world.decide("approve", about="c0").go()
    assert sent(world) == []
    resume(world).go()
    assert sent(world) == ["p1"]
    assert visible_state(world.run) is RunState.WAITING
    issued = next(fact for fact in world.of(ev.CallIssued) if fact.call_id == "p1")
    assert issued.deadline_at > next(e.at for e in world.events if e.fact is issued)
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("seed", range(60))
def test_any_number_in_any_order_with_any_verb(seed):
    rng = Random(seed)
    calls = []
    for n in range(1, rng.randrange(3, 7)):
        kind = rng.choice(("pay", "pay", "find", "look"))
        earlier = [one.call_id for one in calls]
        args: dict[str, Any] = {"n": n}
        if earlier and rng.random() < 0.4:
            args["of"] = {"$ref": f"calls.{rng.choice(earlier)}.result"}
        calls.append(call(kind, f"c{n}", **args))
    world = World(
        ruled("args.n > 0"),
        {"worker": [asks(*calls), summary()], "look": gives("L").after(rng.choice((0.1, 10.0)))},
        tier=rng.choice(tuple(Tier)),
    )
    world.start().go(until_s=rng.choice((5, 100)))
    for _ in range(20):
        if not world.run.reviews:
            world.go()
        reviews = list(world.run.reviews.values())
        if not reviews:
            break
        step = world.run.steps[STEP]
        assert asked_calls(world.run, step) <= {one.call_id for one in calls}
        fact = rng.choice(reviews).fact
        verb = rng.choice(BY)
        edited = {"n": 100 + rng.randrange(100)} if verb == "edit" else None
        two = verb == "edit" and world.tier is Tier.HIGH_STAKES
        world.decide(verb, about=fact.scope.rpartition(".")[2], message="So.", edited=edited, actor="ann")
        if two:
            world.go()
            world.decide("approve", about=fact.scope.rpartition(".")[2], message="So.", actor="ben")
        world.go()
        waits = visible_state(world.run) is RunState.WAITING
        assert waits == bool(world.run.reviews), "each wait is for a person"
    world.go()
    assert world.end.state is RunState.COMPLETED
    scopes = asked(world)
    assert len(scopes) == len(set(scopes)), "no person is asked twice about a call"
