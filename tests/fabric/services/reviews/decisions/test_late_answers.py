"""An answer that comes when the time for it is over: refused where it is taken, at every door, and by the run; nothing of it is done."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fabric.composition import engine as wiring
from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.values.flow import RunState
from fabric.core.values.units import US
from fabric.core.values.words import instant_exact
from fabric.management.run_follower import Following
from fabric.models import Inbox, Review
from fabric.selectors.database_time import store_now
from fabric.selectors.reviews.answers import input_id
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.queue import next_for, queue_rows, reviews_waiting_count
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.assignments import review_claim, review_claim_next, review_reassign
from fabric.services.reviews.decisions import BulkItem, decide_review, decide_reviews, hasten_decision, undo_decision
from tests.fabric.management.console import command
from tests.fabric.services.world import DOUBTFUL, PAYING, ran

MOMENT_S = 1


def short(source: str) -> str:
    """The same fabric, whose reviews are due almost at once."""
    return source.replace("run_usd_micros: 1000000}", f"run_usd_micros: 1000000}}\n  humans: {{due_s: {MOMENT_S}}}")


def let_time_pass(item):
    """Waits until the review is due, by the clock that judges: nothing else says so while no worker drives the run."""
    time.sleep(max(0, (item.due_at - store_now()) / US) + 0.05)


@pytest.fixture
def item(actor):
    """A payment whose time to be approved is over, with no engine running."""
    fabric = fabric_publish(actor=actor, source=short(PAYING)).name
    (found,) = list_open_reviews(actor, ran(actor, fabric, documents=()).id)
    let_time_pass(found)
    return found


@pytest.fixture
def asked(store, nudge, actor, item):
    return {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}


def refused(service, **given) -> Refused:
    with pytest.raises(Refused) as caught:
        service(**given)
    return caught.value


def is_late(refusal: Refused, item) -> bool:
    said = f"review {item.id} was due at 20"
    return refusal.message.startswith(said) and "an answer comes too late: rejected by the system" in refusal.message


@pytest.mark.parametrize("verb", ["approve", "reject", "respond", "edit"])
def test_every_answer_is_refused_where_it_is_taken(asked, item, verb):
    edited = {"to": "Ana", "usd": 40} if verb == "edit" else None
    refusal = refused(decide_review, **asked, digest=item.digest, verb=verb, message="So.", edited=edited)
    assert (refusal.code, refusal.field) == ("conflict", "due_at")
    assert is_late(refusal, item)
    assert not Inbox.objects.filter(input_id__startswith="decision:").exists()


@pytest.mark.parametrize("chars", [0, 7])
def test_too_short_a_digest_names_nothing_and_is_said_before_the_time_is(asked, item, chars):
    refusal = refused(decide_review, **asked, digest=item.digest[:chars], verb="approve")
    assert (refusal.code, refusal.field) == ("invalid", "digest")
    assert "or at least its first 8 characters" in refusal.message


def test_several_at_one_go_are_each_refused(store, nudge, actor, item):
    another = replace(item, digest="0" * 32)
    results = decide_reviews(
        store=store, nudge=nudge, actor=actor, items=[BulkItem(item.id, another.digest)], verb="approve"
    )
    assert results[0].refused.field == "digest"
    (result,) = decide_reviews(
        store=store, nudge=nudge, actor=actor, items=[BulkItem(item.id, item.digest)], verb="approve"
    )
    assert result.taken is None
    assert is_late(result.refused, item)


def test_at_one_go_those_that_are_in_time_are_taken_and_the_late_ones_are_named(store, nudge, actor, paying):
    items = [list_open_reviews(actor, ran(actor, paying, f"Invoice {n}.").id)[0] for n in range(3)]
    Review.objects.filter(id=items[1].id).update(due_at=items[1].opened_at)
    picked = [BulkItem(one.id, one.digest) for one in items]
    given = {"store": store, "nudge": nudge, "actor": actor, "items": picked, "verb": "reject", "message": "No."}
    first, late, last = decide_reviews(**given)
    assert (first.taken.created, last.taken.created) == (True, True)
    assert (late.review_id, late.taken, late.refused.field) == (items[1].id, None, "due_at")
    assert is_late(late.refused, items[1])
    answered = Inbox.objects.filter(input_id__startswith="decision:").values_list("run_id", flat=True)
    assert set(answered) == {items[0].run_id, items[2].run_id}


def test_no_person_claims_it(actor, item):
    assert is_late(refused(review_claim, actor=actor, review_id=item.id), item)
    assert is_late(refused(review_reassign, actor=actor, review_id=item.id, to="owner"), item)
    assert review_claim_next(actor=actor) is None
    assert not next_for(actor).exists()
    assert reviews_waiting_count(actor, 9) == 0


def test_the_run_expires_it_and_pays_nothing(actor, asked, item):
    refused(decide_review, **asked, digest=item.digest, verb="approve")
    run = Following(actor, item.run_id, wait=True).to_rest()
    assert (run.state, "no one answered in time" in run.reason) == (RunState.ABORTED, True)
    kinds = {(one.kind, one.fact.get("tool")) for one in run_events(actor, run.id)}
    assert ("call_issued", "pay") not in kinds
    assert get_review(actor, item.id).by_system


def test_one_that_slips_into_the_inbox_is_judged_by_its_run(actor, item):
    """As by a service that looked right before the time was over."""
    given = DecisionMade(
        input_id=input_id(item.id, 0), review_id=item.id, verb="approve", actor=actor.name, digest=item.digest
    )
    wiring.store().put_input(item.run_id, given.input_id, INBOX.dump_json(given))
    run = Following(actor, item.run_id, wait=True).to_rest()
    assert (run.state, get_review(actor, item.id).by_system) == (RunState.ABORTED, True)
    (ignored,) = [one.fact["reason"] for one in run_events(actor, run.id) if one.kind == "input_ignored"]
    assert "the answer came when the time for it was over" in ignored


def test_one_that_was_sent_in_time_counts_although_no_worker_drove_the_run(store, nudge, actor):
    fabric = fabric_publish(actor=actor, source=short(DOUBTFUL)).name
    (item,) = list_open_reviews(actor, ran(actor, fabric).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}
    assert decide_review(**asked, digest=item.digest, verb="approve").created
    let_time_pass(item)
    again = decide_review(**asked, digest=item.digest, verb="approve")
    assert again.created is False, "it is the same one, and was in time"
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert (run.state, get_review(actor, item.id).decided_by) == (RunState.COMPLETED, "owner")


def test_what_is_taken_back_after_the_time_cannot_be_answered_anew(store, nudge, actor):
    fabric = fabric_publish(actor=actor, source=short(DOUBTFUL)).name
    (item,) = list_open_reviews(actor, ran(actor, fabric).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}
    decide_review(**asked, digest=item.digest, verb="approve", undo_s=30)
    let_time_pass(item)
    done = command("decide", item.id, "undo")
    assert (done.code, "an answer comes too late" in done.err) == (0, True), done.err
    assert is_late(refused(decide_review, **asked, digest=item.digest, verb="approve"), item)


@pytest.fixture
def answered(store, nudge, actor):
    """A review that was approved in time and whose time is over, while the approval can be undone."""
    fabric = fabric_publish(actor=actor, source=short(DOUBTFUL)).name
    (item,) = list_open_reviews(actor, ran(actor, fabric).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}
    decide_review(**asked, digest=item.digest, verb="approve", undo_s=30)
    let_time_pass(item)
    return item


def who_answered(sentence: str, item) -> bool:
    until = Inbox.objects.get(input_id=input_id(item.id, 0)).visible_at
    undo = f"approve; owner can undo it until {instant_exact(until)}, then its run takes it"
    return f"review {item.id} was answered by owner at 20" in sentence and undo in sentence


def test_while_an_answer_can_be_undone_every_reader_is_told_so_and_not_that_it_is_too_late(
    store, nudge, actor, answered
):
    ana = replace(actor, name="ana")
    (row,) = queue_rows(ana, [answered])
    assert who_answered(row.why_not, answered)
    assert (row.answer.verb, row.answer.decided_by) == ("approve", "owner")
    asked = {"store": store, "nudge": nudge, "actor": ana, "review_id": answered.id}
    for service, given in (
        (review_claim, {"actor": ana, "review_id": answered.id}),
        (decide_review, asked | {"digest": answered.digest, "verb": "reject", "message": "No."}),
    ):
        refusal = refused(service, **given)
        assert (refusal.code, who_answered(refusal.message, answered)) == ("conflict", True), refusal.message


def test_commands_say_so_too(answered):
    shown = command("review", "show", answered.id)
    assert who_answered(shown.out, answered)
    assert shown.out.endswith(f"Undo the answer with: python3 manage.py review undo {answered.id}\n")
    assert "takes no answer" not in shown.out
    assert "approve by owner 20" in (listed := command("review", "list").out)
    assert "(owner can undo it until 20" in listed
    for told in (
        command("review", "show", answered.id, "--json").last,
        command("review", "list", "--json").last["items"][0],
    ):
        assert (told["late"], told["answer"]["verb"], told["answer"]["decided_by"]) == (False, "approve", "owner")
    done = command("decide", answered.id, "reject", "--message", "No.")
    assert (done.code, who_answered(done.err, answered)) == (2, True), done.err
    done = command("decide", answered.id, "approve")
    assert (done.code, who_answered(done.err, answered)) == (2, True), done.err


def test_an_answer_that_its_run_has_not_taken_can_be_undone_longer(actor, answered):
    Inbox.objects.filter(input_id=input_id(answered.id, 0)).update(visible_at=1)
    (row,) = queue_rows(actor, [answered])
    assert row.why_not.endswith("its run has not taken it yet, and owner can undo it until it does")
    assert command("decide", answered.id, "undo").code == 0
    (row,) = queue_rows(actor, [answered])
    assert (row.answer, "an answer comes too late" in row.why_not) == (None, True)


def test_what_was_answered_in_time_may_count_at_once_after_it(store, nudge, actor):
    fabric = fabric_publish(actor=actor, source=short(DOUBTFUL)).name
    (item,) = list_open_reviews(actor, ran(actor, fabric).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}
    decide_review(**asked, digest=item.digest, verb="approve", undo_s=30)
    let_time_pass(item)
    assert hasten_decision(**asked).created
    assert Following(actor, item.run_id, answered=frozenset({item.id})).to_rest().state is RunState.COMPLETED


def test_quarantines_and_follow_ups_are_never_late(store, nudge, actor, doubtful):
    (item,) = list_open_reviews(actor, ran(actor, doubtful).id)
    Review.objects.filter(id=item.id).update(due_at=1, item="quarantine")
    assert review_claim(actor=actor, review_id=item.id).fresh
    Review.objects.filter(id=item.id).update(item="post_stage")
    assert refused(review_claim, actor=actor, review_id=item.id).field == "due_at"


def test_undo_is_not_needed_to_know_that_it_is_over(asked, item):
    assert refused(undo_decision, **asked).code == "conflict"
    for named in (("--digest", item.digest[:8]), ()):
        done = command("decide", item.id, "approve", *named)
        assert (done.code, done.out) == (2, "")
        (sentence,) = done.err.splitlines()
        assert "an answer comes too late: rejected by the system" in sentence, "nothing is shown for confirmation"
