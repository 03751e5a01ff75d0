"""Every short saga there is: up to four mutations (six in the nightly set), each failing step, a crash before or after each compensation, one compensation that fails.

Whatever happens: each executed mutation is undone exactly once, strictly the newest first, and none that was not executed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.saga import Status
from fabric.core.values.taxonomy import Cause
from tests import sets
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, one_by_one, travel
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import Answer, asks, fails

MOST = 6 if sets.is_nightly() else 4
BROKEN = fails(Cause.AUTH, "401")
FABRIC = travel()
FAILS = ("model", "rejected", "lost", "silent")
"""How a step fails: the agent's model, or the next booking: refused, done without an answer, not done without an answer."""


def desks(standing: int) -> Iterator[Desk]:
    """A crash before, after or at no compensation, times one compensation or none that fails more often than it is tried."""
    crashes: list[tuple[set[int], set[int]]] = [(set(), set()), *(({n}, set()) for n in range(1, standing + 1))]
    crashes += [(set(), {n}) for n in range(1, standing + 1)]
    for before, after in crashes:
        for stuck in range(standing + 1):
            shift = 5 if stuck else 0  # Attempts that fail are counted as well.
            late = {n + shift if stuck and n > standing - stuck else n for n in (*before, *after)}
            yield Desk(
                down_before=late if before else set(),
                down_after=late if after else set(),
                failing={stuck: 5} if stuck else {},
            )


def judge(world: World, desk: Desk, by_hand: bool) -> None:
    assert world.run.terminal
    undone = world.of(ev.CompensationAnswered)
    executed = desk.entries("book")
    assert len(executed) == len(set(executed))
    cancelled = desk.entries("cancel")
    assert len(cancelled) == len(set(cancelled)), "undone twice"
    hands = [fact.of_key for fact in world.of(ev.CompensationByHand)]
    assert bool(hands) <= by_hand
    assert set(cancelled) | set(hands) >= set(executed), "executed and not undone"
    assert set(cancelled) <= set(executed), "undone without having been executed"
    assert cancelled == [key for key in reversed(executed) if key not in hands], "not the newest first"
    order = world.of(ev.UnwindingStarted)[0].order if world.of(ev.UnwindingStarted) else ()
    intended = list(dict.fromkeys(fact.key for fact in world.of(ev.MutationIntended)))
    assert list(order) == [key for key in reversed(intended) if key in order]
    assert [fact.of_key for fact in undone] == [key for key in order if key not in hands]
    never = {fact.key for fact in world.of(ev.MutationSettled) if fact.status is Status.NOT_EXECUTED}
    assert not never & {fact.of_key for fact in world.of(ev.CompensationIssued)}
    assert all(m.status in (Status.UNDONE, Status.BY_HAND, Status.NOT_EXECUTED) for m in world.run.saga.mutations)


def ended(world: World, desk: Desk, answer: str) -> World:
    """To the end: what is asked of a person on the way is answered."""
    for _ in range(4):
        go(world, desk)
        if world.run.terminal:
            break
        item = world.review.fact.item
        world.decide("reject" if item == "failure" else answer, message="I saw to it.")
    return world


@pytest.mark.parametrize("how", FAILS)
@pytest.mark.parametrize("count", range(MOST + 1))
def test_one_a_turn(count, how):
    """``count`` bookings are done, then something fails: what was to come after it never begins, so longer flows are the same."""
    standing = count + (how in ("lost", "silent"))
    for answer in ("approve", "respond"):
        for desk in desks(standing):
            if answer == "respond" and (not desk.failing or desk.down_before or desk.down_after):
                continue
            last: Answer = BROKEN if how == "model" else asks(booking(count + 1))
            for name in ("rejected", "lost", "silent"):
                getattr(desk, name).update({count + 1} if how == name else ())
            world = at_the_desk(FABRIC, desk, [*one_by_one(count, last), BROKEN])
            ended(world, desk, answer)
            judge(world, desk, by_hand=answer == "respond")
            assert world.end.state is (RunState.FAILED if how in ("model", "rejected") else RunState.ABORTED)
            assert len(desk.booked) == count + (how == "lost")


@pytest.mark.parametrize("how", FAILS[1:])
@pytest.mark.parametrize(("count", "bad"), [(k, j) for k in range(1, MOST + 1) for j in range(1, k + 1)])
def test_all_in_one_answer(count, bad, how):
    """Side by side: the ones beside the one that fails are done all the same."""
    standing = count - (how == "rejected")
    for desk in desks(standing):
        if desk.failing:
            continue
        getattr(desk, how).update({bad})
        world = at_the_desk(FABRIC, desk, [asks(*(booking(n + 1) for n in range(count))), BROKEN])
        ended(world, desk, "approve")
        judge(world, desk, by_hand=False)
        assert len(desk.booked) == count - (how != "lost")
