"""Snoozes hide a review from one person's own list, and from nothing else."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fabric.core.values.units import US
from fabric.models import AuditLine, Review, ReviewSnooze
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.queue import Tab, queue_counts, queue_page, reviews_waiting_count
from fabric.selectors.reviews.snoozes import snoozed_until
from fabric.services.errors import Refused
from fabric.services.reviews.assignments import review_assign_to_role
from fabric.services.reviews.snoozes import review_snooze, snooze_end
from tests.fabric.services.world import ran
from tests.people import fresh, member


@pytest.fixture
def item(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def until(item):
    return item.due_at - 10 * US


def refused(**given):
    with pytest.raises(Refused) as caught:
        review_snooze(**given)
    assert "\n" not in caught.value.message
    return caught.value


def yours(actor):
    return [row.review.id for row in queue_page(actor, Tab.YOURS).rows]


def test_it_hides_the_review_from_the_persons_own_list_alone(actor, item, until):
    ana = fresh(member("ana", "owner"))
    review_snooze(actor=actor, review_id=item.id, until=until)
    assert yours(actor) == []
    assert reviews_waiting_count(actor, 9) == 0
    assert queue_counts(actor)[Tab.OPEN].n == 1
    assert yours(ana) == [item.id]
    assert snoozed_until(actor, item.id) == until
    assert snoozed_until(ana, item.id) is None
    assert Review.objects.get(id=item.id).due_at == item.due_at
    (line,) = AuditLine.objects.filter(kind="review_snoozed")
    assert line.subject == item.run_id


def test_it_ends_with_its_time(actor, item, until):
    review_snooze(actor=actor, review_id=item.id, until=until)
    ReviewSnooze.objects.update(until_at=1)
    assert yours(actor) == [item.id]


@pytest.mark.parametrize("change", [{"digest": "other"}, {"agreed": "\nana\n"}, {"reminded": True}, {"onward": True}])
def test_it_ends_when_the_review_changes(actor, item, until, change):
    review_snooze(actor=actor, review_id=item.id, until=until)
    Review.objects.filter(id=item.id).update(**change)
    assert yours(actor) == [item.id]


def test_it_ends_when_the_review_is_handed_on(actor, item, until):
    review_snooze(actor=actor, review_id=item.id, until=until)
    review_assign_to_role(actor=actor, review_id=item.id, role="owner")
    assert yours(actor) == [item.id]


def test_it_ends_by_hand(actor, item, until):
    review_snooze(actor=actor, review_id=item.id, until=until)
    assert snooze_end(actor=actor, review_id=item.id)
    assert not snooze_end(actor=actor, review_id=item.id)
    assert yours(actor) == [item.id]
    assert AuditLine.objects.filter(kind="review_snooze_ended").count() == 1


def test_it_ends_before_the_review_is_due(actor, item):
    problem = refused(actor=actor, review_id=item.id, until=item.due_at)
    assert (problem.code, problem.field) == ("invalid", "until")
    assert "is due at" in problem.message
    past = refused(actor=actor, review_id=item.id, until=time.time_ns() // 1_000 - US)
    assert "is past" in past.message


def test_it_is_for_people_who_are_asked(actor, item, until, stranger):
    ben = fresh(member("ben", "viewer"))
    assert refused(actor=ben, review_id=item.id, until=until).code == "forbidden"
    assert refused(actor=replace(actor, kind="service"), review_id=item.id, until=until).code == "forbidden"
    assert refused(actor=stranger, review_id=item.id, until=until).code == "not_found"
    Review.objects.filter(id=item.id).update(decided_at=1, verb="reject")
    assert refused(actor=actor, review_id=item.id, until=until).code == "conflict"
    assert not ReviewSnooze.objects.exists()
