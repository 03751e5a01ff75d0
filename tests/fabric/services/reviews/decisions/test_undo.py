"""Second thoughts about an answer: taken back, or let count at once, against a run that takes it meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import pytest

from fabric.composition import engine as wiring
from fabric.core.audit.lines import Act
from fabric.core.spec.policies.people import UNDO_S
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Inbox
from fabric.runtime.ports.journal import TAKEN_BACK
from fabric.selectors.reviews.answers import answers_sent
from fabric.selectors.reviews.lookup import get_review, list_open_reviews
from fabric.selectors.runs.lookup import run_events
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.reviews.decisions import decide_review, hasten_decision, undo_decision
from tests.fabric.services.at_once import Meanwhile, at_once
from tests.fabric.services.world import DOUBTFUL, ran

ROUNDS = 6
PATIENCE_S = 60


@pytest.fixture
def item(actor, doubtful):
    """An open review of a run that really waits."""
    return list_open_reviews(actor, ran(actor, doubtful).id)[0]


@pytest.fixture
def calls(store, nudge, actor, item):
    """The services on that review; keywords change how."""
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}

    class Calls:
        def decide(self, verb="approve", undo_s=30.0, **changes):
            return decide_review(**{**asked, "digest": item.digest, "verb": verb, "undo_s": undo_s, **changes})

        def undo(self, **changes):
            return undo_decision(**{**asked, **changes})

        def now(self, **changes):
            return hasten_decision(**{**asked, **changes})

    return Calls()


def to_rest(actor, item):
    return Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()


def acts(item):
    lines = AuditLine.objects.filter(subject=item.run_id).order_by("at", "id").values_list("kind", flat=True)
    return [kind for kind in lines if kind.startswith("decision")]


def refused(call, **changes):
    with pytest.raises(Refused) as caught:
        call(**changes)
    assert "\n" not in caught.value.message
    return caught.value


def decided(actor, item):
    rows = run_events(actor, item.run_id, limit=500)
    return [row.fact for row in rows if row.kind == "review_decided"]


def test_every_tier_has_its_time():
    assert set(UNDO_S) == set(Tier)


def test_an_answer_that_was_taken_back_counts_for_nothing(calls, actor, item):
    calls.decide(message="Fine, I think.")
    undone = calls.undo()
    assert (undone.run_id, undone.verb, undone.message, undone.recorded) == (
        item.run_id,
        "approve",
        "Fine, I think.",
        True,
    )
    assert get_review(actor, item.id).open
    assert calls.decide("reject", undo_s=0, message="No.").created
    assert to_rest(actor, item).state is RunState.ABORTED
    assert [fact["verb"] for fact in decided(actor, item)] == ["reject"]
    assert acts(item) == [Act.DECISION_SENT, Act.DECISION_TAKEN_BACK, Act.DECISION_SENT]


def test_what_was_typed_is_kept(calls, item):
    calls.decide(message="Fine, I think.")
    calls.undo()
    (sent,) = answers_sent(item)
    assert (sent.fate, sent.decision.message) == ("taken_back", "Fine, I think.")


def test_twice_is_once(calls, item):
    calls.decide()
    assert [calls.undo().recorded for _ in range(2)] == [True, False]
    assert acts(item) == [Act.DECISION_SENT, Act.DECISION_TAKEN_BACK]


def test_at_once_by_many_is_once(calls, item):
    calls.decide()
    told = at_once([calls.undo] * 4)
    assert sorted(one.recorded for one in told) == [False, False, False, True]
    assert acts(item).count(Act.DECISION_TAKEN_BACK) == 1


def test_it_is_too_late_when_the_run_took_it(calls, actor, item):
    calls.decide(undo_s=0)
    to_rest(actor, item)
    refusal = refused(calls.undo)
    assert refusal.code == "conflict"
    assert "was answered by owner at 20" in refusal.message
    assert refusal.message.endswith(": approve; it can no longer be undone")
    assert acts(item) == [Act.DECISION_SENT]


def test_the_run_may_take_it_while_it_is_being_taken_back(calls, store, actor, item):
    calls.decide(undo_s=0)
    late = Meanwhile(store, lambda: to_rest(actor, item), call="withdraw_input")
    assert "can no longer be undone" in refused(calls.undo, store=late).message
    assert [fact["verb"] for fact in decided(actor, item)] == ["approve"]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_against_the_run_itself_exactly_one_of_them_wins(calls, actor, item, number):
    """A worker hosts the run in one thread, and takes the answer at some moment; a person takes it back in another."""
    calls.decide(undo_s=0)

    offered, over = threading.Event(), threading.Event()

    def hosted():
        with wiring.local_engine() as engine:
            engine.offer(item.run_id)
            offered.set()
            over.wait(PATIENCE_S)

    def taken_back():
        offered.wait(PATIENCE_S)
        for _ in range(4 * number):  # Each round a little later, so that both are first in some.
            get_review(actor, item.id)
        try:
            return calls.undo()
        finally:
            over.set()

    undone, _ = at_once([taken_back, hosted])
    if isinstance(undone, Refused):
        assert "can no longer be undone" in undone.message
        assert to_rest(actor, item).state is RunState.COMPLETED
        assert len(decided(actor, item)) == 1
    else:
        assert decided(actor, item) == []
        assert get_review(actor, item.id).open


def test_only_who_gave_it_takes_it_back(calls, actor, item):
    calls.decide()
    for call in (calls.undo, calls.now):
        refusal = refused(call, actor=replace(actor, name="ana"))
        assert refusal.code == "forbidden"
        assert "was answered by owner" in refusal.message


def test_there_is_nothing_to_take_back(calls, item):
    assert "has no answer to undo" in refused(calls.undo).message
    assert "has no answer to undo" in refused(calls.now).message
    assert refused(calls.undo, review_id="0123456789abcdef").code == "not_found"


def test_a_page_that_stands_open_takes_back_the_answer_that_it_shows_and_no_other(calls, item):
    calls.decide(message="First.")
    (first,) = answers_sent(item)
    calls.undo()
    calls.decide(message="Second.")
    undone = calls.undo(answer_id=first.input_id)
    assert (undone.message, undone.recorded) == ("First.", False)
    assert [one.fate for one in answers_sent(item)] == ["taken_back", "waiting"]


def test_an_answer_counts_at_once(calls, actor, item, nudge):
    calls.decide(undo_s=60)
    before = len(nudge.woken)
    assert [calls.now().created for _ in range(2)] == [True, False]
    assert len(nudge.woken) == before + 2
    assert to_rest(actor, item).state is RunState.COMPLETED
    assert calls.now().created is False, "the run has it"
    assert acts(item) == [Act.DECISION_SENT, Act.DECISION_HASTENED]


def test_one_that_was_taken_back_does_not_count_at_once(calls, item):
    calls.decide()
    calls.undo()
    assert "answer again" in refused(calls.now).message


def test_an_owner_that_was_told_of_it_takes_no_other_answer_for_it(calls, store, actor, item):
    """The run's owner has read the first answer ahead of its time. What stands there at that time is another one."""
    calls.decide(message="First.", undo_s=30)
    (told,) = answers_sent(item)
    calls.undo()
    calls.decide("reject", message="No.", undo_s=30)
    ids = Inbox.objects.filter(run_id=item.run_id, input_id__startswith="decision:").order_by("created_at")
    assert [row.consumed_seq for row in ids] == [TAKEN_BACK, None]
    assert [row.input_id == told.input_id for row in ids] == [True, False]


def test_a_decision_that_others_gave_after_it_was_taken_back_stands(calls, actor, item):
    calls.decide()
    calls.undo()
    ana = replace(actor, name="ana")
    calls.decide(actor=ana, undo_s=30)
    refusal = refused(partial(calls.undo))
    assert (refusal.code, "was answered by ana" in refusal.message) == ("forbidden", True)


def test_a_due_time_within_the_window_does_not_overturn_the_answer(store, nudge, actor):
    source = DOUBTFUL.replace("run_usd_micros: 1000000}", "run_usd_micros: 1000000}\n  humans: {due_s: 2}")
    (item,) = list_open_reviews(actor, ran(actor, fabric_publish(actor=actor, source=source).name).id)
    asked = {"store": store, "nudge": nudge, "actor": actor, "review_id": item.id}
    assert decide_review(**asked, digest=item.digest, verb="approve", undo_s=4).created
    (sent,) = answers_sent(item)
    assert sent.takes_at > item.due_at
    run = Following(actor, item.run_id, answered=frozenset({item.id})).to_rest()
    assert run.state is RunState.COMPLETED
    decided = get_review(actor, item.id)
    assert (decided.verb, decided.decided_by, decided.by_system) == ("approve", "owner", False)
    assert decided.decided_at >= sent.takes_at > decided.due_at
