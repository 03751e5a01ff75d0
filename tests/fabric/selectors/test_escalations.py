"""Reading questions to people."""

import pytest

from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalation_get, escalations_open
from tests.fabric.services.world import ran


def test_open_questions_come_with_what_a_person_needs(actor, doubtful, django_assert_num_queries):
    first, second = ran(actor, doubtful), ran(actor, doubtful)
    with django_assert_num_queries(1):
        items = escalations_open(actor)
    assert [item.run_id for item in items] == [first.id, second.id]
    (item,) = escalations_open(actor, second.id)
    assert item == items[1]
    assert (item.fabric_name, item.run_title, item.item) == ("doubtful", "What do the notes say?", "post_stage")
    assert item.verbs == ("approve", "edit", "respond", "reject")
    assert item.content["message"] == "the score is 0.55, and the fabric asks for at least 0.70 (tau)"
    assert item.content["payload"]["citations"] == ["notes.md"]
    assert item.open
    assert item.due_at > item.opened_at
    assert escalation_get(actor, item.id) == item


def test_another_workspaces_questions_are_not_there(actor, stranger, doubtful):
    run = ran(actor, doubtful)
    (item,) = escalations_open(actor)
    assert escalations_open(stranger) == []
    assert escalations_open(stranger, run.id) == []
    for wrong in (item.id, "nothing", "\0"):
        with pytest.raises(Refused) as caught:
            escalation_get(stranger, wrong)
        assert caught.value.code == "not_found"
