"""Answering a review about a call that has not been made: with other arguments, or in the tool's stead."""

from __future__ import annotations

import pytest

from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.selectors.reviews.answers import answers_sent
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import EDITED_BYTES_MAX, decide_review
from tests.fabric.services.world import ran

CHEAPER = {"to": "Ana", "usd": 40}


@pytest.fixture
def item(actor, paying):
    (found,) = list_open_reviews(actor, ran(actor, paying, documents=()).id)
    assert (found.item, found.content["payload"]) == ("pre_action", {"to": "Ana", "usd": 90})
    return found


@pytest.fixture
def decide(store, nudge, actor, item):
    def decided(verb, **changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": verb,
        }
        return decide_review(**asked, **changes)

    return decided


def to_rest(actor, item):
    return Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()


def facts(actor, item, kind):
    return [row.fact for row in run_events(actor, item.run_id, limit=500) if row.kind == kind]


def test_what_may_be_answered(item):
    assert item.verbs == ("approve", "edit", "respond", "decline", "reject")
    assert set(item.verbs) <= set(item.content)


def test_a_call_is_made_with_other_arguments(decide, actor, item):
    assert decide("edit", edited=CHEAPER).created
    assert decide("edit", edited=dict(reversed(CHEAPER.items()))).created is False, "the same edit is the same answer"
    to_rest(actor, item)
    (edited,) = facts(actor, item, "call_edited")
    issued = [fact for fact in facts(actor, item, "call_issued") if fact["call"] == "tool"]
    assert {fact["args_hash"] for fact in issued} == {edited["args_hash"]}
    assert edited["actor"] == "owner"


def test_a_person_answers_in_the_tools_stead(decide, actor, item):
    decide("respond", message="Ana was paid by card.")
    assert to_rest(actor, item).state is RunState.COMPLETED
    assert len(facts(actor, item, "call_responded")) == 1
    assert [fact for fact in facts(actor, item, "call_issued") if fact["call"] == "tool"] == []


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        (None, "a JSON object is wanted"),
        ([1], "a JSON object is wanted"),
        ({"to": "Ana"}, "usd"),
        ({"to": "Ana", "usd": 500}, "usd"),
        ({"to": "Ana", "usd": 40, "tip": 5}, "tip"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_once(decide, actor, item, edited, said):
    with pytest.raises(Refused) as caught:
        decide("edit", edited=edited)
    assert (caught.value.code, caught.value.field) == ("invalid", "edited")
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert answers_sent(get_review(actor, item.id)) == []


def test_arguments_that_are_too_long_or_too_deep(decide, item):
    with pytest.raises(Refused) as caught:
        decide("edit", edited={"to": "a" * EDITED_BYTES_MAX, "usd": 1})
    assert (caught.value.code, caught.value.field) == ("too_large", "edited")
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(Refused) as caught:
        decide("edit", edited={"to": deep})
    assert caught.value.message.startswith("the arguments cannot be kept: ")


def test_a_response_says_something(decide):
    with pytest.raises(Refused) as caught:
        decide("respond")
    assert "what the agent should" in caught.value.message


def test_another_edit_is_another_answer(decide, item):
    decide("edit", edited=CHEAPER, undo_s=30)
    with pytest.raises(Refused) as caught:
        decide("edit", edited={"to": "Ana", "usd": 41})
    assert caught.value.code == "conflict"
