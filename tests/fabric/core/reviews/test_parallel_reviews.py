"""Several open reviews of one run are independent: in whatever order, and with whatever verbs, they are answered, the run goes on (docs/specification/durability.md 1.2 H1, H2)."""

from itertools import permutations
from random import Random

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import DecisionMade
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests import sets
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import planned, say, summary

ASKS = {"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "escalate"}]}}}


def open_reviews(many: int, **policy) -> World:
    """A run of which each branch waits for a person; what is run again goes well."""

    def worker(command):
        return say("no") if command.step_id.endswith(".r0") else summary(f"Part {command.step_id}.")

    world = ran(spec(table=ASKS, **policy), {"planner": planned(many), "worker": worker}, tier=Tier.BATCH)
    assert len(world.run.reviews) == many
    return world


def answer(world: World, review, verb: str, number: int) -> None:
    fact = review.fact
    brief = {"agent": "worker", "title": "One", "instructions": f"Do it as {number} says."}
    given = DecisionMade(
        input_id=f"answer-{fact.review_id}-{number}",
        review_id=fact.review_id,
        verb=verb,  # type: ignore[arg-type]
        actor=f"person-{number}",
        digest=fact.digest,
        message="Mend it.",
        edited=brief if verb == "edit" else None,
    )
    world.put(given)


def never_stranded(world: World) -> None:
    """A run that waits, waits for a person."""
    assert visible_state(world.run) is not RunState.WAITING or world.run.reviews


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("verbs", [("approve",) * 3, ("edit", "respond", "approve"), ("respond", "edit", "edit")])
@pytest.mark.parametrize("together", [True, False])
def test_three_in_every_order(order, verbs, together):
    world = open_reviews(3)
    reviews = list(world.run.reviews.values())
    for number, (place, verb) in enumerate(zip(order, verbs, strict=True)):
        answer(world, reviews[place], verb, number)
        if not together:
            world.go()
            never_stranded(world)
    world.go()
    assert world.end.state is RunState.COMPLETED
    decided = [fact.review_id for fact in world.of(ev.ReviewDecided)]
    assert sorted(decided) == sorted(q.fact.review_id for q in reviews)


ALL = sets.is_nightly()
ORDERS = [order for many in (2, 4, 5) for order in permutations(range(many))]


@pytest.mark.parametrize("order", ORDERS if ALL else ORDERS[::7])
def test_two_four_and_five_in_every_order(order):
    """With verbs that differ, and with the last two in one batch."""
    world = open_reviews(len(order))
    reviews = list(world.run.reviews.values())
    for number, place in enumerate(order):
        answer(world, reviews[place], ("approve", "edit", "approve", "edit", "approve")[place], number)
        if number != len(order) - 2:
            world.go()
            never_stranded(world)
    assert world.end.state is RunState.COMPLETED
    decided = [fact.review_id for fact in world.of(ev.ReviewDecided)]
    assert sorted(decided) == sorted(review.fact.review_id for review in reviews)


@pytest.mark.parametrize("seed", range(1_000 if ALL else 200))
def test_two_to_five_answered_as_it_comes(seed):
    """Also rejected, also by two for one review, where two have to agree as well."""
    rng = Random(seed)
    eyes = rng.random() < 0.4
    world = open_reviews(rng.randrange(2, 6), humans={"four_eyes": ["batch"]} if eyes else {})
    for number in range(60):
        if world.run.terminal or not world.run.reviews:
            break
        review = rng.choice(list(world.run.reviews.values()))
        verb = rng.choice(
            ("approve", "approve", "approve", "edit", "respond", "reject" if rng.random() < 0.1 else "approve")
        )
        answer(world, review, verb, number)
        if rng.random() < 0.3:
            answer(world, review, rng.choice(("approve", "reject" if rng.random() < 0.1 else "edit")), 100 + number)
        if rng.random() < 0.7:
            world.go()
            never_stranded(world)
    world.go()
    assert world.run.terminal
    decided = [fact.review_id for fact in world.of(ev.ReviewDecided)]
    assert len(decided) == len(set(decided)), "one decision a review"
