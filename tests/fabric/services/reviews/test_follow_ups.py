"""A run that was given up leaves a follow-up. No run waits for it; a person closes it with a note, once, and may start a fork."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.people.roles import Role
from fabric.core.values.flow import RunState
from fabric.models import AuditLine, FollowUpClosure, Inbox, Review, Run
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.reviews.queue import QueueFilter, Tab, queue_page
from fabric.selectors.runs.lookup import run_get
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review
from fabric.services.reviews.follow_ups import NOTE_CHARS_MAX, close_follow_up, fork_follow_up
from tests.fabric.services.at_once import at_once
from tests.fabric.services.world import GIVEN_UP, ran
from tests.people import member


def listed(actor, tab=Tab.FOLLOW_UPS):
    return [row.review.id for row in queue_page(actor, tab, QueueFilter()).rows]


@pytest.fixture
def follow_up(actor):
    """One that a run really left."""
    run = ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    assert run.state == RunState.ABORTED
    (found,) = listed(actor)
    item = get_review(actor, found)
    assert (item.run_id, item.follow_up, item.open, item.verbs) == (run.id, True, False, ("respond",))
    return item


@pytest.fixture
def close(actor, follow_up):
    return partial(close_follow_up, actor=actor, review_id=follow_up.id)


@pytest.fixture
def fork(actor, store, nudge, follow_up):
    return partial(fork_follow_up, store=store, nudge=nudge, actor=actor, review_id=follow_up.id, seq=2)


def untouched(follow_up):
    """Nothing was recorded, and no run began."""
    assert not FollowUpClosure.objects.exists()
    assert not AuditLine.objects.filter(kind="follow_up_closed").exists()
    assert [one.id for one in Run.objects.all()] == [follow_up.run_id]


def test_it_waits_for_no_run_and_is_listed_until_it_is_closed(actor, follow_up, close):
    before = run_get(actor, follow_up.run_id)
    assert (list_open_reviews(actor), listed(actor, Tab.OPEN), listed(actor)) == ([], [], [follow_up.id])
    closed = close(note="  Called the provider.\x00 ")
    assert (closed.created, closed.closure.closed_by, closed.closure.fork_run_id) == (True, "owner", "")
    assert closed.closure.note.startswith("Called the provider.")
    assert "\x00" not in closed.closure.note
    assert listed(actor) == []
    assert run_get(actor, follow_up.run_id) == before, "no run is changed by it"
    assert not Inbox.objects.filter(run_id=follow_up.run_id, input_id__startswith="decision").exists()
    (line,) = AuditLine.objects.filter(kind="follow_up_closed")
    assert (line.actor, line.subject) == ("owner", follow_up.run_id)


def test_closed_twice_is_once_and_otherwise_is_refused_with_who_did_it(actor, follow_up, close):
    assert [close(note="Done.").created for _ in range(2)] == [True, False]
    for more in ({"note": "Otherwise."}, {"note": "Done.", "actor": replace(actor, name="ana")}):
        with pytest.raises(Refused, match="was closed by owner at 20") as refusal:
            close(**more)
        assert refusal.value.code == "conflict"
    assert FollowUpClosure.objects.get().note == "Done."
    assert AuditLine.objects.filter(kind="follow_up_closed").count() == 1


BAD = {
    "no note": ({"note": ""}, "invalid", "message", "closed with a note"),
    "a blank note": ({"note": " \n\t "}, "invalid", "message", "closed with a note"),
    "a note too long": ({"note": "x" * (NOTE_CHARS_MAX + 1)}, "too_large", "message", "4,001 characters"),
    "no such review": ({"review_id": "nothing"}, "not_found", "review", "there is no review 'nothing'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_changes_nothing(follow_up, close, what):
    given, code, field, said = BAD[what]
    with pytest.raises(Refused, match=said) as refusal:
        close(**({"note": "Done."} | given))
    assert (refusal.value.code, refusal.value.field) == (code, field)
    assert "\n" not in refusal.value.message
    untouched(follow_up)


def test_what_a_run_waits_for_is_answered_and_not_closed(actor, doubtful, store, nudge):
    ran(actor, doubtful)
    (item,) = list_open_reviews(actor)
    given = {"actor": actor, "review_id": item.id, "note": "Done."}
    for act in (close_follow_up, partial(fork_follow_up, store=store, nudge=nudge, seq=2)):
        with pytest.raises(Refused, match="is no follow-up, a run waits with it: answer it instead") as refusal:
            act(**given)
        assert (refusal.value.code, refusal.value.field) == ("invalid", "review")
    assert get_review(actor, item.id).open
    assert not FollowUpClosure.objects.exists()


def test_of_another_workspace_there_is_none(stranger, follow_up, close, fork):
    for act in (close, fork):
        with pytest.raises(Refused, match="there is no review") as refusal:
            act(actor=stranger, note="Done.")
        assert refusal.value.code == "not_found"
    assert listed(stranger) == []
    untouched(follow_up)


MAY = {Role.OWNER, Role.OPERATOR}
"""Beside those who are asked: the fabric lists the local owner alone."""


@pytest.mark.parametrize("role", Role)
def test_who_holds_another_role_closes_none(actor, follow_up, close, role):
    one = replace(actor, name="ben", roles=frozenset({role.value}))
    if role in MAY:
        assert close(actor=one, note="Done.").created
        return
    with pytest.raises(Refused, match="ben may not close review .* for owner, and for owners and operators") as refusal:
        close(actor=one, note="Done.")
    assert refusal.value.code == "forbidden"
    untouched(follow_up)


def test_a_program_s_account_closes_none(actor, follow_up, close):
    with pytest.raises(Refused, match="may not close review"):
        close(actor=replace(actor, kind="service"), note="Done.")
    untouched(follow_up)


class TestWithAFork:
    def test_it_starts_one_run_however_often_it_is_said(self, follow_up, fork):
        told = [fork(note="Again.") for _ in range(2)]
        assert [one.created for one in told] == [True, False]
        (begun,) = Run.objects.exclude(id=follow_up.run_id)
        assert {one.closure.fork_run_id for one in told} == {begun.id}
        assert (begun.origin_run_id, begun.created_by) == (follow_up.run_id, "owner")

    @pytest.mark.parametrize("given", [{"seq": 0}, {"seq": 10_000}, {"note": " "}])
    def test_what_cannot_be_started_closes_nothing(self, follow_up, fork, given):
        with pytest.raises(Refused):
            fork(**({"note": "Again."} | given))
        untouched(follow_up)

    def test_a_member_who_may_not_start_runs_does_not_by_a_follow_up(self, actor, follow_up, fork, close):
        Review.objects.update(asked="\nreviewer\n")
        member("ben", "reviewer")
        ben = replace(actor, name="ben", roles=frozenset({"reviewer"}))
        with pytest.raises(Refused) as refusal:
            fork(actor=ben, note="Again.")
        assert refusal.value.code == "forbidden"
        untouched(follow_up)
        assert close(actor=ben, note="Done.").created, "closing it is theirs"

    def test_one_that_was_closed_starts_nothing_any_more(self, follow_up, close, fork):
        """Not even with the very note, by the very person: it was closed without a run."""
        close(note="Done.")
        for note in ("Done.", "Again."):
            with pytest.raises(Refused, match="was closed by owner at 20") as refusal:
                fork(note=note)
            assert refusal.value.code == "conflict"
        assert Run.objects.count() == 1
        assert FollowUpClosure.objects.get().fork_run_id == ""

    def test_from_another_event_it_is_another_wish(self, follow_up, fork):
        fork(note="Again.")
        with pytest.raises(Refused):
            fork(note="Again.", seq=1)
        assert Run.objects.count() == 2


class TestAnAnswerToIt:
    @pytest.fixture
    def decide(self, actor, store, nudge, follow_up):
        return partial(decide_review, store=store, nudge=nudge, actor=actor, review_id=follow_up.id)

    def test_is_its_note(self, follow_up, decide):
        assert [decide(verb="respond", message="By hand.").created for _ in range(2)] == [True, False]
        assert FollowUpClosure.objects.get().note == "By hand."

    @pytest.mark.parametrize("verb", ["approve", "edit", "reject"])
    def test_lets_nothing_pass(self, follow_up, decide, verb):
        with pytest.raises(Refused):
            decide(verb=verb, message="By hand.")
        untouched(follow_up)

    def test_says_something(self, follow_up, decide):
        with pytest.raises(Refused, match="closed with a note|closed with that note"):
            decide(verb="respond")
        untouched(follow_up)


def test_of_several_who_close_it_at_once_one_does(actor, follow_up, close):
    people = [replace(actor, name=f"person-{n}") for n in range(6)]
    told = at_once([partial(close, actor=one, note="Done.") for one in people])
    (done,) = [one for one in told if not isinstance(one, Refused)]
    assert {one.code for one in told if isinstance(one, Refused)} == {"conflict"}
    assert FollowUpClosure.objects.get().closed_by == done.closure.closed_by
    assert AuditLine.objects.filter(kind="follow_up_closed").count() == 1
