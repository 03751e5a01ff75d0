"""Inputs that are announced, that only a newer program reads, and that no program reads: none of them stops a driver."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fabric.core.events.envelope import from_row, list_events, split_rows
from fabric.core.events.inputs import INBOX, CancelRequested, DecisionMade
from fabric.core.values.flow import FORMAT
from fabric.core.values.taxonomy import Tier
from fabric.runtime.arrivals import LATE_US
from fabric.runtime.happenings import Arrived, Due, PortAnswered, Quarantine, Release, Taken, WakeAt
from fabric.runtime.ports.journal import InboxItem
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails
from tests.fabric.core.standings import stood
from tests.fabric.runtime.claimed_runs import claimed
from tests.fabric.runtime.test_driver import CANCEL, START, T0, Driven, S, item, refused, stored


def newer(given, format: int = FORMAT + 3) -> InboxItem:
    body = json.loads(INBOX.dump_json(given))
    return InboxItem("run-1", given.input_id, json.dumps({**body, "version": 9}).encode(), format=format)


CANCEL_OF_TOMORROW = newer(CancelRequested(input_id="cancel", actor="alice"))
NONSENSE = InboxItem("run-1", "nonsense", b"\x00\x01")


def kinds(batch):
    return [row.kind for row in split_rows(batch.rows)]


# -- of a newer program ----------------------------------------------------------------------------------------------


def test_a_run_at_rest_is_handed_over_at_once_to_who_reads_its_input():
    driven = Driven(inbox=(START, CANCEL_OF_TOMORROW))
    assert driven.batch.release
    assert driven.batch.format == FORMAT + 3
    assert driven.batch.consumed == ("start",)
    assert driven.batch.wake_at == T0
    assert driven.commit() == [Release("released")]


def test_one_that_says_too_little_of_itself_is_handed_on_all_the_same():
    driven = Driven(inbox=(START, replace(CANCEL_OF_TOMORROW, format=1)))
    assert driven.batch.format == FORMAT + 1


def test_what_comes_behind_it_waits_with_it():
    driven = Driven(inbox=(START, CANCEL_OF_TOMORROW, item(CancelRequested(input_id="second", actor="bob"))))
    assert driven.batch.consumed == ("start",)
    assert "cancel_accepted" not in kinds(driven.batch)


def test_calls_that_are_out_are_waited_for_and_nothing_more_is_issued():
    driven = Driven()
    driven.commit()
    assert driven.step(Arrived(CANCEL_OF_TOMORROW)) == []
    driven.answer()
    assert driven.batch.release
    assert driven.batch.format == FORMAT + 3
    assert kinds(driven.batch) == ["model_answered"]
    assert driven.batch.consumed == ()


def test_a_start_of_a_newer_program_is_left_alone():
    body = newer(INBOX.validate_json(START.body))
    driven = Driven(inbox=(body,))
    assert (driven.batch.rows, driven.batch.consumed, driven.batch.release) == ((), (), True)
    assert driven.batch.format == FORMAT + 3


def test_other_batches_raise_nothing_beyond_what_they_write():
    assert Driven().batch.format <= FORMAT


# -- of no sender ----------------------------------------------------------------------------------------------------


def test_nonsense_is_taken_out_and_the_journal_says_so():
    driven = Driven(inbox=(START, NONSENSE))
    assert driven.batch.consumed == ("start", "nonsense")
    row = next(row for row in split_rows(driven.batch.rows) if row.kind == "input_ignored")
    event = from_row(row.seq, row.kind, row.version, row.header)
    assert (event.fact.input_kind, event.input_id) == ("unreadable", "nonsense")
    assert "an inbox row cannot be read" in event.fact.reason
    assert "call_issued" in kinds(driven.batch)


def test_nonsense_that_arrives_later_likewise():
    driven = Driven()
    driven.commit()
    driven.step(Arrived(NONSENSE))
    assert (driven.batch.consumed, kinds(driven.batch)) == (("nonsense",), ["input_ignored"])
    assert driven.step(Arrived(NONSENSE)) == []


def test_a_run_whose_start_is_nonsense_is_damaged():
    driven = Driven(inbox=(NONSENSE,))
    [effect] = driven.effects
    assert isinstance(effect, Quarantine)
    assert effect.damage.what == "input"
    assert effect.damage.sentence.startswith("the run cannot start: an inbox row cannot be read")


# -- announced -------------------------------------------------------------------------------------------------------


def asked(tier: Tier = Tier.BATCH):
    """A run that asks a person, as its rows, and the review."""
    world = fails_for_good(tier)
    return world, world.review.fact


def fails_for_good(tier: Tier):
    return ran(lone(), {"worker": fails()}, tier=tier)


def taken(world, *, now: int, inbox=(), announced=(), at: int | None = None):
    driven = Driven(world.spec, rows=stored(world.rows), inbox=(), fence=2, tier=world.tier, now=now)
    driven.driver = type(driven.driver)(world.compiled)
    claim = replace(claimed(world), inbox=tuple(inbox), announced=tuple(announced), at=now if at is None else at)
    driven.step(Taken(claim, "process-2"))
    return driven


@pytest.mark.parametrize("says", [1, FORMAT + 3])
def test_what_only_a_newer_program_reads_may_be_an_answer_so_nothing_expires_meanwhile(says):
    """Announced before the review is due, for after it: a program that reads it decides, and this one neither waits for it nor assumes silence."""
    world, review = asked()
    given = INBOX.validate_json(answer(review, 0).body)
    tomorrow = replace(newer(given, says), visible_at=review.due_at + S, announced=True)
    driven = taken(world, now=review.due_at, announced=[tomorrow])
    assert driven.batch.release
    assert driven.batch.format == max(says, FORMAT + 1)
    assert "review_decided" not in kinds(driven.batch)


def test_one_that_is_announced_to_an_owner_has_the_run_handed_over():
    """With a call out it is waited for; with nothing but a retry's time, it goes at once."""
    tomorrow = replace(CANCEL_OF_TOMORROW, visible_at=T0 + 60 * S, announced=True)
    driven = Driven()
    driven.commit()
    assert driven.step(Arrived(tomorrow)) == []
    driven.answer()
    assert kinds(driven.batch) == ["model_answered"]
    assert (driven.batch.release, driven.batch.format) == (True, FORMAT + 3)
    waits = Driven()
    waits.commit()
    waits.step(PortAnswered(refused(5.0)))
    waits.commit()
    waits.step(Arrived(tomorrow))
    assert (waits.batch.release, waits.batch.format) == (True, FORMAT + 3)


def answer(review, at: int, verb: Any = "approve", message: str = "") -> InboxItem:
    given = DecisionMade(
        input_id="d1",
        review_id=review.review_id,
        verb=verb,
        actor="bob",
        digest=review.digest,
        message=message,
    )
    return stood(InboxItem("run-1", "d1", INBOX.dump_json(given), visible_at=at, announced=True))


def test_without_an_answer_a_review_expires_when_it_is_due():
    world, review = asked()
    driven = taken(world, now=review.due_at)
    assert "review_decided" in kinds(driven.batch)


def test_what_is_due_by_the_stores_clock_is_due_for_an_owner_whose_own_lags():
    """Else it would give the run back, be told at once that it is due, and so on, until the run is put away."""
    world, review = asked()
    driven = taken(world, now=review.due_at - 3 * S, at=review.due_at)
    assert "review_decided" in kinds(driven.batch)
    row = driven.batch.rows[-1]
    assert from_row(row.seq, row.kind, row.version, row.header).at == review.due_at


def test_no_event_is_older_than_the_one_before_it_whatever_the_clock_says():
    driven = Driven()
    driven.commit()
    before = driven.driver.run.at
    driven.now = before - 60 * S
    driven.step(Arrived(CANCEL))
    assert {from_row(row.seq, row.kind, row.version, row.header).at for row in split_rows(driven.batch.rows)} == {
        before
    }


@pytest.mark.parametrize(("late_us", "decides"), [(LATE_US, True), (LATE_US + 1, False)])
def test_a_review_expires_with_a_claim_only_where_what_that_brought_is_fresh(late_us, decides):
    world, review = asked()
    now = review.due_at + 60 * S
    driven = taken(world, now=now, at=now - late_us)
    assert ("review_decided" in kinds(driven.batch)) == decides
    if not decides:  # A worker that is woken by that looks at the inbox first.
        assert driven.batch.wake_at == review.remind_at


def test_a_review_whose_answer_is_announced_does_not_expire():
    world, review = asked()
    at = review.due_at + 5 * S
    driven = taken(world, now=review.due_at, announced=[answer(review, at)])
    assert "review_decided" not in kinds(driven.batch)
    assert driven.batch.consumed == ()
    assert (driven.batch.release, driven.batch.wake_at) == (True, at)


def test_a_withdrawn_answer_lets_it_expire_when_the_window_has_passed():
    world, review = asked()
    driven = taken(world, now=review.due_at + 5 * S)
    row = next(row for row in split_rows(driven.batch.rows) if row.kind == "review_decided")
    assert from_row(row.seq, row.kind, row.version, row.header).fact.system


@pytest.mark.parametrize("verb", ["approve", "respond", "reject"])
@pytest.mark.parametrize(
    ("sent_us", "counts"), [(-1, True), (0, False), (17 * S, False)], ids=["before", "at", "after"]
)
def test_an_answer_counts_when_it_was_sent_before_the_review_was_due(sent_us, counts, verb):
    """Whenever it is taken: here no worker drove the run until long after."""
    world, review = asked()
    sent = replace(answer(review, 0, verb, message="So."), announced=False, sent_at=review.due_at + sent_us)
    driven = taken(world, now=review.due_at + 60 * S, inbox=[sent])
    assert driven.batch.consumed == ("d1",)
    facts = [event.fact for event in list_events(driven.batch.rows)]
    decided = [(fact.verb, fact.actor) for fact in facts if fact.kind == "review_decided"]
    assert decided[:1] == [(verb, "bob") if counts else ("reject", "system")]
    ignored = [fact.reason for fact in facts if fact.kind == "input_ignored"]
    assert [one for one in ignored if "the answer came when the time for it was over" in one] == ignored
    assert len(ignored) == (0 if counts else 1)


def test_an_answer_that_could_still_be_taken_back_at_the_due_time_counts():
    world, review = asked()
    at = review.due_at + 5 * S
    driven = taken(world, now=at, inbox=[replace(answer(review, at), announced=False, sent_at=review.due_at - 1)])
    row = next(row for row in split_rows(driven.batch.rows) if row.kind == "review_decided")
    assert from_row(row.seq, row.kind, row.version, row.header).fact.actor == "bob"


def test_an_announced_input_is_taken_at_its_time_by_the_owner_that_knows_it():
    driven = Driven()
    driven.commit()
    at = T0 + 20 * S
    waiting = replace(CANCEL, visible_at=at, announced=True)
    assert driven.step(Arrived(waiting)) == [WakeAt(at)]
    assert driven.step(Arrived(waiting)) == []
    driven.now = at - 1
    assert driven.step(Due()) == [WakeAt(at)]
    driven.now = at
    driven.step(Due())
    assert driven.batch.consumed == ("cancel",)
    assert "cancel_accepted" in kinds(driven.batch)
    assert driven.step(Arrived(replace(CANCEL, visible_at=at))) == []


def test_what_is_announced_and_unreadable_is_met_when_it_is_taken():
    driven = Driven()
    driven.commit()
    assert driven.step(Arrived(replace(NONSENSE, visible_at=T0 + S, announced=True))) == [WakeAt(T0 + S)]
    driven.now = T0 + S
    driven.step(Due())
    assert driven.batch.consumed == ("nonsense",)
