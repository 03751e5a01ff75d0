"""One person's inbox: what waits, who mentioned them, and what was handed to them."""

from __future__ import annotations

import pytest

from fabric.core.values.units import US
from fabric.models import Review
from fabric.selectors.reviews.inbox import count_new, read_inbox
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.queue import reviews_waiting_count
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.assignments import review_assign_to_role, review_claim, review_reassign
from fabric.services.reviews.comments import comment_add
from fabric.services.reviews.inbox import inbox_mark_seen
from fabric.services.reviews.snoozes import review_snooze
from tests.fabric.services.world import GIVEN_UP, ran
from tests.people import fresh, member


@pytest.fixture
def item(actor, doubtful):
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def ana(actor):
    return fresh(member("ana", "owner"))


def test_an_empty_inbox(ana):
    assert read_inbox(ana).empty
    assert count_new(ana) == 0


def test_what_waits_is_new_until_it_was_seen(actor, item):
    (entry,) = read_inbox(actor).waiting
    assert (entry.review.id, entry.new) == (item.id, True)
    assert (read_inbox(actor).new, count_new(actor)) == (1, 1)
    inbox_mark_seen(actor=actor, at=item.opened_at)
    assert (read_inbox(actor).new, count_new(actor)) == (0, 0)
    inbox_mark_seen(actor=actor, at=1)
    assert read_inbox(actor).seen_at == item.opened_at
    inbox_mark_seen(actor=actor, at=2**62)
    assert read_inbox(actor).seen_at < item.opened_at + 600 * US


def test_a_mention_comes_to_the_mentioned_member_alone(actor, item, ana):
    inbox_mark_seen(actor=ana, at=item.opened_at)
    comment_add(actor=actor, review_id=item.id, text="@ana what do you say?")
    (entry,) = read_inbox(ana).mentions
    assert (entry.by, entry.new, entry.comment.text) == ("owner", True, "@ana what do you say?")
    assert count_new(ana) == 1
    assert read_inbox(actor).mentions == ()


def test_an_assignment_comes_to_its_person_or_to_the_role(actor, item, ana):
    inbox_mark_seen(actor=ana, at=item.opened_at)
    review_reassign(actor=actor, review_id=item.id, to="ana")
    (entry,) = read_inbox(ana).assigned
    assert (entry.by, entry.role, entry.new) == ("owner", "", True)
    assert read_inbox(actor).assigned == ()
    review_assign_to_role(actor=actor, review_id=item.id, role="owner")
    (entry,) = read_inbox(ana).assigned
    assert (entry.by, entry.role) == ("owner", "owner")
    assert count_new(ana) == 1
    review_claim(actor=actor, review_id=item.id)
    assert read_inbox(ana).assigned == ()


def test_others_reviews_snoozed_and_decided_ones_are_not_in_it(actor, item, ana):
    review_claim(actor=ana, review_id=item.id)
    assert read_inbox(actor).waiting == ()
    Review.objects.filter(id=item.id).update(decided_at=1, verb="reject")
    assert read_inbox(ana).waiting == ()


def test_a_snoozed_review_is_not_in_it(actor, item):
    review_snooze(actor=actor, review_id=item.id, until=item.due_at - 10 * US)
    assert read_inbox(actor).waiting == ()
    assert count_new(actor) == 0


def test_follow_ups_are_in_it_and_in_the_badge(actor):
    ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    (entry,) = read_inbox(actor).waiting
    assert entry.review.follow_up
    assert reviews_waiting_count(actor, 9) == 1


def test_it_costs_few_statements(actor, item, ana, django_assert_max_num_queries):
    comment_add(actor=actor, review_id=item.id, text="@ana look")
    with django_assert_max_num_queries(7):
        read_inbox(ana)
    with django_assert_max_num_queries(4):
        count_new(ana)


def test_another_workspace_sees_none_of_it(stranger, item):
    assert read_inbox(stranger).empty
