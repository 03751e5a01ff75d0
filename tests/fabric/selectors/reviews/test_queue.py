"""The review queue's tabs: who finds what where, in which order, and how much there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.models import FollowUpClosure, Review, ReviewAssignment
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.errors import Refused
from fabric.selectors.reviews import queue as review_queue
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.queue import (
    ANY,
    COUNTED,
    QueueFilter,
    ReviewCount,
    Tab,
    queue_counts,
    queue_page,
    reviews_waiting,
    reviews_waiting_count,
)
from fabric.services.reviews.assignments import review_claim, review_claim_next
from tests.fabric.selectors.overview.test_tiles import plans_of
from tests.fabric.services.world import ran


@pytest.fixture
def three(actor, doubtful):
    """Three open reviews, due one after the other."""
    for _ in range(3):
        ran(actor, doubtful)
    return list_open_reviews(actor)


@pytest.fixture
def ana(actor):
    """Another owner."""
    return replace(actor, name="ana", alone=False, roles=frozenset({"owner", "reviewer"}))


@pytest.fixture
def ben(actor):
    """A member who is asked nothing."""
    return replace(actor, name="ben", alone=False, roles=frozenset({"viewer"}))


def ids(page):
    return [row.review.id for row in page.rows]


def decided(item, at, by="ana", verb="approve"):
    Review.objects.filter(id=item.id).update(decided_at=at, decided_by=by, verb=verb)


def test_each_tab_has_a_condition_and_an_order():
    assert set(review_queue._TABS) == set(review_queue._ORDER) == set(Tab)
    assert {*COUNTED, Tab.DECIDED} == set(Tab)


def test_what_waits_unclaimed_due_first(actor, ana, ben, three):
    assert ids(queue_page(actor, Tab.UNCLAIMED)) == [one.id for one in three]
    assert ids(queue_page(ben, Tab.UNCLAIMED)) == []
    review_claim(actor=ana, review_id=three[1].id)
    assert ids(queue_page(actor, Tab.UNCLAIMED)) == [three[0].id, three[2].id]
    ReviewAssignment.objects.update(lease_until=1)
    assert ids(queue_page(actor, Tab.UNCLAIMED)) == [one.id for one in three]


def test_a_claimed_review_is_theirs_while_the_lease_holds(actor, ana, three):
    review_claim(actor=ana, review_id=three[1].id)
    (row,) = queue_page(ana, Tab.MINE).rows
    assert (row.review.id, row.holder, row.may, row.why_not) == (three[1].id, "ana", True, "")
    assert ids(queue_page(actor, Tab.MINE)) == []
    ReviewAssignment.objects.update(lease_until=1)
    assert ids(queue_page(ana, Tab.MINE)) == []


def test_all_that_wait_are_seen_by_all_members_and_say_whether_one_may(actor, ana, ben, three):
    review_claim(actor=ana, review_id=three[0].id)
    rows = queue_page(ben, Tab.OPEN).rows
    assert [row.holder for row in rows] == ["ana", "", ""]
    assert {row.may for row in rows} == {False}
    assert "ben is not asked" in rows[0].why_not


def test_what_one_has_agreed_to_waits_for_a_second_person(actor, ana, three):
    Review.objects.update(barred=names_text(["cleo"]))
    Review.objects.filter(id=three[1].id).update(approvals=2, agreed=names_text(["ana"]))
    (row,) = queue_page(actor, Tab.SECOND).rows
    assert (row.review.id, row.review.second_wanted, row.why_not) == (three[1].id, True, "")
    (own,) = queue_page(ana, Tab.SECOND).rows
    assert "ana has agreed to this already" in own.why_not
    assert [reviews_waiting(one).n for one in (actor, ana)] == [3, 2]


@pytest.mark.parametrize("column", ["barred", "agreed", "proposed_by"])
def test_what_is_ones_own_is_neither_counted_nor_picked_next(actor, ana, three, column):
    Review.objects.filter(id=three[0].id).update(**{column: "ana" if column == "proposed_by" else "\nana\n"})
    assert [reviews_waiting(one).n for one in (actor, ana)] == [3, 2]
    assert review_claim_next(actor=ana).assignment.review_id == three[1].id
    row = next(row for row in queue_page(ana, Tab.OPEN).rows if row.review.id == three[0].id)
    assert row.may
    assert row.why_not.startswith("ana ")


def test_what_was_passed_on_waits_for_those_it_was_passed_on_to(ben, three):
    Review.objects.filter(id=three[0].id).update(onward_to=names_text(["ben"]))
    assert reviews_waiting(ben).n == 0
    Review.objects.filter(id=three[0].id).update(onward=True)
    assert reviews_waiting(ben).n == 1
    assert ids(queue_page(ben, Tab.UNCLAIMED)) == [three[0].id]


@pytest.mark.parametrize("name", ["BEN", "be", "b%", "_en", "ben\nana"])
def test_names_are_found_whole_and_as_they_are_written(ben, three, name):
    Review.objects.update(asked=names_text([name]))
    assert reviews_waiting(ben).n == 0


def test_what_was_decided_the_newest_first(actor, three):
    for at, item in zip((10, 30, 20), three, strict=True):
        decided(item, at)
    assert ids(queue_page(actor, Tab.DECIDED)) == [three[1].id, three[2].id, three[0].id]
    assert ids(queue_page(actor, Tab.OPEN)) == []


def test_follow_ups_until_they_are_closed(actor, three):
    Review.objects.filter(id=three[0].id).update(item="follow_up", decided_at=5, by_system=True)
    (row,) = queue_page(actor, Tab.FOLLOW_UPS).rows
    assert (row.review.id, row.closure, row.review.follow_up) == (three[0].id, None, True)
    assert ids(queue_page(actor, Tab.DECIDED)) == []
    FollowUpClosure.objects.create(
        review=three[0].id, workspace_id=actor.workspace_id, run_id=three[0].run_id, closed_at=1, closed_by="ana"
    )
    assert ids(queue_page(actor, Tab.FOLLOW_UPS)) == []


@pytest.mark.parametrize("tab", [Tab.OPEN, Tab.UNCLAIMED, Tab.DECIDED])
def test_a_page_at_a_time(actor, three, tab):
    if tab is Tab.DECIDED:
        for at, item in zip((30, 20, 20), three, strict=True):
            decided(item, at)
    whole, seen, after = ids(queue_page(actor, tab)), [], ""
    assert len(whole) == 3
    for _ in range(3):
        page = queue_page(actor, tab, limit=1, after=after)
        seen, after = [*seen, *ids(page)], page.next
    assert (seen, after) == (whole, "")


@pytest.mark.parametrize("cursor", ["x", "1", "1.", ".a", "9" * 19 + ".a", "-1.a"])
def test_what_is_no_cursor_is_said(actor, cursor):
    with pytest.raises(Refused) as caught:
        queue_page(actor, Tab.OPEN, after=cursor)
    assert (caught.value.code, caught.value.field) == ("invalid", "after")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (QueueFilter(fabric="doubtful"), 3),
        (QueueFilter(fabric="other"), 0),
        (QueueFilter(tier="batch"), 0),
        (QueueFilter(item="post_stage"), 3),
        (QueueFilter(item="failure"), 0),
        (QueueFilter(stage="validate"), 3),
        (QueueFilter(stage="plan"), 0),
        (QueueFilter(failure="cost_overrun"), 0),
        (QueueFilter(role="reviewer"), 3),
        (QueueFilter(role="finance"), 0),
        (QueueFilter(holder="ana"), 1),
        (QueueFilter(holder="owner"), 0),
        (QueueFilter(text="NOTES say"), 3),
        (QueueFilter(text="50%_"), 0),
        (QueueFilter(text="\0"), 0),
        (QueueFilter(run="nothing"), 0),
    ],
)
def test_filters(actor, ana, three, wanted, found):
    review_claim(actor=ana, review_id=three[2].id)
    tier = three[0].tier
    wanted = replace(wanted, tier=tier) if not wanted.tier and wanted.fabric == "doubtful" else wanted
    assert len(queue_page(actor, Tab.OPEN, wanted).rows) == found
    assert queue_counts(actor, wanted)[Tab.OPEN] == ReviewCount(found)


def test_one_is_found_by_the_beginning_of_its_id_and_by_its_run(actor, three):
    assert ids(queue_page(actor, Tab.OPEN, QueueFilter(text=three[1].id[:12]))) == [three[1].id]
    assert ids(queue_page(actor, Tab.OPEN, QueueFilter(run=three[1].run_id))) == [three[1].id]
    assert ANY.empty
    assert not QueueFilter(run="x").empty


def test_counts_of_the_tabs(actor, ana, ben, three):
    review_claim(actor=ana, review_id=three[0].id)
    told = {tab.value: str(count) for tab, count in queue_counts(actor).items()}
    assert told == {"yours": "3", "mine": "0", "unclaimed": "2", "second": "0", "open": "3", "follow_ups": "0"}
    assert str(queue_counts(ana)[Tab.MINE]) == "1"
    assert str(queue_counts(ben)[Tab.UNCLAIMED]) == "0"


def test_counts_go_so_far(actor, three, monkeypatch):
    monkeypatch.setattr(review_queue, "COUNT_MAX", 2)
    assert str(queue_counts(actor)[Tab.OPEN]) == "2+"
    assert str(reviews_waiting(actor)) == "2+"


def test_what_waits_for_a_person_is_what_they_could_answer(actor, ana, ben, three):
    assert [reviews_waiting(one).n for one in (actor, ana, ben)] == [3, 3, 0]
    review_claim(actor=ana, review_id=three[0].id)
    assert [reviews_waiting(one).n for one in (actor, ana, ben)] == [2, 3, 0]


def test_no_member_finds_anything_of_another_workspace(stranger, three):
    stranger = replace(stranger, roles=frozenset({"owner", "reviewer"}))
    for tab in Tab:
        assert queue_page(stranger, tab).rows == ()
    assert {count.n for count in queue_counts(stranger).values()} == {0}
    assert reviews_waiting(stranger).n == 0
    assert review_claim_next(actor=stranger) is None


def test_what_waits_for_a_person_is_one_statement_from_the_partial_indexes(
    actor, ana, three, django_assert_num_queries
):
    review_claim(actor=actor, review_id=three[0].id)
    with django_assert_num_queries(1):
        assert reviews_waiting_count(ana, 100) == 2
    assert [reviews_waiting_count(actor, most) for most in (2, 100)] == [2, 3]
    plans = plans_of(lambda: reviews_waiting_count(ana, 100))
    assert all(any(index in line for line in plans) for index in ("review_open_due", "review_follow_ups"))


def test_a_page_takes_few_statements(actor, ana, three, django_assert_max_num_queries):
    review_claim(actor=ana, review_id=three[0].id)
    with django_assert_max_num_queries(3):
        queue_page(actor, Tab.UNCLAIMED)
    with django_assert_max_num_queries(2):
        queue_counts(actor)


def test_who_is_alone_sees_their_own_as_theirs_to_answer_but_where_two_agree(actor, three):
    assert [reviews_waiting(one).n for one in (actor, replace(actor, alone=False))] == [3, 0]
    assert [row.why_not for row in queue_page(actor, Tab.OPEN).rows] == ["", "", ""]
    Review.objects.filter(id=three[0].id).update(approvals=2)
    assert reviews_waiting(actor).n == 2
    row = next(row for row in queue_page(actor, Tab.OPEN).rows if row.review.id == three[0].id)
    assert "it is their own" in row.why_not
