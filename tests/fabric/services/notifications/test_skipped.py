"""A notification is over before it is sent: a closed review calls no person to it, and says why."""

import pytest

from fabric.composition import engine as wiring
from fabric.management.run_follower import Following
from fabric.models import Notification, Review
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.services.errors import Refused
from fabric.services.notifications.creation import notifications_make
from fabric.services.notifications.delivery import KEPT_US, notification_resend, notifications_due, notifications_prune
from fabric.services.reviews.decisions import decide_review
from fabric.services.runs.control import run_cancel
from fabric.worker.process.duties import database_us
from tests.fabric.services.notifications.scenes import S, known, made, sent, telling
from tests.fabric.services.notifications.test_delivery import due_now, hook, one, run_id, target
from tests.fabric.services.world import ran

__all__ = ["hook", "run_id", "target"]


def decide(verb="approve", *, by_system=False):
    """The review is closed, as the batch that closes it does."""
    Review.objects.update(decided_at=1, verb=verb, decided_by="Ana", by_system=by_system)


@pytest.mark.parametrize(
    ("closed", "state", "said"),
    [
        ({"verb": "approve"}, "skipped", "answered before it was sent"),
        ({"verb": "reject"}, "skipped", "answered before it was sent"),
        ({"verb": "withdrawn", "by_system": True}, "skipped", "withdrawn before it was sent"),
        ({"verb": "reject", "by_system": True}, "failed", "its time ran out before it was sent"),
    ],
)
def test_a_review_that_is_not_open_any_more_is_not_told(run_id, hook, target, closed, state, said):
    decide(**closed)
    assert sent(target) == 1
    assert (one().state, one().error, one().attempts, hook.got) == (state, said, 0, [])
    assert one().sent_at is None
    assert not notifications_due(now=database_us())
    assert sent(target) == 0


def test_one_that_is_tried_again_is_not_once_it_was_answered(run_id, hook, target):
    hook.answers.append((503, {"Content-Length": "0"}, b""))
    sent(target)
    decide()
    due_now()
    sent(target)
    assert (one().state, one().attempts, len(hook.got)) == ("skipped", 1, 1)


def test_a_reminder_goes_with_its_review_and_an_alert_does_not(actor, nudge, small, hook, target):
    known(target)
    telling(actor, nudge, small, reminded=("reminder", "onward"))
    made(target)
    decide()
    assert sent(target) == 4
    assert [(row.told, row.state) for row in Notification.objects.order_by("seq")] == [
        ("alert", "sent"), ("review", "skipped"), ("reminder", "skipped"), ("onward", "skipped")
    ]  # fmt: skip
    assert len(hook.got) == 1


def test_what_is_not_needed_says_nothing_of_its_target(actor, nudge, small, hook, target):
    """Those behind it are sent in the same look."""
    known(target)
    for n in range(3):
        telling(actor, nudge, small, alert=None, review=f"esc-{n}")
    made(target)
    Review.objects.filter(id="esc-0").update(decided_at=1, verb="approve")
    Review.objects.filter(id="esc-1").update(decided_at=1, verb="reject", by_system=True)
    assert sent(target) == 3
    assert len(hook.got) == 1


def test_what_is_not_needed_is_not_sent_by_hand_either(actor, run_id, hook, target):
    decide()
    sent(target)
    with pytest.raises(
        Refused, match=r"was not needed \(answered before it was sent\): there is nothing to send again"
    ):
        notification_resend(actor=actor, notification_id=one().id)
    Notification.objects.update(state="failed", error="gone")
    notification_resend(actor=actor, notification_id=one().id)
    sent(target)
    assert (one().state, hook.got) == ("skipped", [])


def test_what_was_skipped_goes_after_a_month_as_what_was_sent_does(run_id, target):
    decide()
    sent(target)
    later = database_us() + KEPT_US + 60 * S
    notifications_make([target], now=later)
    assert notifications_prune(now=later) == 1


def test_the_engines_own_withdrawal_and_answer_are_known(actor, nudge, doubtful, hook, target):
    """By the rows that runs themselves write: one that is answered, one that is cancelled."""
    known(target)
    answered, cancelled = ran(actor, doubtful).id, ran(actor, doubtful).id
    assert made(target) == 2
    (item,) = list_open_reviews(actor, answered)
    answer = {"review_id": item.id, "verb": "approve", "digest": item.digest}
    decide_review(store=wiring.store(), nudge=nudge, actor=actor, **answer)
    run_cancel(store=wiring.store(), nudge=nudge, actor=actor, run_id=cancelled, reason="Asked twice.")
    Following(actor, answered, answered=frozenset({item.id})).to_rest()
    Following(actor, cancelled, wait=True).to_rest()
    sent(target)
    said = {row.run_id: row.error for row in Notification.objects.filter(state="skipped")}
    assert said == {answered: "answered before it was sent", cancelled: "withdrawn before it was sent"}
    assert hook.got == []
