"""An answer names the digest of what was shown: none, too little of it, or another one is refused, and what changed since is said."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fabric.composition import engine as wiring
from fabric.core.people.eligibility import STOPS
from fabric.core.reviews.reviews import VERBS
from fabric.core.values.saga import Effect
from fabric.management.commands.decide import ASKS
from fabric.management.output.reviews import card
from fabric.management.run_follower import Following
from fabric.models import Inbox
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.subjects import EFFECTS, FOLLOWS, find_review_subject
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import BulkItem, decide_review, decide_reviews
from tests.fabric.services.world import PAYING, ran
from tests.people import member

PATIENCE_S = 60
TWICE = PAYING.replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n")


@pytest.fixture
def item(actor, paying):
    return list_open_reviews(actor, ran(actor, paying, documents=()).id)[0]


@pytest.fixture
def decide(store, nudge, actor):
    def decided(item, verb="approve", **changes):
        asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id, "verb": verb}
        return decide_review(**{**asked, "message": "So.", **changes})

    return decided


def refusal(decide, *given, **changes) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(*given, **changes)
    return caught.value


def driven_until(run_id: str, done) -> None:
    """Has the run driven here until something has come of it."""
    with wiring.local_engine() as engine:
        engine.offer(run_id)
        until = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < until, "the run has not taken the answer"
            time.sleep(0.05)


@pytest.mark.parametrize("verb", ["approve", "respond", "edit"])
def test_nothing_passes_without_a_digest(decide, item, verb):
    edited = {"to": "Ana", "usd": 1} if verb == "edit" else None
    for given in ("", item.digest[:7]):
        found = refusal(decide, item, verb, digest=given, edited=edited)
        assert (found.code, found.field) == ("invalid", "digest")
        assert "give the digest of review" in found.message
    assert not Inbox.objects.filter(input_id__startswith="decision:").exists()


def test_a_rejection_needs_none_but_a_wrong_one_is_refused(decide, item):
    assert refusal(decide, item, "reject", digest="0" * 32).code == "conflict"
    assert decide(item, "reject").created


def test_its_beginning_is_enough_and_the_run_gets_the_whole(decide, actor, item):
    assert decide(item, digest=item.digest[:8].upper()).created
    assert decide(item, digest=item.digest).created is False, "it is the same answer"
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert get_review(actor, item.id).decided_by == "owner", run.reason


def test_what_changed_since_is_said(decide, actor):
    """In high-stakes an edit is a proposal, which is asked about from then on."""
    name = fabric_publish(actor=actor, source=TWICE).name
    member("ana", "owner", "reviewer")
    run = ran(replace(actor, name="cleo"), name, documents=())
    (item,) = list_open_reviews(actor, run.id)
    ana = replace(actor, name="ana")
    assert decide(item, "edit", digest=item.digest, edited={"to": "Bob", "usd": 5}, actor=ana).second_wanted
    driven_until(run.id, lambda: get_review(actor, item.id).digest != item.digest)
    found = refusal(decide, item, digest=item.digest)
    assert (found.code, found.field) == ("conflict", "digest")
    for said in ('to was "Ana", is "Bob"', "usd was 90, is 5", 'proposed by was not there, is "ana"'):
        assert said in found.message
    now = get_review(actor, item.id)
    about = find_review_subject(now)
    assert (about.payload, about.proposed_by, about.because) == ({"to": "Bob", "usd": 5}, "ana", "So.")
    assert "  proposed by ana" in card(now)
    assert decide(item, digest=now.digest[:8]).created


def test_the_digest_of_another_review_is_told_as_that(decide, actor, paying, item):
    (another,) = list_open_reviews(actor, ran(actor, paying, "Another.", documents=()).id)
    assert (
        f"that is the digest of review {another.id}, not of review {item.id}"
        in refusal(decide, item, digest=another.digest).message
    )
    assert "nothing was shown under that digest" in refusal(decide, item, digest="ab" * 16).message


def test_at_one_go_what_was_changed_is_left_out_and_listed(store, nudge, actor, paying, item):
    (another,) = list_open_reviews(actor, ran(actor, paying, "Another.", documents=()).id)
    picked = [BulkItem(item.id, "0" * 32), BulkItem(another.id, another.digest)]
    results = decide_reviews(store=store, nudge=nudge, actor=actor, items=picked, verb="approve")
    assert [one.taken is not None for one in results] == [False, True]
    assert "nothing was shown under that digest" in results[0].refused.message


def test_at_one_go_each_is_named_by_its_digest(store, nudge, actor, paying, item):
    (another,) = list_open_reviews(actor, ran(actor, paying, "Another.", documents=()).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "verb": "reject", "message": "No."}
    with pytest.raises(Refused, match="give the digest of each") as caught:
        decide_reviews(**asked, items=[BulkItem(item.id, ""), BulkItem(another.id, another.digest)])
    assert (caught.value.code, caught.value.field) == ("invalid", "items")
    assert not Inbox.objects.filter(input_id__startswith="decision:").exists()


def test_every_effect_and_every_verb_has_its_words():
    assert set(EFFECTS) == {str(one) for one in Effect}
    assert set(FOLLOWS) == {verb for verbs in VERBS.values() for verb in verbs} == {*ASKS, *STOPS}
