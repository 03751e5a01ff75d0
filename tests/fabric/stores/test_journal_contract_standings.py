"""An inbox row brings its answerer and what they hold; an answer that was judged on something else by now is not written."""

import pytest

from fabric.core.events.inputs import INBOX, CancelRequested, DecisionMade
from fabric.runtime.ports.journal import BatchFate, Standing
from tests.fabric.stores.journal_worlds import BOBS, Journal, new_run


def answered(world, name="bob", *, delay_s=0.0):
    """A run that is owned, with an answer in its inbox."""
    run_id, _ = world.store.create(new_run())
    given = DecisionMade(input_id="answer", review_id="q", verb="approve", actor=name, digest="d")
    world.store.put_input(run_id, "answer", INBOX.dump_json(given), delay_s=delay_s)
    world.store.register("worker", lease_s=60.0)
    (claimed,) = world.store.claim("worker", limit=1, queues=["default"])
    return claimed


def test_it_comes_with_a_claim_and_with_a_look_at_the_inbox(world):
    claimed = answered(world)
    standings = {item.input_id: item.standing for item in claimed.inbox}
    assert standings == {"start": None, "answer": Standing("bob", BOBS)}
    assert {item.input_id: item.standing for item in world.store.inbox("worker")} == standings
    assert standings["answer"].person("").roles == frozenset(BOBS.split(","))


def test_it_is_what_they_hold_at_that_moment(world):
    answered(world)
    world.give_bob("viewer")
    assert {item.standing for item in world.store.inbox("worker")} == {None, Standing("bob", "viewer")}
    world.give_bob(None)
    assert {item.standing for item in world.store.inbox("worker")} == {None, Standing("bob", None)}


def test_the_one_person_who_may_sign_in_is_alone_until_another_joins(world):
    world.leave_bob()
    claimed = answered(world)
    (_, answer) = claimed.inbox
    assert answer.standing == Standing("bob", f"alone,{BOBS}")
    world.leave_bob("viewer")
    batch = Journal(claimed.run_id).batch(consumed=("start", "answer"), standings=(("answer", answer.standing),))
    assert world.store.write([batch]) == [BatchFate.INPUT_GONE], "what was judged on is not so any more"
    assert {item.standing for item in world.store.inbox("worker")} == {None, Standing("bob", BOBS)}


def test_a_non_member_holds_nothing(world):
    world.give_bob("reviewer")
    claimed = answered(world, "mallory")
    assert [item.standing for item in claimed.inbox][1:] == [Standing("mallory", None)]
    assert not claimed.inbox[1].standing.person("").member


def test_an_announced_answer_has_it_too(world):
    claimed = answered(world, delay_s=30.0)
    assert [item.standing for item in claimed.announced] == [Standing("bob", BOBS)]


def test_it_says_when_it_was_sent_by_the_stores_clock(world):
    """With a claim, with a look at the inbox, and while it can still be taken back."""
    before = world.store.now()
    claimed, announced = answered(world), answered(world, delay_s=30.0)
    (waits,) = announced.announced
    found = [item.sent_at for item in (*claimed.inbox, *announced.inbox, waits, *world.store.inbox("worker"))]
    assert len(found) == 8
    assert all(before <= sent_at <= world.store.now() for sent_at in found)
    assert waits.visible_at - waits.sent_at == 30 * 1_000_000


def test_other_inputs_and_unreadable_ones_have_none(world):
    run_id, _ = world.store.create(new_run())
    world.store.put_input(run_id, "cancel", INBOX.dump_json(CancelRequested(input_id="cancel", actor="bob")))
    world.store.put_input(run_id, "damaged", b'\xff{"kind":"decision_made"')
    world.store.put_input(run_id, "none", b'{"kind":"decision_made","actor":7}')
    world.store.put_input(run_id, "list", b'["decision_made"]')
    world.store.register("worker", lease_s=60.0)
    (claimed,) = world.store.claim("worker", limit=1, queues=["default"])
    assert [item.standing for item in claimed.inbox] == [None] * 5


@pytest.mark.parametrize("now", ["viewer", None])
def test_an_answer_that_was_judged_on_more_than_they_hold_is_not_written(world, now):
    claimed = answered(world)
    judged = (("answer", claimed.inbox[1].standing),)
    world.give_bob(now)
    journal, given = Journal(claimed.run_id), {"consumed": ("start", "answer")}
    beside = answered(world, "mallory")
    alone = Journal(beside.run_id).batch(**given, standings=(("answer", Standing("mallory", None)),))
    refused = journal.rival(1).batch(**given, standings=judged)
    assert world.store.write([refused, alone]) == [BatchFate.INPUT_GONE, BatchFate.COMMITTED]
    assert world.unconsumed(claimed.run_id) == 2
    again = journal.batch(**given, standings=(("answer", Standing("bob", now)),))
    assert world.store.write([again]) == [BatchFate.COMMITTED]
