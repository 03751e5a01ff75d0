"""The database refuses of a review, from any writer, an answer by the person whose own it is, and two by one person."""

import pytest
from django.db import IntegrityError, transaction

from fabric.models import Review
from fabric.runtime.ports.batch_parts import list_names, names_text

pytestmark = pytest.mark.django_db


def decided(verb="approve", by="ann", **more):
    row = {"workspace_id": "w", "run_id": "r", "step_id": "s", "item": "failure", "verbs": verb, "digest": "d"}
    row |= {"opened_at": 1, "due_at": 2, "content": b"{}", "decided_at": 2, "verb": verb, "decided_by": by}
    with transaction.atomic():
        return Review.objects.create(id=f"q-{Review.objects.count()}", **row, **more)


@pytest.mark.parametrize("whose", [{"barred": "\nbob\nann\n"}, {"agreed": "\nann\n"}, {"proposed_by": "ann"}])
@pytest.mark.parametrize("verb", ["approve", "edit", "respond"])
def test_nothing_of_ones_own_is_let_pass(whose, verb):
    with pytest.raises(IntegrityError, match="review_"):
        decided(verb, **whose)
    decided(verb, by="an", **whose)
    decided(verb, by="Ann", **whose)
    decided("reject", **whose)
    decided("withdrawn", **whose)
    decided(verb, by_system=True, **whose)


def test_names_in_a_column_come_back():
    assert names_text(()) == ""
    assert names_text(("ann", "a,b")) == "\nann\na,b\n"
    assert list_names("\nann\na,b\n") == ("ann", "a,b")
    assert list_names("") == ()
