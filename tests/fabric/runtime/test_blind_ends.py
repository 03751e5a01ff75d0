"""A run that cannot be brought to its end is ended where it stands: what is written then, and what is known without folding."""

from __future__ import annotations

import pytest

from fabric.core.events.inputs import CancelRequested
from fabric.core.mechanisms import budget, find_state
from fabric.core.state.context import Contents
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal import projection
from fabric.runtime.journal.snapshots import build_snapshot
from fabric.runtime.quarantine import unfolded_claims as unfolded
from tests.fabric.core.bookings import Desk, at_the_desk, one_by_one, travel
from tests.fabric.core.fabrics import lone
from tests.fabric.core.family_scenes import household
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, say
from tests.fabric.runtime.shelves import TORN, Shelf, kinds, quarantined


@pytest.mark.parametrize(("verb", "state"), [("reject", RunState.ABORTED), ("cancel", RunState.CANCELLED)])
def test_an_unreadable_run_ends_where_it_stands(verb, state):
    shelf = Shelf()
    shelf.judged(1, damage=TORN)
    if verb == "cancel":
        shelf.put(CancelRequested(input_id="cancel", actor="ada"))
    else:
        shelf.decide(verb)
    batch = shelf.judged(1, damage=TORN)
    assert kinds(batch)[-1] == "run_ended"
    assert (batch.columns.state, batch.columns.ended_at, batch.wake_at) == (state, shelf.now, None)
    assert batch.columns.reason.endswith("(event 4 is missing)")
    assert shelf.run.state is state


def test_other_reviews_of_an_unreadable_run_are_withdrawn_as_far_as_they_can_be_read():
    world = World(lone(), {"worker": [say("no")] * 9}, tier=Tier.HIGH_STAKES).start().go()
    shelf = Shelf(world)
    (other,) = shelf.run.reviews
    shelf.judged(1, damage=TORN)
    shelf.decide("reject")
    batch = shelf.judged(1, damage=TORN)
    assert kinds(batch) == ["review_decided", "review_withdrawn", "run_ended"]
    assert [change.review_id for change in batch.reviews][1:] == [other]


def test_reviews_and_ends_that_only_a_snapshot_names_are_known():
    world = World(lone(), {"worker": [say("no")] * 9}, tier=Tier.HIGH_STAKES).start().go()
    shelf = Shelf(world)
    (other,) = shelf.run.reviews
    before = {"snapshot": build_snapshot(shelf.run, shelf.rows[-1].hash, Contents())}
    at = len(shelf.rows)
    shelf.judged(1, damage=TORN, **before, rows=())
    shelf.decide("reject")
    batch = shelf.judged(1, damage=TORN, **before, rows=shelf.claimed().rows[at:])
    assert [change.review_id for change in batch.reviews][1:] == [other]
    assert kinds(batch)[-1] == "run_ended"


def test_what_was_out_is_charged_at_worst_case_and_what_it_did_stays_and_is_said():
    """Ended where it stands: the journal's fold, and the row by its mark, say what the calls out may have cost, and name what was done."""
    desk = Desk(lost={2})
    world = at_the_desk(travel(), desk, [*one_by_one(2)[:1], HANGS])
    world.go(until_s=2)
    shelf = Shelf(world)
    before = projection.columns(shelf.run)
    (out,) = find_state(shelf.run.guards, budget).reserved.values()
    shelf.judged(1, damage=TORN)
    shelf.decide("reject")
    batch = shelf.judged(1, damage=TORN)
    assert kinds(batch) == ["review_decided", "unwinding_omitted", "run_ended"]
    assert shelf.facts[-2].stays == ("book",)
    assert shelf.facts[-1].reason.endswith("not undone: book")
    after, mark = projection.columns(shelf.run), batch.columns
    assert (mark.charged_usd_micros, mark.charged_tokens) == (out.usd_micros, out.tokens)
    assert out.usd_micros > 0
    assert (after.cost_usd_micros, after.tokens) == (
        before.cost_usd_micros + out.usd_micros,
        before.tokens + out.tokens,
    )
    assert (mark.recovered, mark.truncated) == (after.recovered, after.truncated) == (False, False)


def test_what_a_snapshot_holds_is_known_where_the_rows_before_it_were_not_claimed():
    world = World(lone(), {"worker": [say("no")] * 9}, tier=Tier.HIGH_STAKES).start().go()
    shelf = Shelf(world)
    (other,) = shelf.run.reviews
    run, rows = shelf.run, shelf.claimed().rows
    snapshot = build_snapshot(run, rows[-1].hash, Contents())
    shelf.judged(1, damage=TORN)
    shelf.decide("reject")
    batch = shelf.judged(1, damage=TORN, rows=shelf.claimed().rows[len(rows) :], snapshot=snapshot)
    assert [change.review_id for change in batch.reviews][1:] == [other]
    torn = replace(snapshot, state=snapshot.state[:-1])
    found = unfolded.read_leftovers(shelf.claimed(rows=(), snapshot=torn))
    assert found == unfolded.Left((), 0, 0, None, (), {}, (), whole=False)


def test_an_unreadable_run_that_is_tried_again_is_quarantined_again():
    shelf = Shelf()
    shelf.judged(1, damage=TORN)
    shelf.decide("approve")
    assert kinds(shelf.judged(1, damage=TORN))[-1] == "run_released_from_quarantine"
    assert kinds(shelf.judged(1, damage=TORN)) == ["run_quarantined", "review_opened"]
    assert len(shelf.run.reviews) == 1


def test_a_run_that_cannot_even_be_ended_is_ended_where_it_stands():
    shelf = quarantined()
    shelf.decide("reject")
    shelf.judged(1)
    assert kinds(shelf.judged(6)) == ["run_quarantined", "review_opened"]
    shelf.decide("reject", input_id="again")
    batch = shelf.judged(1)
    assert kinds(batch) == ["review_decided", "run_ended"]
    assert shelf.run.state is RunState.ABORTED


def test_children_of_a_run_that_is_ended_where_it_stands_are_told_to_stop_and_charged_as_reserved():
    family = household(10)
    family.go(until=lambda it: len(it.children) == 3)
    root = family.root
    root.poisoned = True
    family.crash("root")
    family.go(until=lambda it: root.run.state is RunState.QUARANTINED)
    alive = list(root.run.family.alive.values())
    assert alive
    before, reserved = find_state(root.run.guards, budget), [one.fact.reserved_usd_micros for one in alive]
    root.damage = TORN
    family.decide("root", "reject")
    after = find_state(root.run.guards, budget)
    assert root.run.state is RunState.ABORTED
    assert after.spent_usd_micros == before.spent_usd_micros + sum(one.usd_micros for one in before.reserved.values())
    assert set(reserved) <= {one.usd_micros for one in before.reserved.values()}
    assert after.reserved == {}
    assert {family.runs[one.fact.child_id].run.state for one in alive} == {RunState.CANCELLED}
