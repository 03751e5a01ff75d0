"""A person answers within their rights: each other answer is refused before anything is sent, with its own sentence."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial

import pytest

from fabric.core.values.units import US
from fabric.models import Inbox, Review, ReviewAssignment
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reviews.assignments import find_assignment
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.assignments import review_claim, review_release
from fabric.services.reviews.decisions import decide_review, hasten_decision
from tests.fabric.services.world import DOUBTFUL, SPARED_STRICT, ran
from tests.people import member


@pytest.fixture
def item(actor, doubtful):
    """An open review of a run that really waits."""
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def grave(actor):
    """One of a run in high-stakes."""
    return list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=SPARED_STRICT).name).id)[0]


@pytest.fixture
def ana(actor):
    return replace(actor, name="ana")


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb="approve", **changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": verb,
        }
        return decide_review(**{**asked, **changes})

    return decided


def refused(decide, *given, **changes):
    with pytest.raises(Refused) as caught:
        decide(*given, **changes)
    assert "\n" not in caught.value.message
    assert not Inbox.objects.filter(input_id__startswith="decision:").exists()
    return caught.value


def now():
    return time.time_ns() // 1_000


class TestWhoMay:
    def test_those_who_are_not_asked_are_told_who_is(self, decide, actor, item):
        error = refused(decide, item, actor=replace(actor, name="ben", roles=frozenset({"viewer"})))
        assert (error.code, error.field) == ("forbidden", "actor")
        assert f"review {item.id}: ben is not asked: this is for " in error.message

    @pytest.mark.parametrize("column", ["barred", "agreed", "proposed_by"])
    def test_what_is_ones_own_is_rejected_and_not_let_pass(self, decide, item, actor, column):
        decide = partial(decide, actor=replace(actor, alone=False))
        Review.objects.update(**{column: "owner" if column == "proposed_by" else names_text(["owner"])})
        assert refused(decide, item).code == "forbidden"
        assert decide(item, "reject", message="No.").created

    def test_caps_are_named_by_finance(self, decide, actor, item):
        content = {**item.content, "takes_cap": True, "cap_usd_micros": 100}
        Review.objects.update(content=json.dumps(content).encode())
        reviewer = replace(actor, name="rosa", roles=frozenset({"reviewer", "owner"}))
        error = refused(decide, item, actor=reviewer, cap_usd_micros=1_000)
        assert "not name a new cap" in error.message
        assert error.code == "forbidden"


class TestHighStakes:
    @pytest.mark.parametrize("verb", ["approve", "reject"])
    def test_every_answer_needs_a_reason(self, decide, grave, verb):
        error = refused(decide, grave, verb, message=" \n")
        assert (error.code, error.field) == ("invalid", "message")
        assert decide(grave, verb, message="Because.").created

    def test_a_sign_in_is_good_for_a_quarter_of_an_hour(self, decide, actor, grave):
        for at in (0, now() - 901 * US):
            error = refused(decide, grave, message="Yes.", actor=replace(actor, signed_in_at=at))
            assert (error.code, error.field) == ("forbidden", "sign_in")
            assert "sign in again" in error.message
        fresh = replace(actor, signed_in_at=now() - 840 * US)
        assert decide(grave, message="Yes.", actor=fresh).created

    def test_a_sign_in_by_anothers_link_is_no_proof(self, decide, actor, grave):
        error = refused(decide, grave, message="Yes.", actor=replace(actor, signed_in_at=now(), behind=("ben",)))
        assert (error.code, error.field) == ("forbidden", "sign_in")

    def test_a_token_is_no_sign_in(self, decide, actor, grave):
        error = refused(decide, grave, message="Yes.", actor=replace(actor, via="token:ci"))
        assert (error.code, error.field) == ("forbidden", "actor")
        assert "cannot be decided with a token" in error.message

    def test_an_answer_is_not_hurried_with_a_token_either(self, decide, store, nudge, actor, grave):
        decide(grave, message="Yes.", undo_s=30)
        with pytest.raises(Refused, match="cannot be decided with a token"):
            hasten_decision(store=store, nudge=nudge, actor=replace(actor, via="token:ci"), review_id=grave.id)

    def test_elsewhere_neither_is_asked_for(self, decide, actor, item):
        assert decide(item, actor=replace(actor, via="token:ci", signed_in_at=0)).created


class TestClaims:
    def test_another_persons_hand_refuses_with_who_and_until_when(self, decide, ana, item):
        review_claim(actor=ana, review_id=item.id)
        error = refused(decide, item)
        assert (error.code, error.field) == ("conflict", "assignment")
        assert "ana has claimed review " in error.message

    def test_a_lease_that_has_lapsed_hinders_no_worker(self, decide, ana, item):
        review_claim(actor=ana, review_id=item.id)
        ReviewAssignment.objects.update(lease_until=1)
        assert decide(item).created

    def test_ones_own_is_let_go_with_the_answer(self, decide, actor, item):
        lease = review_claim(actor=actor, review_id=item.id).assignment.lease
        assert decide(item, assignment_lease=lease).created
        assert not find_assignment(actor, item.id).live

    def test_an_answer_under_a_lease_that_is_over_is_refused(self, decide, actor, ana, item):
        lease = review_claim(actor=actor, review_id=item.id).assignment.lease
        ReviewAssignment.objects.update(lease_until=1)
        others = review_claim(actor=ana, review_id=item.id).assignment.lease
        review_release(actor=ana, review_id=item.id, lease=others)
        error = refused(decide, item, assignment_lease=lease)
        assert (error.code, error.field) == ("conflict", "assignment")
        assert "you have lost the assignment of review" in error.message
        assert decide(item).created


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "integer", "maximum": 3}},
    "required": ["text"],
    "additionalProperties": False,
}


class TestEdits:
    @pytest.fixture
    def editable(self, actor, item):
        content = {**item.content, "edit_of": "payload", "edit_schema": SCHEMA, "edit_initial": {"text": "a"}}
        Review.objects.update(content=json.dumps(content).encode(), verbs="approve,edit,reject,respond")
        return get_review(actor, item.id)

    @pytest.mark.parametrize(
        ("edited", "said"),
        [
            (None, "a JSON object is wanted"),
            ([], "a JSON object is wanted"),
            ({}, "text"),
            ({"text": 1}, "text: "),
            ({"text": "a", "n": 4}, "n: "),
            ({"text": "a", "more": 1}, "more"),
        ],
    )
    def test_what_is_written_is_held_to_the_schema_that_was_shown(self, decide, editable, edited, said):
        error = refused(decide, editable, "edit", edited=edited)
        assert (error.code, error.field) == ("invalid", "edited")
        assert error.message.startswith("the payload does not fit: ")
        assert any(said in problem for problem in error.problems)

    def test_what_fits_is_sent(self, decide, editable):
        assert decide(editable, "edit", edited={"text": "b", "n": 1}).created

    @pytest.mark.parametrize("verb", ["respond", "reject"])
    def test_a_response_says_something(self, decide, editable, verb):
        assert refused(decide, editable, verb).field == "message"


class TestTwo:
    def test_the_first_of_two_is_told_that_a_second_is_wanted(self, decide, item):
        Review.objects.update(approvals=2, barred="\ncleo\n")
        assert decide(item).second_wanted
        assert not decide(item).created

    def test_a_rejection_wants_no_second(self, decide, item):
        Review.objects.update(approvals=2)
        assert not decide(item, "reject", message="No.").second_wanted

    def test_another_one_meanwhile_is_told_that_they_are_asked_next(self, decide, ana, item):
        Review.objects.update(approvals=2, barred="\ncleo\n")
        decide(item, undo_s=30)
        with pytest.raises(Refused, match="a second person is asked when") as caught:
            decide(item, actor=ana)
        assert caught.value.code == "conflict"


def test_an_edit_in_high_stakes_wants_a_second_person(decide, store, nudge, actor):
    source = DOUBTFUL.replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n", 1)
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    content = {**item.content, "edit_of": "payload", "edit_schema": SCHEMA}
    Review.objects.update(content=json.dumps(content).encode(), verbs="approve,edit,respond,decline,reject")
    written = {"edited": {"text": "b"}, "message": "Better so."}
    dead_end = refused(decide, item, "edit", **written)
    assert (dead_end.code, dead_end.field) == ("invalid", "verb")
    assert "only owner may give it: approve, respond, decline or reject, or add a second reviewer" in dead_end.message
    member("ben", "owner")
    taken = decide(item, "edit", **written)
    assert (taken.created, taken.second_wanted) == (True, True)
