"""The outbox is filled from the journal: for each event and target one row, by however many readers."""

import json
import threading

import pytest
from django.db import connection

from fabric.core import events as ev
from fabric.core.texts.notifications import EVENTS, MAILED, Channel, Target, build_key
from fabric.core.values.taxonomy import CLASSIFY, Cause
from fabric.models import Event, Notification, NotificationTarget, Workspace
from fabric.models.runs.journal import NOTIFIED
from fabric.services.notifications import creation as module
from fabric.services.notifications.creation import (
    LOOKBACK_US,
    REASON_CHARS_MAX,
    notifications_make,
    notifications_wanted,
)
from fabric.worker.process.duties import database_us
from tests.fabric.services.notifications.scenes import ALERT, HOOK, OPS, S, known, made, telling, told_events


def content(told, target=OPS):
    return json.loads(bytes(Notification.objects.get(told=told, target=target.id).content))


def test_an_alert_and_a_review_are_told_to_each_target_once(actor, nudge, small):
    known(OPS, HOOK)
    assert not notifications_wanted([OPS, HOOK])
    run_id = telling(actor, nudge, small, reminded=("reminder", "onward"))
    assert notifications_wanted([OPS, HOOK])
    assert made(OPS, HOOK) == 8
    seqs = told_events(run_id)
    for target in (OPS, HOOK):
        rows = Notification.objects.filter(target=target.id).order_by("seq")
        assert [row.told for row in rows] == ["alert", "review", "reminder", "onward"]
        assert [row.id for row in rows] == [build_key(run_id, seq, target.id) for seq in seqs]
    assert not notifications_wanted([OPS, HOOK])
    assert made(OPS, HOOK) == 0


def test_what_is_told_is_what_may_be_told(actor, nudge, small):
    known(OPS)
    run_id = telling(actor, nudge, small, reminded=("reminder",))
    made(OPS)
    about = {"run_id": run_id, "fabric": "small", "tier": "interactive", "cost_usd_micros": 0, "stage": "plan"}
    assert content("alert") == about | {
        "reason": "429 from the provider",
        "mechanism": "retry",
        "cause": "rate_limit",
        "reaction": "fallback_model",
        "failure_type": "provider_failure",
        "advice": CLASSIFY[Cause.RATE_LIMIT].advice,
    }
    review = content("review")
    due = review.pop("due_at")
    asked = {"review_id": "esc-1", "item": "failure", "required_role": "owner"}
    asked["failure_type"] = "provider_failure"
    assert review == about | asked | {"reason": "it failed"}
    reminder = content("reminder")
    assert (reminder["due_at"], reminder["review_id"], reminder["reason"]) == (due, "esc-1", "it failed")


def test_what_looks_like_a_credential_stays_and_a_reason_is_a_line(actor, nudge, small):
    token = "ghp_" + "aB3dE5fG7hI9" * 3
    said = f"the endpoint says:\n\x07{token} is " + "long " * 200
    known(OPS)
    telling(
        actor, nudge, small, alert=ALERT.__class__(mechanism="retry", cause=ALERT.cause, message=said, reaction="x")
    )
    made(OPS)
    reason = content("alert")["reason"]
    assert token not in json.dumps(content("alert"))
    assert "40 characters" in reason
    assert "\n" not in reason
    assert len(reason) == REASON_CHARS_MAX


def test_who_is_added_is_told_what_comes_and_not_what_was(actor, nudge, small):
    known(OPS)
    telling(actor, nudge, small, at=database_us() - 60 * S, review="")
    made(OPS)
    known(HOOK)
    assert Notification.objects.filter(target=HOOK.id).count() == 0
    telling(actor, nudge, small, review="esc-2")
    made(OPS, HOOK)
    assert Notification.objects.filter(target=HOOK.id).count() == 2


def test_what_commits_late_is_told_all_the_same(actor, nudge, small):
    known(OPS)
    read_to = database_us() + 2 * LOOKBACK_US
    notifications_make([OPS], now=read_to)
    telling(actor, nudge, small, at=read_to - LOOKBACK_US)
    assert made(OPS) == 2


def test_a_cursor_moves_on_and_never_back(transactional_db):
    now = database_us()
    for at, reached in ((now, now), (now + S, now + S), (now - S, now + S)):
        notifications_make([OPS], now=at)
        assert NotificationTarget.objects.get().read_to == reached


def test_while_no_page_was_open_nothing_is_lost(actor, nudge, small):
    known(OPS)
    NotificationTarget.objects.update(since_at=0, read_to=database_us() - 40 * 86_400 * S)
    telling(actor, nudge, small, at=database_us() - 39 * 86_400 * S)
    assert made(OPS) == 2


def test_more_than_fits_into_one_go_is_told_as_well(actor, nudge, small, monkeypatch):
    monkeypatch.setattr(module, "EVENTS_MAX", 2)
    known(OPS)
    for n in range(5):
        telling(actor, nudge, small, review=f"esc-{n}")
    assert made(OPS) == 10


def test_a_target_of_a_workspace_or_of_some_events_is_told_no_more(actor, nudge, small):
    mine = Target(channel=Channel.EMAIL, address="a@example.org", workspace_id=actor.workspace_id)
    other = Target(
        channel=Channel.EMAIL, address="b@example.org", workspace_id=Workspace.objects.create(name="elsewhere").id
    )
    reviews = Target(channel=Channel.EMAIL, address="c@example.org", wants=frozenset({"review_opened"}))
    known(mine, other, reviews)
    telling(actor, nudge, small)
    assert made(mine, other, reviews) == 3
    assert not notifications_wanted([mine, other, reviews])
    assert list(Notification.objects.filter(target=reviews.id).values_list("told", flat=True)) == ["review"]
    assert not Notification.objects.filter(target=other.id).exists()


def test_many_at_once_make_each_once(actor, nudge, small):
    known(OPS)
    telling(actor, nudge, small)
    start, failed = threading.Barrier(6), []

    def make():
        start.wait()
        try:
            made(OPS)
        except Exception as error:  # noqa: BLE001
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert Notification.objects.count() == 2


def test_an_event_of_a_newer_program_is_told_as_what_it_is(actor, nudge, small):
    known(OPS)
    run_id = telling(actor, nudge, small, alert=None)
    (seq,) = told_events(run_id)
    row = Event.objects.get(run_id=run_id, seq=seq)
    Event.objects.create(
        run_id=run_id, workspace_id=row.workspace_id, seq=99, kind="alert_raised", version=9, at=row.at, header=b"{}", payload_hash=b"", hash=b""
    )  # fmt: skip
    made(OPS)
    assert content("alert")["reason"] == "this program cannot read the event; look at the run"


def test_a_look_reads_the_index_of_what_is_told_and_nothing_else(actor, nudge, small):
    telling(actor, nudge, small)
    plan = Event.objects.filter(NOTIFIED, at__gte=0).explain()
    assert "event_notified" in plan


def test_looking_for_nothing_costs_a_read_for_each_target_and_one(transactional_db, django_assert_num_queries):
    known(OPS, HOOK)
    with django_assert_num_queries(3):
        assert not notifications_wanted([OPS, HOOK])
    with django_assert_num_queries(1):
        assert not notifications_wanted([])


@pytest.mark.parametrize("targets", [[], [OPS]])
def test_the_first_look_makes_a_target_known(transactional_db, targets):
    assert notifications_wanted(targets) is bool(targets)


def test_an_event_that_cannot_be_read_is_told_as_what_its_kind_mostly_is():
    assert set(module.MOSTLY) == set(EVENTS)
    assert all(told in EVENTS[kind] for kind, told in module.MOSTLY.items())


def test_webhooks_are_told_what_became_of_a_review_and_the_operators_mailboxes_are_not(actor, nudge, small):
    mailbox = Target(channel=Channel.EMAIL, address=OPS.address, wants=MAILED)
    known(mailbox, HOOK)
    agreed = ev.ReviewApproved(review_id="esc-1", actor="ana", digest="d", agreed=("ana",))
    answer = ev.ReviewDecided(review_id="esc-1", verb="approve", actor="ben", agreed=("ana",))
    telling(actor, nudge, small, alert=None, became=(agreed, answer))
    expired = ev.ReviewDecided(review_id="esc-2", verb="reject", actor="system", system=True)
    telling(actor, nudge, small, alert=None, review="esc-2", became=(expired,))
    made(mailbox, HOOK)
    told = Notification.objects.values_list("target", "told")
    assert sorted(one for target, one in told if target == mailbox.id) == ["review", "review"]
    hooked = sorted(one for target, one in told if target == HOOK.id)
    assert hooked == ["decided", "expired", "review", "review", "second"]
    assert content("second", HOOK)["approved_by"] == "ana"
    said = content("decided", HOOK)
    assert (said["review_id"], said["verb"], said["decided_by"]) == ("esc-1", "approve", "ben")
    assert content("expired", HOOK)["decided_by"] == "system"


def test_a_follow_up_is_told_as_one(actor, nudge, small):
    known(HOOK)
    telling(actor, nudge, small, alert=None, item="follow_up")
    made(HOOK)
    assert [row.told for row in Notification.objects.all()] == ["follow_up"]
