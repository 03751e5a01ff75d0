"""Several who want different things of one run or review in one moment: one of them gets it, and the others are told of that one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from fabric.core.events.inputs import INBOX, DecisionMade
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import Inbox, Run
from fabric.runtime.ports.journal import TAKEN_BACK, InputWithdrawn
from fabric.selectors.reviews.answers import input_id
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.runs.lookup import run_events, run_get
from fabric.services.errors import Refused
from fabric.services.reviews.decisions import DecisionTaken, decide_review
from fabric.services.runs.control import run_cancel
from fabric.services.runs.start import StartedRun, run_start
from tests.fabric.services.at_once import Meanwhile, Together, at_once
from tests.fabric.services.world import ran
from tests.people import member

PEOPLE = ("ana", "ben", "rosa", "owner")


@pytest.fixture
def item(actor, doubtful):
    """An open review of a run that really waits."""
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


def answers(item):
    rows = Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision:").order_by("input_id")
    rows = rows.exclude(consumed_seq=TAKEN_BACK)
    return [INBOX.validate_json(bytes(row.body)) for row in rows]


def to_rest(actor, item):
    return Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()


class Ignored(Exception):
    """The run has looked at an answer and did not take it."""


def until_ignored(event):
    if event.kind == "input_ignored":
        raise Ignored


def decide(store, nudge, actor, item, verb="approve", **more):
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id, "verb": verb}
    return decide_review(**asked, **{"digest": item.digest, **more})


class TestAnswers:
    def test_of_different_ones_a_single_one_counts(self, store, nudge, actor, item):
        together = Together(store, len(PEOPLE))
        verbs = ("approve", "reject", "approve", "reject")
        told = at_once(
            [
                partial(decide, together, nudge, replace(actor, name=name), item, verb, message=f"said by {name}")
                for name, verb in zip(PEOPLE, verbs, strict=True)
            ]
        )
        (first,) = answers(item)
        assert [one for one in told if isinstance(one, DecisionTaken)] == [
            DecisionTaken(item.run_id, item.id, first.verb, created=True)
        ]
        refusals = [one for one in told if isinstance(one, Refused)]
        assert len(refusals) == len(PEOPLE) - 1
        for refusal in refusals:
            assert refusal.code == "conflict"
            assert f"was answered by {first.actor} at 20" in refusal.message
            assert f": {first.verb}; its run has not taken it yet" in refusal.message

    def test_of_the_same_one_each_is_told_the_same(self, store, nudge, actor, item):
        together = Together(store, 4)
        told = at_once([partial(decide, together, nudge, actor, item, message="Fine.")] * 4)
        assert sorted(one.created for one in told) == [False, False, False, True]
        assert len(answers(item)) == 1

    def test_one_that_the_run_takes_while_another_is_on_its_way(self, store, nudge, actor, item):
        member("ana", "owner")  # Whom the fabric asks: what she holds is asked again when the run takes her answer.

        def ana_is_faster():
            decide(store, nudge, replace(actor, name="ana"), item)
            assert to_rest(actor, item).state is RunState.COMPLETED

        with pytest.raises(Refused) as caught:
            decide(Meanwhile(store, ana_is_faster), nudge, actor, item, "reject", message="No.")
        assert caught.value.code == "conflict"
        assert "was answered by ana at 20" in caught.value.message
        assert [one.actor for one in answers(item)] == ["ana"]

    def test_one_whose_review_is_withdrawn_meanwhile_is_not_called_recorded(self, store, nudge, actor, item):
        def it_is_cancelled():
            run_cancel(store=store, nudge=nudge, actor=actor, run_id=item.run_id)
            assert Following(actor, item.run_id, wait=True).to_rest().state is RunState.CANCELLED

        with pytest.raises(Refused) as caught:
            decide(Meanwhile(store, it_is_cancelled), nudge, actor, item)
        assert "was withdrawn at 20" in caught.value.message

    def test_the_same_one_again_after_the_run_took_it(self, store, nudge, actor, item):
        assert decide(store, nudge, actor, item, message="Fine.").created
        to_rest(actor, item)
        assert decide(store, nudge, actor, item, message="Fine.", digest=item.digest).created is False
        assert len(answers(item)) == 1

    @pytest.mark.parametrize("taken", [False, True])
    @pytest.mark.parametrize("other", [{"message": "Not so fine."}, {"verb": "reject"}, {"digest": "0" * 32}])
    def test_another_one_of_the_same_person_is_another(self, store, nudge, actor, item, taken, other):
        decide(store, nudge, actor, item, message="Fine.", undo_s=0 if taken else 30)
        if taken:
            to_rest(actor, item)
        with pytest.raises(Refused) as caught:
            decide(store, nudge, actor, item, **{"message": "Fine.", **other})
        assert caught.value.code == "conflict"
        assert "was answered by owner at 20" in caught.value.message
        assert len(answers(item)) == 1

    def test_one_that_the_run_refused_leaves_the_review_open_for_the_next(self, store, nudge, actor, item):
        stale = DecisionMade(
            input_id=input_id(item.id, 0), review_id=item.id, verb="reject", actor="ana", digest="of something else"
        )
        store.put_input(item.run_id, stale.input_id, INBOX.dump_json(stale))
        with pytest.raises(Ignored):
            Following(actor, item.run_id, say=until_ignored, answered=frozenset({item.id})).to_rest()
        assert get_review(actor, item.id).open
        assert decide(store, nudge, actor, item).created
        assert to_rest(actor, item).state is RunState.COMPLETED
        (counted,) = [one for one in run_events(actor, item.run_id, limit=500) if one.kind == "review_decided"]
        assert counted.fact["actor"] == "owner"

    def test_one_that_was_taken_back_leaves_the_review_open(self, store, nudge, actor, item):
        decide(store, nudge, replace(actor, name="ana"), item, undo_s=30)
        assert store.withdraw_input(item.run_id, input_id(item.id, 0)) is InputWithdrawn.GONE
        assert decide(store, nudge, actor, item).created
        assert [one.actor for one in answers(item)] == ["owner"]

    def test_one_that_keeps_meeting_others_gives_up_in_a_sentence(self, nudge, actor, item):
        class Contended:
            def put_input(self, *given, **more):
                return False

        with pytest.raises(Refused) as caught:
            decide(Contended(), nudge, actor, item)
        assert caught.value.code == "unavailable"


class TestStarts:
    def start(self, store, nudge, actor, small, text, key="k-1"):
        return run_start(store=store, nudge=nudge, actor=actor, fabric=small, text=text, start_key=key)

    def test_of_different_ones_under_one_key_a_single_one_is_started(self, store, nudge, actor, small):
        together = Together(store, 4)
        texts = ("Why?", "Whether?", "Why?", "Whether?")
        told = at_once([partial(self.start, together, nudge, actor, small, text) for text in texts])
        run = Run.objects.get()
        assert sum(isinstance(one, StartedRun) and one.created for one in told) == 1
        for text, one in zip(texts, told, strict=True):
            if text == run.title:
                assert one.run_id == run.id
            else:
                assert isinstance(one, Refused)
                assert (one.code, one.field) == ("conflict", "start_key")
                assert run.id in one.message


class TestCancelling:
    def test_twice_at_once_is_once(self, store, nudge, actor, small):
        run_id = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Why?").run_id
        cancel = partial(run_cancel, store=Together(store, 4), nudge=nudge, actor=actor, run_id=run_id)
        assert sorted(at_once([cancel] * 4)) == [False, False, False, True]
        assert Inbox.objects.filter(run_id=run_id, input_id="cancel").count() == 1

    def test_a_run_that_ends_meanwhile_is_not_called_cancelled(self, store, nudge, actor, small):
        run_id = run_start(store=store, nudge=nudge, actor=actor, fabric=small, text="Why?").run_id
        ends = Meanwhile(store, lambda: Following(actor, run_id).to_rest())
        with pytest.raises(Refused) as caught:
            run_cancel(store=ends, nudge=nudge, actor=actor, run_id=run_id)
        assert caught.value.code == "conflict"
        assert run_get(actor, run_id).state is RunState.COMPLETED
