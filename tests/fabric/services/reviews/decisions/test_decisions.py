"""Answering reviews: bound to what was shown, once, by people."""

from dataclasses import replace

import pytest

from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.lookup import run_events, run_get
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import decide_review
from tests.fabric.services.world import ran


@pytest.fixture
def item(actor, doubtful) -> ReviewView:
    """An open review of a run that really waits."""
    run = ran(actor, doubtful)
    assert run.state is RunState.WAITING
    (found,) = list_open_reviews(actor, run.id)
    return found


@pytest.fixture
def decide(store, nudge, actor, item):
    """Answers the review; keywords change how."""

    def decided(**changes):
        asked = {
            "store": store,
            "nudge": nudge,
            "actor": actor,
            "review_id": item.id,
            "digest": item.digest,
            "verb": "approve",
        }
        return decide_review(**{**asked, **changes})

    return decided


def refused(decide, **changes) -> Refused:
    with pytest.raises(Refused) as caught:
        decide(**changes)
    assert "\n" not in caught.value.message
    return caught.value


def waiting_inputs(item: ReviewView) -> list[DecisionMade]:
    rows = Inbox.objects.filter(run_id=item.run_id, consumed_seq__isnull=True)
    inputs = [INBOX.validate_json(bytes(row.body)) for row in rows]
    return [one for one in inputs if isinstance(one, DecisionMade)]


def test_an_answer_is_an_input_of_the_run_and_wakes_its_host(decide, item, nudge):
    taken = decide(message="Looks\0 right")
    assert (taken.run_id, taken.review_id, taken.verb, taken.created) == (item.run_id, item.id, "approve", True)
    (decision,) = waiting_inputs(item)
    assert (decision.review_id, decision.verb, decision.actor) == (item.id, "approve", "owner")
    assert (decision.digest, decision.message) == (item.digest, "Looks\ufffd right")
    assert nudge.woken == [item.run_id]


@pytest.mark.parametrize(("verb", "state"), [("approve", RunState.COMPLETED), ("reject", RunState.ABORTED)])
def test_the_run_goes_on_as_it_was_answered(decide, actor, item, verb, state):
    decide(verb=verb, message="Because.")
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert run.state is state
    closed = get_review(actor, item.id)
    assert (closed.open, closed.verb, closed.decided_by, closed.by_system) == (False, verb, "owner", False)
    (event,) = [one for one in run_events(actor, run.id) if one.kind == "review_decided"]
    assert event.content == {"message": "Because."}


@pytest.mark.parametrize("message", ["", " \n"])
def test_a_rejection_needs_a_reason(decide, item, message):
    error = refused(decide, verb="reject", message=message)
    assert (error.code, error.field) == ("invalid", "message")
    assert waiting_inputs(item) == []


def test_a_double_click_is_one_decision(decide, item):
    assert decide().created
    assert not decide().created
    assert len(waiting_inputs(item)) == 1


def test_another_answer_meanwhile_is_told_who_was_first(decide, item, actor):
    decide(undo_s=30)
    for changes in ({"verb": "reject"}, {"actor": replace(actor, name="rosa")}):
        error = refused(decide, **changes)
        assert error.code == "conflict"
        assert f"review {item.id} was answered by owner at 20" in error.message
        assert ": approve; owner can undo it until 20" in error.message
    assert len(waiting_inputs(item)) == 1


def test_what_is_answered_stays_answered(decide, actor, item):
    decide()
    Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    error = refused(decide, verb="reject")
    assert error.code == "conflict"
    assert f"review {item.id} was answered by owner at 20" in error.message


def test_a_review_that_was_withdrawn_says_so(decide, actor, item, store, nudge):
    from fabric.services.runs.control import run_cancel

    run_cancel(store=store, nudge=nudge, actor=actor, run_id=item.run_id)
    following = Following(actor, item.run_id, wait=True)
    assert following.to_rest().state is RunState.CANCELLED
    assert "was withdrawn at 20" in refused(decide).message


@pytest.mark.parametrize(
    ("changes", "code", "field", "said"),
    [
        ({"verb": ""}, "invalid", "verb", "possible are: approve, edit, respond, reject"),
        ({"digest": "0" * 32}, "conflict", "digest", "nothing was shown under that digest"),
        ({"review_id": "nothing"}, "not_found", "review", "there is no review 'nothing'"),
        ({"review_id": "\0"}, "not_found", "review", "there is no review"),
        ({"message": "x" * 4_001}, "too_large", "message", "4,001 characters; at most 4,000"),
    ],
)
def test_what_is_refused(decide, item, nudge, changes, code, field, said):
    error = refused(decide, **changes)
    assert (error.code, error.field) == (code, field)
    assert said in error.message
    assert waiting_inputs(item) == []
    assert nudge.woken == []


@pytest.mark.parametrize(("kind", "name"), [("service", "robot"), ("system", "engine"), ("person", "system")])
def test_only_people_decide_and_none_in_the_systems_name(decide, actor, item, kind, name):
    error = refused(decide, actor=replace(actor, kind=kind, name=name))
    assert error.code == "forbidden"
    assert waiting_inputs(item) == []


def test_no_person_answers_for_another_workspace(decide, item, stranger):
    assert refused(decide, actor=stranger).code == "not_found"
    outsider = Actor(name="owner", workspace_id="nowhere")
    assert refused(decide, actor=outsider).code == "not_found"


def test_the_item_may_be_named_by_what_was_shown(decide, item):
    assert decide(digest=item.digest).created


def test_an_answer_in_its_undo_window_has_no_effect_yet(decide, actor, item, store):
    decide(undo_s=60)
    assert store.next_due_s() > 30
    assert run_get(actor, item.run_id).state is RunState.WAITING
