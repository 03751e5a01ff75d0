"""In time is what was sent before a review's due time: an answer that waits in the inbox wins over the expiry, and a late second approval does not count."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.state.run import OpenReview, Run
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.runtime.arrivals import LATE_US, expires, wants_look
from fabric.runtime.hosting.timers import LateTimers, Timers
from fabric.runtime.ports.journal import InboxItem
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World
from tests.fabric.core.reviews.test_agreement import CELL, EYES, asked, ignored
from tests.fabric.core.standings import stood

SECOND = 1_000_000


def sends(world: World, sent_at: int, *, actor: str = "bea", verb: Any = "approve") -> World:
    """An answer stands in the inbox, sent at that instant."""
    fact = world.review.fact
    given = DecisionMade(
        input_id=f"by {actor}",
        review_id=fact.review_id,
        verb=verb,
        actor=actor,
        digest=fact.digest,
    )
    item = InboxItem("run-1", given.input_id, INBOX.dump_json(given), sent_at=sent_at)
    world.inbox.append(stood(item, world.people))
    return world


@pytest.mark.parametrize(("after_us", "counts"), [(-1, True), (0, False), (SECOND, False)])
def test_of_two_who_must_agree_the_second_is_late_too(after_us, counts):
    world = asked(lone(table=CELL, humans=EYES)).decide("approve", actor="ann").go()
    due = world.review.fact.due_at
    world.now = due + 10 * SECOND
    sends(world, due + after_us).go()
    if counts:
        last = world.of(ev.ReviewDecided)[-1]
        assert (last.actor, last.agreed, world.end.state) == ("bea", ("ann",), RunState.COMPLETED)
    else:
        assert ignored(world) == ["the answer came when the time for it was over: the review counts as rejected"]
        world.go().wait(1)
        assert (world.of(ev.ReviewDecided)[-1].system, world.end.state) == (True, RunState.ABORTED)


def test_a_run_that_was_claimed_right_before_a_review_is_due_expires_it_only_after_another_look():
    world = asked(lone(table=CELL, humans=EYES)).decide("approve", actor="ann").go()
    due = world.review.fact.due_at
    world.now = due + SECOND // 10
    world.claim = {"at": due - 1}
    world._resting_wake = due
    world.take_up()
    assert world.of(ev.ReviewDecided) == []
    assert world.driver is None
    assert world._resting_wake <= world.now, "it is given back, and the next worker looks at the inbox with it"
    world.claim = {}
    sends(world, due - 1).go()
    assert (world.of(ev.ReviewDecided)[-1].actor, world.end.state) == ("bea", RunState.COMPLETED)


def under_review(item: str = "failure", due_at: int = 100) -> Run:
    fact = asked().review.fact
    return replace(Run("run"), reviews={"a": OpenReview(replace(fact, item=item, due_at=due_at))})


@pytest.mark.parametrize(
    ("item", "now", "seen_at", "over"),
    [
        ("failure", 99, -1, False),
        ("failure", 100, -1, True),
        ("failure", 100, 99, True),
        ("failure", 100, 100, False),
        ("quarantine", 100, -1, False),
        ("follow_up", 100, -1, False),
    ],
)
def test_a_review_expires_once_its_time_is_over_and_was_not_when_the_inbox_was_looked_at(item, now, seen_at, over):
    assert expires(under_review(item), now, seen_at=seen_at) is over


def test_a_timer_with_which_a_review_expires_waits_for_a_look_however_punctual_it_is():
    timers, run = Timers(), under_review()
    late = LateTimers(timers)
    assert wants_look(100, 100, run)
    assert not wants_look(100, 100 + LATE_US, Run("run"))
    assert wants_look(100, 101 + LATE_US, Run("run"))
    assert late.holds(100, run, 100)
    late.note_look(100)
    assert list(timers.due(100)) == [(100, "run")]
    assert not late.holds(100, run, 100)
