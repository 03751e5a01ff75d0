"""Having a review in hand: one holder, a lease that lapses, numbers that an old page's word does not pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import AuditLine, Review, ReviewAssignment, ReviewViewer
from fabric.selectors.reviews.assignments import find_assignment, list_viewers
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.errors import Refused
from fabric.services.reviews.assignments import (
    HANDED_S,
    LEASE_S,
    Claimed,
    review_assign_to_role,
    review_claim,
    review_claim_next,
    review_heartbeat,
    review_reassign,
    review_release,
)
from tests.fabric.services.at_once import at_once
from tests.fabric.services.world import ran
from tests.people import member


@pytest.fixture
def item(actor, doubtful):
    """An open review of a run that really waits; its fabric asks ``owner``, a role that ana has as well."""
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def ana(actor):
    """Another one who is asked."""
    member("ana", "owner", "reviewer")
    return replace(actor, name="ana", roles=frozenset({"owner", "reviewer"}))


@pytest.fixture
def ben(actor):
    """A member who is not asked."""
    member("ben", "viewer")
    return replace(actor, name="ben", roles=frozenset({"viewer"}))


def acts():
    rows = AuditLine.objects.filter(kind__in=(Act.REVIEW_CLAIMED, Act.REVIEW_RELEASED, Act.REVIEW_REASSIGNED))
    rows = rows | AuditLine.objects.filter(kind=Act.REVIEW_TAKEN_OVER)
    return list(rows.order_by("at", "id").values_list("actor", "kind"))


def lapse(item):
    """The lease ends, as when no page has given a sign of life for five minutes."""
    ReviewAssignment.objects.filter(review=item.id).update(lease_until=1)


def refused(act, **given):
    with pytest.raises(Refused) as caught:
        act(**given)
    assert "\n" not in caught.value.message
    return caught.value


class TestClaiming:
    def test_takes_it_for_five_minutes_on_the_databases_clock(self, actor, item):
        taken = review_claim(actor=actor, review_id=item.id)
        assert taken.fresh
        assert (taken.assignment.holder, taken.assignment.lease, taken.assignment.taken_from) == ("owner", 1, "")
        assert taken.assignment.lease_until - taken.assignment.claimed_at == LEASE_S * US
        read = find_assignment(actor, item.id)
        assert read == replace(taken.assignment, read_at=read.read_at)
        assert acts() == [("owner", "review_claimed")]

    def test_again_by_the_same_person_keeps_its_number(self, actor, item):
        first = review_claim(actor=actor, review_id=item.id)
        again = review_claim(actor=actor, review_id=item.id)
        assert not again.fresh
        assert (again.assignment.lease, again.assignment.claimed_at) == (1, first.assignment.claimed_at)
        assert again.assignment.lease_until >= first.assignment.lease_until
        assert len(acts()) == 1

    def test_by_another_person_is_refused_with_who_and_until_when(self, actor, ana, item):
        review_claim(actor=ana, review_id=item.id)
        error = refused(review_claim, actor=actor, review_id=item.id)
        assert (error.code, error.field) == ("conflict", "assignment")
        assert "ana has claimed review " in error.message
        assert find_assignment(actor, item.id).holder == "ana"

    def test_what_has_lapsed_is_taken_over_and_says_from_whom(self, actor, ana, item):
        review_claim(actor=ana, review_id=item.id)
        lapse(item)
        taken = review_claim(actor=actor, review_id=item.id)
        assert (taken.assignment.holder, taken.assignment.lease, taken.assignment.taken_from) == ("owner", 2, "ana")
        assert acts() == [("ana", "review_claimed"), ("owner", "review_taken_over")]

    def test_ones_own_that_has_lapsed_is_another_lease_and_taken_from_no_one(self, actor, item):
        review_claim(actor=actor, review_id=item.id)
        lapse(item)
        taken = review_claim(actor=actor, review_id=item.id)
        assert (taken.assignment.lease, taken.assignment.taken_from, taken.fresh) == (2, "", True)

    def test_is_for_those_who_are_asked(self, ben, item):
        error = refused(review_claim, actor=ben, review_id=item.id)
        assert (error.code, error.field) == ("forbidden", "actor")
        assert "ben is not asked" in error.message
        assert not ReviewAssignment.objects.exists()

    def test_is_for_people(self, actor, item):
        robot = replace(actor, kind="service", name="robot")
        assert refused(review_claim, actor=robot, review_id=item.id).code == "forbidden"
        assert refused(review_claim_next, actor=robot).code == "forbidden"

    def test_what_is_of_another_workspace_or_closed_is_not_there_to_be_taken(self, actor, stranger, item):
        assert refused(review_claim, actor=stranger, review_id=item.id).code == "not_found"
        Review.objects.filter(id=item.id).update(decided_at=1, verb="reject", decided_by="ana")
        assert refused(review_claim, actor=actor, review_id=item.id).code == "conflict"

    def test_sixteen_at_once_are_one_holder(self, actor, item):
        people = [replace(actor, name=f"person-{n}") for n in range(16)]
        told = at_once([partial(review_claim, actor=one, review_id=item.id) for one in people])
        (taken,) = [one for one in told if isinstance(one, Claimed)]
        assert {one.code for one in told if isinstance(one, Refused)} == {"conflict"}
        assert find_assignment(actor, item.id).holder == taken.assignment.holder
        assert ReviewAssignment.objects.get().lease == 1
        assert len(acts()) == 1

    def test_sixteen_at_once_take_over_what_lapsed_once(self, actor, ana, item):
        review_claim(actor=ana, review_id=item.id)
        lapse(item)
        people = [replace(actor, name=f"person-{n}") for n in range(16)]
        told = at_once([partial(review_claim, actor=one, review_id=item.id) for one in people])
        (taken,) = [one for one in told if isinstance(one, Claimed)]
        assert (taken.assignment.lease, taken.assignment.taken_from) == (2, "ana")


class TestTheNextOne:
    def test_is_the_one_due_first_without_an_assignment(self, actor, ana, doubtful, item):
        ran(actor, doubtful)
        first, second = list_open_reviews(actor)
        assert review_claim_next(actor=ana).assignment.review_id == first.id
        assert review_claim_next(actor=actor).assignment.review_id == second.id
        assert review_claim_next(actor=actor) is None

    def test_is_one_that_they_are_asked(self, ben, item):
        assert review_claim_next(actor=ben) is None

    def test_sixteen_at_once_get_one_each(self, actor, doubtful):
        for _ in range(4):
            ran(actor, doubtful)
        people = [replace(actor, name=f"person-{n}") for n in range(16)]
        told = at_once([partial(review_claim_next, actor=one) for one in people])
        taken = [one.assignment for one in told if one is not None]
        assert sorted(one.review_id for one in taken) == sorted(one.id for one in list_open_reviews(actor))
        assert len({one.holder for one in taken}) == 4
        assert all(told.count(one) == 1 for one in told if one is not None)


class TestHeartbeat:
    def test_renews_the_lease_that_it_names(self, actor, item):
        lease = review_claim(actor=actor, review_id=item.id).assignment.lease
        ReviewAssignment.objects.update(lease_until=5)
        beat = review_heartbeat(actor=actor, review_id=item.id, lease=lease)
        assert (beat.kept, beat.open, beat.viewers) == (True, True, ())
        assert beat.assignment.live

    @pytest.mark.parametrize("lease", [0, 2, -1, 10**12])
    def test_of_another_lease_changes_nothing(self, actor, item, lease):
        review_claim(actor=actor, review_id=item.id)
        before = ReviewAssignment.objects.values().get()
        assert not review_heartbeat(actor=actor, review_id=item.id, lease=lease).kept
        assert ReviewAssignment.objects.values().get() == before

    def test_of_a_page_whose_review_was_taken_over_tells_by_whom(self, actor, ana, item):
        lease = review_claim(actor=ana, review_id=item.id).assignment.lease
        lapse(item)
        review_claim(actor=actor, review_id=item.id)
        beat = review_heartbeat(actor=ana, review_id=item.id, lease=lease)
        assert (beat.kept, beat.assignment.holder, beat.assignment.taken_from) == (False, "owner", "ana")

    def test_says_who_else_looks_until_their_page_is_silent(self, actor, ana, item):
        assert review_heartbeat(actor=ana, review_id=item.id).viewers == ()
        assert review_heartbeat(actor=actor, review_id=item.id).viewers == ("ana",)
        assert list_viewers(ana, item.id) == ("owner",)
        ReviewViewer.objects.filter(name="ana").update(seen_at=1)
        assert review_heartbeat(actor=actor, review_id=item.id).viewers == ()
        assert ReviewViewer.objects.get().name == "owner"

    def test_forgets_pages_of_other_reviews_that_were_closed(self, actor, ana, doubtful, item):
        other = list_open_reviews(actor, ran(actor, doubtful).id)[0]
        review_heartbeat(actor=ana, review_id=other.id)
        ReviewViewer.objects.update(seen_at=1)
        review_heartbeat(actor=actor, review_id=item.id)
        assert list(ReviewViewer.objects.values_list("name", flat=True)) == ["owner"]


class TestReleasing:
    def test_lets_it_go(self, actor, ana, item):
        lease = review_claim(actor=actor, review_id=item.id).assignment.lease
        assert review_release(actor=actor, review_id=item.id, lease=lease)
        assert not find_assignment(actor, item.id).live
        taken = review_claim(actor=ana, review_id=item.id).assignment
        assert (taken.taken_from, taken.lease) == ("", 3)
        assert acts()[1] == ("owner", "review_released")

    def test_of_an_older_lease_or_anothers_changes_nothing(self, actor, ana, item):
        review_claim(actor=actor, review_id=item.id)
        lapse(item)
        review_claim(actor=actor, review_id=item.id)
        assert not review_release(actor=actor, review_id=item.id, lease=1)
        assert not review_release(actor=ana, review_id=item.id, lease=2)
        assert find_assignment(actor, item.id).is_of("owner")


class TestHandingOn:
    def test_by_the_holder_to_another_who_is_asked(self, actor, ana, item):
        holder = replace(actor, roles=frozenset({"reviewer"}))
        ReviewAssignment.objects.create(
            review=item.id, workspace_id=actor.workspace_id, run_id=item.run_id, holder="owner", lease=1,
            claimed_at=1, lease_until=2**60,
        )  # fmt: skip
        handed = review_reassign(actor=holder, review_id=item.id, to="ana").assignment
        assert (handed.holder, handed.assigned_by, handed.lease) == ("ana", "owner", 2)
        assert handed.lease_until - handed.claimed_at == HANDED_S * US
        assert acts() == [("owner", "review_reassigned")]

    def test_by_an_operator_despite_its_holder(self, actor, ana, item):
        operator = replace(actor, name="olga", roles=frozenset({"operator"}))
        review_claim(actor=ana, review_id=item.id)
        assert review_reassign(actor=operator, review_id=item.id, to="owner").assignment.holder == "owner"

    def test_an_unclaimed_one(self, actor, ana, item):
        assert review_reassign(actor=actor, review_id=item.id, to="ana").assignment.lease == 1

    def test_not_by_another_person(self, ana, ben, item):
        review_claim(actor=ana, review_id=item.id)
        error = refused(review_reassign, actor=ben, review_id=item.id, to="owner")
        assert (error.code, error.field) == ("forbidden", "actor")

    @pytest.mark.parametrize(
        ("to", "said"), [("nobody", "there is no member"), ("ben", "ben is not asked"), ("", "there is no member")]
    )
    def test_not_to_a_person_who_is_not_asked(self, actor, ben, item, to, said):
        error = refused(review_reassign, actor=actor, review_id=item.id, to=to)
        assert (error.code, error.field) == ("invalid", "to")
        assert said in error.message

    def test_one_that_changed_hands_meanwhile_is_a_conflict(self, actor, ana, item, monkeypatch):
        seen = review_claim(actor=actor, review_id=item.id).assignment
        lapse(item)
        review_claim(actor=ana, review_id=item.id)
        monkeypatch.setattr("fabric.services.reviews.assignments.find_assignment", lambda *given: seen)
        assert refused(review_reassign, actor=actor, review_id=item.id, to="ana").code == "conflict"
        assert find_assignment(actor, item.id).holder == "ana"


class TestAssigningToARole:
    def test_lets_its_holders_claim_and_ends_the_lease(self, actor, item, ana):
        review_claim(actor=actor, review_id=item.id)
        review_assign_to_role(actor=actor, review_id=item.id, role="owner")
        found = find_assignment(actor, item.id)
        assert (found.role, found.holder, found.assigned_by, found.live) == ("owner", "", "owner", False)
        assert review_claim(actor=ana, review_id=item.id).assignment.holder == "ana"
        (line,) = AuditLine.objects.filter(kind=Act.REVIEW_ASSIGNED_TO_ROLE)
        assert (line.actor, b'"to":"owner"' in bytes(line.body)) == ("owner", True)

    def test_ends_when_a_person_gets_it(self, actor, item, ana):
        review_assign_to_role(actor=actor, review_id=item.id, role="owner")
        review_reassign(actor=actor, review_id=item.id, to="ana")
        assert find_assignment(actor, item.id).role == ""

    def test_is_refused_for_a_role_that_no_member_has_who_is_asked(self, actor, item, ben):
        for role in ("viewer", "finance", "", "no role"):
            assert refused(review_assign_to_role, actor=actor, review_id=item.id, role=role).code == "invalid"

    def test_is_for_the_holder_owners_and_operators(self, actor, item, ben):
        assert refused(review_assign_to_role, actor=ben, review_id=item.id, role="owner").code == "forbidden"
