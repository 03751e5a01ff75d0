"""Quarantine: who gets there, what is written without folding anything, and what ends it."""

from __future__ import annotations

import json

import pytest

from fabric.core.events.envelope import from_row, verify_chain
from fabric.core.events.inputs import CancelRequested, RunRequested, TerminateRequested
from fabric.core.state.context import Contents, compile_spec
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import FORMAT, RunState, Stage
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal.snapshots import Cadence, build_snapshot
from fabric.runtime.ports.journal import InboxItem, StoredRow
from fabric.runtime.quarantine.verdicts import CLAIMS_MAX, verdict
from tests.fabric.core.bookings import Desk, at_the_desk, go, one_by_one, travel
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, asks, gives, say
from tests.fabric.core.tills import Till
from tests.fabric.runtime.shelves import TORN, S, Shelf, kinds, quarantined


@pytest.mark.parametrize("claims", range(1, CLAIMS_MAX + 1))
def test_five_claims_without_progress_are_allowed(claims):
    assert Shelf().judged(claims) is None


def test_the_sixth_is_quarantined_and_a_person_is_asked():
    shelf = Shelf()
    before = shelf.run
    batch = shelf.judged(6)
    assert kinds(batch) == ["run_quarantined", "review_opened"]
    assert (batch.fence, batch.last_seq, batch.wake_at, batch.consumed) == (9, before.seq, None, ())
    assert (batch.columns.state, batch.columns.ended_at) == (RunState.QUARANTINED, None)
    assert batch.columns.reason == "The run is quarantined: it was claimed 6 times without progress."
    (review,) = shelf.run.reviews.values()
    assert (review.fact.item, review.fact.verbs, review.fact.stage) == (
        "quarantine",
        ("approve", "reject"),
        Stage.FAN_OUT,
    )
    (asked,) = batch.reviews
    shown = json.loads(asked.content)
    assert (shown["limit"], shown["observed"], shown["expiry"]) == (5, 6, "nothing happens automatically")
    assert shelf.run.state is RunState.QUARANTINED
    assert shelf.run.pending == before.pending


def test_a_run_whose_snapshot_is_all_there_is_to_read_is_put_away_where_and_when_that_stands():
    """By the clock of an owner that lags behind the one before, whose last batch was the snapshot's."""
    shelf = Shelf()
    taken, last = build_snapshot(shelf.run, shelf.rows[-1].hash, Contents()), shelf.run.at
    shelf.now = last - S
    assert shelf.judged(6, rows=(), snapshot=taken) is not None
    (review,) = shelf.run.reviews.values()
    assert (review.fact.stage, shelf.run.at) == (Stage.FAN_OUT, last)


def test_how_many_claims_a_run_may_have_is_its_policy():
    shelf = Shelf()
    limits = shelf.world.spec.policy.limits.model_copy(update={"claims_without_progress": 2})
    policy = shelf.world.spec.policy.model_copy(update={"limits": limits})
    compiled = compile_spec(shelf.world.spec.model_copy(update={"policy": policy}), prices={})
    assert shelf.judged(2, compiled=compiled) is None
    (asked,) = shelf.judged(3, compiled=compiled).reviews
    assert json.loads(asked.content)["limit"] == 2


def test_damage_is_quarantined_at_once_and_named():
    batch = Shelf().judged(1, damage=TORN)
    assert batch.columns.reason == "The run is quarantined: its journal is damaged: event 4 is missing."
    assert from_row(batch.rows[0].seq, batch.rows[0].kind, 1, batch.rows[0].header).fact.damage == TORN


def test_its_rows_are_chained_to_what_the_row_says_not_to_what_is_there():
    shelf = Shelf()
    claimed = shelf.claimed(1, rows=shelf.claimed().rows[:-1])
    batch = verdict(claimed, shelf.now, damage="the end is missing")
    assert (batch.last_seq, batch.rows[0].seq) == (shelf.rows[-1].last_seq, shelf.rows[-1].last_seq + 1)
    chained = [(r.seq, r.kind, r.version, r.header, r.payload_hash, r.hash) for r in [*shelf.rows, *batch.rows]]
    assert verify_chain(chained, ZERO_HASH) is None


def test_a_journal_that_cannot_be_read_at_all_is_put_away_as_well():
    shelf = Shelf()
    broken = tuple(StoredRow(n, "not a kind", 9, b"\x00", None, b"", b"") for n in range(1, 4))
    batch = verdict(shelf.claimed(1, rows=broken), shelf.now, damage="event 1 is of an unknown kind")
    assert kinds(batch) == ["run_quarantined", "review_opened"]


def test_nothing_is_written_before_the_event_that_came_last():
    shelf = Shelf()
    last = from_row(shelf.rows[-1].seq, shelf.rows[-1].kind, 1, shelf.rows[-1].header).at
    shelf.now = last - 60 * S
    assert all(row.at == last for row in shelf.judged(6).rows)


def test_a_claim_without_an_answer_changes_nothing():
    shelf = quarantined()
    shelf.put(RunRequested(input_id="else", request={}, deadline_at=0))
    batch = shelf.judged(1)
    assert (batch.rows, batch.consumed, batch.wake_at, batch.columns.state) == ((), (), None, RunState.QUARANTINED)


@pytest.mark.parametrize("claims", [1, 99])
def test_approving_gives_it_back_to_all_workers_however_often_it_was_claimed_meanwhile(claims):
    shelf = quarantined()
    shelf.decide("approve")
    batch = shelf.judged(claims)
    assert kinds(batch) == ["review_decided", "run_released_from_quarantine"]
    assert (batch.consumed, batch.wake_at, batch.columns.state) == (("decision",), shelf.now, RunState.RUNNING)
    assert shelf.run.state is RunState.RUNNING
    assert shelf.run.reviews == {}
    assert shelf.judged(1) is None
    assert shelf.go_on() == ["ownership_taken", "attempt_interrupted", "call_issued"]


def test_rejecting_lets_the_next_owner_bring_it_to_its_end():
    shelf = quarantined()
    shelf.decide("reject")
    batch = shelf.judged(1)
    assert kinds(batch) == ["review_decided", "run_released_from_quarantine", "run_ending"]
    assert (batch.wake_at, batch.columns.state) == (shelf.now, RunState.UNWINDING)
    assert "run_ended" in shelf.go_on()
    assert (shelf.run.state, shelf.run.pending) == (RunState.ABORTED, {})
    assert shelf.facts[-1].reason.startswith("ada rejected it: because (The run is quarantined")


def test_a_cancel_reaches_it():
    shelf = quarantined()
    shelf.put(CancelRequested(input_id="cancel", actor="ada"))
    batch = shelf.judged(1)
    assert kinds(batch) == ["cancel_accepted", "review_withdrawn", "run_released_from_quarantine", "run_ending"]
    assert batch.columns.state is RunState.CANCELLING
    shelf.go_on()
    assert shelf.run.state is RunState.CANCELLED


def test_a_terminate_reaches_it():
    shelf = quarantined()
    shelf.put(TerminateRequested(input_id="terminate", actor="ada", reason="enough"))
    batch = shelf.judged(1)
    assert kinds(batch) == ["terminate_accepted", "review_withdrawn", "run_released_from_quarantine", "run_ending"]
    shelf.go_on()
    assert (shelf.run.state, shelf.run.reason) == (RunState.ABORTED, "terminated by ada: enough")


def test_an_answer_to_another_review_is_left_for_the_run_for_as_long_as_that_may_be_open():
    world = World(lone(), {"worker": [say("no")] * 9}, tier=Tier.HIGH_STAKES).start().go()
    shelf = quarantined(world=world)
    other = next(iter(shelf.run.reviews))
    shelf.decide("approve", review_id=other)
    batch = shelf.judged(1)
    assert (kinds(batch), batch.consumed) == ([], ())
    shelf.decide("approve", review_id="of a part that cannot be read", input_id="unknown")
    assert shelf.judged(1, rows=shelf.claimed().rows[1:]).consumed == ()


def test_a_journal_that_lost_what_ended_its_quarantine_is_put_away_anew():
    """Its last word is missing, so its reviewers must be asked again: the review that can be read was answered."""
    shelf = quarantined()
    whole = shelf.claimed().rows
    shelf.decide("approve")
    shelf.judged(1)
    batch = verdict(shelf.claimed(rows=whole), shelf.now, damage="the end is missing")
    assert kinds(batch) == ["run_quarantined", "review_opened"]
    rows = [row for row in shelf.claimed().rows if row.kind != "run_released_from_quarantine"]
    assert verdict(shelf.claimed(rows=tuple(rows)), shelf.now) is None
    shelf.judged(1, damage="an event is missing", rows=tuple(rows))
    assert len(shelf.run.reviews) == 1


def test_how_a_run_was_going_to_end_stands_though_it_is_cancelled_then():
    shelf = quarantined()
    shelf.decide("reject")
    shelf.judged(1)
    shelf.judged(6)
    shelf.put(CancelRequested(input_id="cancel", actor="ada"))
    batch = shelf.judged(1)
    assert (batch.columns.state, shelf.facts[-1].reaction) == (RunState.ABORTED, "reject")
    assert shelf.run.state is RunState.ABORTED


def test_an_answer_to_what_is_not_open_any_more_wakes_it_once():
    shelf = quarantined()
    shelf.decide("approve", review_id="other")
    batch = shelf.judged(1)
    assert (kinds(batch), batch.consumed) == (["input_ignored"], ("decision",))
    assert shelf.facts[-1].reason.startswith("the review was answered before")


@pytest.mark.parametrize(
    ("changed", "verb", "reason"),
    [
        ({"digest": "other"}, "approve", "the decision was about other content"),
        ({}, "respond", "respond is not possible here; possible are: approve, reject"),
    ],
)
def test_what_is_no_answer_is_journaled_and_changes_nothing(changed, verb, reason):
    shelf = quarantined()
    shelf.decide(verb, **changed)
    batch = shelf.judged(1)
    assert (kinds(batch), batch.consumed, batch.wake_at) == (["input_ignored"], ("decision",), None)
    assert shelf.facts[-1].reason.startswith(reason)
    assert batch.columns.state is RunState.QUARANTINED
    shelf.decide("approve", input_id="then")
    assert shelf.judged(1).columns.state is RunState.RUNNING


@pytest.mark.parametrize("says", [1, FORMAT + 3])
def test_an_answer_that_only_a_newer_program_reads_is_left_to_it(says):
    shelf = quarantined()
    shelf.decide("approve")
    body = json.loads(shelf.inbox[0].body)
    newer = InboxItem("run-1", "decision", json.dumps({**body, "version": 9}).encode(), format=says)
    shelf.inbox = [newer]
    batch = shelf.judged(1)
    assert (kinds(batch), batch.consumed) == ([], ())
    assert (batch.format, batch.wake_at) == (max(says, FORMAT + 1), shelf.now)


def test_unread_attributes_are_taken_out_and_said():
    shelf = quarantined()
    shelf.inbox = [InboxItem("run-1", "nonsense", b"\x00")]
    batch = shelf.judged(1)
    assert (kinds(batch), batch.consumed, batch.format) == (["input_ignored"], ("nonsense",), 0)


def test_of_two_answers_the_first_counts():
    shelf = quarantined()
    shelf.decide("approve", input_id="one")
    shelf.decide("reject", input_id="two")
    batch = shelf.judged(1)
    assert kinds(batch) == ["review_decided", "run_released_from_quarantine", "input_ignored"]
    assert batch.consumed == ("one", "two")
    assert batch.columns.state is RunState.RUNNING


@pytest.mark.parametrize("stop", [CancelRequested, TerminateRequested])
@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_who_wants_it_stopped_is_heard_although_the_quarantine_was_ended_at_the_same_time(verb, stop):
    """A parent that lets its child go says so once: thrown away, the child would go on for no parent."""
    shelf = quarantined()
    shelf.decide(verb)
    shelf.put(stop(input_id="stop", actor="parent", reason="enough"))
    batch = shelf.judged(1)
    assert (batch.consumed, batch.wake_at) == (("decision",), shelf.now)
    assert shelf.judged(1) is None
    facts = shelf.go_on()
    assert "run_ended" in facts
    ended = RunState.CANCELLED if stop is CancelRequested and verb == "approve" else RunState.ABORTED
    assert shelf.run.state is ended


def test_a_review_that_cannot_be_read_is_asked_anew():
    shelf = quarantined()
    shelf.decide("approve")
    rows = list(shelf.claimed().rows)
    last = rows[-1]
    rows[-1] = StoredRow(last.seq, last.kind, last.version, b"\x00", last.payload, last.payload_hash, last.hash)
    batch = verdict(shelf.claimed(1, rows=tuple(rows)), shelf.now)
    assert (kinds(batch), batch.consumed) == (["run_quarantined", "review_opened"], ("decision",))


def test_a_run_that_never_started_begins_when_it_is_released():
    world = World(spec(), {})
    shelf = Shelf(world)
    start = RunRequested(input_id="start", request={"text": "x"}, deadline_at=shelf.now + 600 * S)
    shelf.put(start)
    assert shelf.judged(6).columns.state is RunState.QUARANTINED
    shelf.decide("approve")
    batch = shelf.judged(1)
    assert (batch.columns.state, batch.consumed) == (RunState.QUEUED, ("decision",))
    assert shelf.go_on()[0] == "run_started"


def test_a_run_that_never_started_can_be_rejected():
    shelf = Shelf(World(spec(), {}))
    shelf.judged(6)
    shelf.decide("reject")
    shelf.judged(1)
    shelf.go_on()
    assert shelf.run.state is RunState.ABORTED


def test_an_answer_to_another_review_of_a_run_that_is_ending_comes_too_late():
    """Both were answered at once: what the quarantine was told holds, and the run undoes what it did without beginning to end anew."""
    desk = Desk(lost={2})
    world = go(at_the_desk(travel(), desk, one_by_one(2), tier=Tier.HIGH_STAKES), desk)
    shelf = Shelf(world)
    (other,) = shelf.run.reviews.values()
    shelf.judged(6)
    shelf.decide("reject", review_id=other.fact.review_id, digest=other.fact.digest, input_id="first")
    shelf.decide("reject")
    shelf.judged(1)
    kinds = shelf.go_on()
    assert kinds.count("run_ending") == 0
    assert "compensation_issued" in kinds
    assert (kinds[-1], shelf.facts[-1].reason) == (
        "input_ignored",
        "the review was answered before, withdrawn, or never asked",
    )


def test_other_reviews_are_withdrawn_when_it_ends():
    world = World(lone(), {"worker": [say("no")] * 9}, tier=Tier.HIGH_STAKES).start().go()
    shelf = Shelf(world)
    (other,) = shelf.run.reviews
    shelf.judged(6)
    assert next(iter(shelf.run.reviews)) == other
    shelf.decide("reject")
    shelf.judged(1)
    assert "review_withdrawn" in shelf.go_on()
    assert shelf.run.state is RunState.ABORTED


@pytest.mark.parametrize("snapped", [False, True])
def test_what_it_holds_of_shared_budgets_is_charged_at_worst_when_it_ends_where_it_stands(snapped):
    """Its worker may live on, and no other would ever settle that."""
    till = Till(caps={"fabric:fabric-1": 1_000_000})
    fabric = lone(budget={"fabric_hour_usd_micros": 1_000_000})
    script = {"worker": [asks(), HANGS], "look": gives()}
    cadence = Cadence(while_owned=1 if snapped else 10_000)
    world = World(fabric, script, till=till, cadence=cadence).start().go(until_s=5)
    shelf = Shelf(world)
    (out,) = (one.issued for one in shelf.run.pending.values())
    assert out.grants
    taken = world.written[-1].snapshot

    def judged():
        rows = tuple(row for row in shelf.claimed().rows if not snapped or row.seq > taken.seq)
        return shelf.judged(damage=TORN, rows=rows, snapshot=taken)

    assert (taken is not None) is snapped
    judged()
    shelf.decide("reject")
    (settled,) = judged().settled
    assert (settled.run_id, settled.command_id, settled.attempt) == ("run-1", out.command_id, out.attempt)
    assert (settled.usd_micros, settled.reason) == (None, "unknown")
