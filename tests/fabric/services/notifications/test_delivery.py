"""A waiting notification is sent once where all goes well, under one key where it does not, and never by two at a time."""

import json
import threading

import pytest
from django.db import connection

from fabric.core.texts.notifications import (
    ATTEMPTS_MAX,
    Channel,
    Delivery,
    NotificationHappening,
    NotificationState,
    Target,
)
from fabric.models import AuditLine, Notification
from fabric.selectors.runs.trace import read_trace
from fabric.services.errors import Refused
from fabric.services.notifications import delivery as module
from fabric.services.notifications.creation import notifications_make, notifications_wanted
from fabric.services.notifications.delivery import (
    HOLD_S,
    KEPT_US,
    notification_mark,
    notification_resend,
    notifications_due,
    notifications_prune,
    notifications_send,
    notifications_to_prune,
)
from fabric.worker.process.duties import database_us
from tests.fabric.adapters.notifications.receivers import webhook_receiver
from tests.fabric.services.notifications.scenes import BASE, OPS, S, known, made, post_to, sent, telling


@pytest.fixture
def hook():
    with webhook_receiver() as receiver:
        yield receiver


@pytest.fixture
def target(hook):
    return Target(channel=Channel.WEBHOOK, address=hook.url)


@pytest.fixture
def run_id(actor, nudge, small, target):
    """A run with one notification that waits."""
    known(target)
    run_id = telling(actor, nudge, small, alert=None)
    assert made(target) == 1
    return run_id


def one():
    return Notification.objects.get()


def due_now():
    Notification.objects.update(next_at=0)


def test_it_is_sent_once_with_the_link_to_the_item(run_id, hook, target):
    assert notifications_due(now=database_us())
    assert sent(target) == 1
    (got,) = hook.got
    assert f"{BASE}/reviews/esc-1" in got.body.decode()
    assert got.headers["webhook-id"] == one().id
    trace = read_trace(run_id)
    assert got.headers["traceparent"] == f"00-{trace.trace_id}-{trace.root}-01"
    assert (one().state, one().attempts, one().error) == ("sent", 1, "")
    assert one().sent_at >= one().made_at
    assert not notifications_due(now=database_us())
    assert sent(target) == 0
    assert len(hook.got) == 1


def test_it_is_tried_again_later_under_the_same_key_and_not_before(run_id, hook, target):
    hook.answers.append((503, {"Retry-After": "90", "Content-Length": "0"}, b""))
    before = database_us()
    sent(target)
    assert (one().state, one().error) == ("waiting", f"{target.public_address} answered HTTP 503")
    assert one().next_at >= before + 90 * S
    assert sent(target) == 0
    due_now()
    sent(target)
    assert (one().state, one().error, one().attempts) == ("sent", "", 2)
    assert {got.headers["webhook-id"] for got in hook.got} == {one().id}
    assert len({got.body for got in hook.got}) == 1


def test_after_the_last_attempt_it_is_given_up(run_id, hook, target):
    hook.answers.extend([(500, {"Content-Length": "0"}, b"")] * (ATTEMPTS_MAX + 1))
    for attempt in range(1, ATTEMPTS_MAX + 1):
        assert one().state == "waiting"
        due_now()
        assert sent(target) == 1
        assert one().attempts == attempt
    assert (one().state, one().error) == ("failed", f"{target.public_address} answered HTTP 500")
    due_now()
    assert sent(target) == 0


def test_what_is_refused_for_good_is_not_tried_again(run_id, hook, target):
    hook.answers.append((410, {"Content-Length": "0"}, b""))
    sent(target)
    assert (one().state, one().attempts) == ("failed", 1)


def test_a_target_that_fails_holds_up_no_other(actor, nudge, small, hook, target):
    bad = Target(channel=Channel.WEBHOOK, address=f"{hook.url}/bad")
    known(target, bad)
    for n in range(3):
        telling(actor, nudge, small, alert=None, review=f"esc-{n}")
    made(bad, target)
    tried = []

    def send(to, message):
        tried.append(to)
        return Delivery(NotificationHappening.FAILED if to == bad else NotificationHappening.DELIVERED)

    assert sent(target, bad, sends={Channel.WEBHOOK: send}) == 4
    assert (tried.count(bad), tried.count(target)) == (1, 3)


def test_they_leave_in_the_order_of_their_events_and_the_longest_due_first(actor, nudge, small, target):
    known(target)
    for n in range(4):
        telling(actor, nudge, small, review=f"esc-{n}")
    made(target)
    in_order = list(Notification.objects.order_by("at", "seq").values_list("id", flat=True))
    last = in_order[-1]
    Notification.objects.filter(id=last).update(next_at=1)
    left = []

    def send(to, message):
        left.append(message.key)
        return Delivery(NotificationHappening.DELIVERED)

    sent(target, sends={Channel.WEBHOOK: send})
    assert left == [last, *in_order[:-1]]


def test_two_workers_never_have_the_same_one_in_hand(run_id, hook, target):
    hook.go_on.clear()

    def send():
        try:
            sent(target)
        finally:
            connection.close()

    first = threading.Thread(target=send)
    first.start()
    assert hook.arrived.wait(30)
    assert not notifications_due(now=database_us())
    assert sent(target) == 0
    hook.go_on.set()
    first.join()
    assert len(hook.got) == 1
    assert one().state == "sent"


def test_many_at_once_send_each_once(actor, nudge, small, hook, target):
    known(target)
    for n in range(6):
        telling(actor, nudge, small, alert=None, review=f"esc-{n}")
    made(target)
    start = threading.Barrier(4)

    def send():
        start.wait()
        try:
            sent(target)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hook.got) == 6
    assert set(Notification.objects.values_list("state", "attempts")) == {("sent", 1)}


class Died(BaseException):
    """The process is gone."""


def test_a_worker_that_dies_after_sending_leaves_it_to_the_next_under_the_same_key(run_id, hook, target):
    """At least once: only the receiver's word tells a message that was taken from one that was not."""
    post = post_to(target)

    def send_and_die(to, message):
        assert post.sends[Channel.WEBHOOK](to, message).happened is NotificationHappening.DELIVERED
        raise Died

    with pytest.raises(Died):
        sent(target, sends={Channel.WEBHOOK: send_and_die})
    assert (one().state, sent(target)) == ("waiting", 0), "its hold has not lapsed"
    later = database_us() + round(HOLD_S * S) + 1
    assert notifications_due(now=later)
    assert sent(target, now=lambda: later) == 1
    assert [got.headers["webhook-id"] for got in hook.got] == [one().id] * 2
    assert (one().state, one().attempts) == ("sent", 2)


def test_what_a_worker_says_late_counts_only_if_it_was_delivered(run_id, target):
    first = one()
    first.attempts = 1
    Notification.objects.update(attempts=2)
    notification_mark(first, Delivery(NotificationHappening.REFUSED, "no"), now=7)
    assert (one().state, one().error) == ("waiting", "")
    notification_mark(first, Delivery(NotificationHappening.DELIVERED), now=7)
    assert (one().state, one().sent_at) == ("sent", 7)
    second = one()
    notification_mark(second, Delivery(NotificationHappening.FAILED, "late"), now=9)
    assert one().state == "sent"


def test_who_is_not_configured_is_left_to_a_worker_that_knows_and_given_up_in_the_end(run_id, hook, target):
    sent(OPS)
    assert (one().state, hook.got) == ("waiting", [])
    assert one().error == f"{target.public_address} is not among the targets that this worker was started with"
    for _ in range(ATTEMPTS_MAX - 1):
        due_now()
        sent(OPS)
    assert (one().state, hook.got) == ("failed", [])


def test_a_channel_without_its_settings_says_so(run_id, target):
    sent(target, sends={})
    assert (one().state, one().error) == ("waiting", "sending by webhook is not configured on this worker")


def test_a_stop_is_heard_between_two(run_id, hook, target):
    post = post_to(target)
    stopped = module.NotificationChannels(
        targets=post.targets, sends=post.sends, base=BASE, now=post.now, stopped=lambda: True
    )
    assert notifications_send(stopped) == 0
    assert hook.got == []


# -- by hand ---------------------------------------------------------------------------------------------------------


def test_what_failed_is_sent_again_by_hand_and_told_to_the_audit_stream(actor, run_id, hook, target):
    hook.answers.append((410, {"Content-Length": "0"}, b""))
    sent(target)
    asked = notification_resend(actor=actor, notification_id=one().id)
    assert (asked.state, asked.attempts, asked.attempts_before) == (NotificationState.WAITING, 1, 1)
    assert sent(target) == 1
    assert one().state == "sent"
    (line,) = AuditLine.objects.filter(kind="notification_resent")
    assert (line.subject, line.actor) == (one().id, "owner")
    assert json.loads(bytes(line.body))["to"] == target.public_address
    assert b"secret" not in bytes(line.body)


def test_it_has_all_its_attempts_again(actor, run_id, target):
    Notification.objects.update(state="failed", attempts=ATTEMPTS_MAX, attempts_before=0)
    notification_resend(actor=actor, notification_id=one().id)
    sent(target, sends={Channel.WEBHOOK: lambda *_: Delivery(NotificationHappening.FAILED, "no")})
    assert (one().state, one().attempts) == ("waiting", ATTEMPTS_MAX + 1)


def test_one_that_is_tried_again_in_an_hour_is_due_at_once_when_it_is_asked_for(actor, run_id, hook, target):
    Notification.objects.update(next_at=database_us() + 3_600 * S, error="no")
    assert sent(target) == 0
    notification_resend(actor=actor, notification_id=one().id)
    assert sent(target) == 1
    assert one().state == "sent"


def test_who_may_not_what_is_not_there_and_what_was_sent_are_refused(actor, stranger, run_id, target):
    from dataclasses import replace

    viewer = replace(actor, name="vera", roles=frozenset())
    for who, which, code in (
        (viewer, one().id, "forbidden"),
        (replace(stranger, roles=actor.roles), one().id, "not_found"),
        (actor, "none", "not_found"),
    ):
        with pytest.raises(Refused) as refused:
            notification_resend(actor=who, notification_id=which)
        assert refused.value.code == code
    Notification.objects.update(state="sent")
    with pytest.raises(Refused, match="was sent already"):
        notification_resend(actor=actor, notification_id=one().id)
    assert not AuditLine.objects.filter(kind="notification_resent").exists()


# -- what is over ----------------------------------------------------------------------------------------------------


def test_what_is_over_goes_after_a_month_and_what_waits_stays(run_id, target):
    assert notifications_to_prune()
    later = database_us() + KEPT_US + 60 * S
    assert notifications_prune(now=later) == 0
    sent(target)
    assert notifications_prune(now=database_us()) == 0
    assert notifications_prune(now=later) == 0, "it would be told anew: the cursor has not left its event behind"
    assert notifications_make([target], now=later) == 0
    assert notifications_prune(now=later) == 1
    assert not notifications_wanted([target])
    assert not notifications_to_prune()


def test_of_what_the_cursor_left_behind_goes_what_is_old_and_nothing_that_waits(run_id, target):
    later = database_us() + KEPT_US + 60 * S
    assert notifications_make([target], now=later) == 0
    assert notifications_prune(now=later) == 0, "it waits"
    sent(target)
    assert notifications_prune(now=later - 120 * S) == 0, "it was made less than a month ago"
    assert notifications_prune(now=later) == 1
