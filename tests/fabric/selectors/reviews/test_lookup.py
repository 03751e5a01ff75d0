"""Reading reviews to people."""

import pytest

from fabric.selectors.errors import Refused
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from tests.fabric.services.world import ran


def test_open_reviews_come_with_what_a_person_needs(actor, doubtful, django_assert_num_queries):
    first, second = ran(actor, doubtful), ran(actor, doubtful)
    with django_assert_num_queries(1):
        items = list_open_reviews(actor)
    assert [item.run_id for item in items] == [first.id, second.id]
    (item,) = list_open_reviews(actor, second.id)
    assert item == items[1]
    assert (item.fabric_name, item.run_title, item.item) == ("doubtful", "What do the notes say?", "post_stage")
    assert item.verbs == ("approve", "edit", "respond", "reject")
    assert item.content["message"] == "the score is 0.55, and the fabric needs at least 0.70"
    assert item.content["payload"]["citations"] == ["notes.md"]
    assert item.open
    assert item.due_at > item.opened_at
    assert get_review(actor, item.id) == item


def test_another_workspaces_reviews_are_not_there(actor, stranger, doubtful):
    run = ran(actor, doubtful)
    (item,) = list_open_reviews(actor)
    assert list_open_reviews(stranger) == []
    assert list_open_reviews(stranger, run.id) == []
    for wrong in (item.id, "nothing", "\0"):
        with pytest.raises(Refused) as caught:
            get_review(stranger, wrong)
        assert caught.value.code == "not_found"
