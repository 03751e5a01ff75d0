"""Members are mailed of the reviews that ask them: by role or name, with an address, while they want it; once each."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from django.db import connection

from fabric.composition import outbox
from fabric.core.texts.notifications import MEMBER_KINDS, Channel, Delivery, NotificationHappening
from fabric.models import Member, Notification, NotificationRead, Review
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.notifications import find_mail, list_notifications
from fabric.services.errors import Refused
from fabric.services.notifications.delivery import notifications_prune
from fabric.services.notifications.member_mail import (
    member_target,
    members_notify,
    members_wanted,
    notification_preference_set,
)
from fabric.worker.process.duties import database_us
from tests.fabric.services.notifications.scenes import HOOK, S, post_to, sent, telling
from tests.people import member

TAKES = lambda *_: Delivery(NotificationHappening.DELIVERED)  # noqa: E731
ASKED = names_text(["reviewer", "cleo"])


def notify():
    return members_notify(now=database_us())


def person(name, *roles, email=None, **more):
    made = member(name, *roles, **more)
    made.email = f"{name}@example.org" if email is None else email
    made.save()
    return made


@pytest.fixture
def people(actor):
    """Members who may answer, and those who may not or cannot be mailed."""
    notify()
    person("ana", "reviewer")
    person("cleo", "viewer")
    person("finn", "finance")
    person("noel", "reviewer", email="")
    person("robot", "reviewer", service=True)
    person("left", "reviewer", is_active=False)
    person("gone", "reviewer")
    Member.objects.filter(name="gone").update(removed_at=1)


def told():
    return sorted(Notification.objects.exclude(member="").values_list("shown", "told"))


def test_those_who_are_asked_are_told_once_by_name_and_no_address_is_kept(actor, nudge, small, people):
    telling(actor, nudge, small, asked=ASKED)
    assert members_wanted()
    assert notify() == 2
    assert told() == [("ana", "review"), ("cleo", "review")]
    assert not members_wanted()
    assert notify() == 0
    assert not Notification.objects.filter(shown__contains="@").exists()


def test_whom_it_is_passed_on_to_is_told_then_and_not_before(actor, nudge, small, people):
    row = {"asked": names_text(["ana"]), "onward_to": names_text(["finance"])}
    telling(actor, nudge, small, reminded=("reminder", "onward"), **row)
    notify()
    assert told() == [("ana", "onward"), ("ana", "reminder"), ("ana", "review"), ("finn", "onward")]


def test_an_event_without_notifications_is_looked_at_once(actor, nudge, small, people):
    telling(actor, nudge, small, asked=names_text(["safety"]))
    assert notify() == 0
    assert NotificationRead.objects.count() == 1
    assert not members_wanted()


def test_a_member_who_turned_it_off_is_not_told_and_is_again_when_it_is_on(actor, nudge, small, people):
    ana = replace(actor, name="ana")
    notification_preference_set(actor=ana, wants=(), email="ana@example.org")
    telling(actor, nudge, small, asked=ASKED)
    notify()
    assert told() == [("cleo", "review")]
    notification_preference_set(actor=ana, wants=MEMBER_KINDS, email="ana@new.example.org")
    assert find_mail(ana).email == "ana@new.example.org"
    telling(actor, nudge, small, review="esc-2", asked=names_text(["ana"]))
    assert notify() == 1


def test_a_member_gets_no_unwanted_mail_and_all_other(actor, nudge, small, people):
    ana = replace(actor, name="ana")
    notification_preference_set(actor=ana, wants=["review", "onward"])
    row = {"asked": names_text(["ana"]), "onward_to": names_text(["finance"])}
    telling(actor, nudge, small, reminded=("reminder", "onward"), **row)
    notify()
    assert told() == [("ana", "onward"), ("ana", "review"), ("finn", "onward")]
    assert (find_mail(ana).email, find_mail(ana).wants) == ("ana@example.org", ("review", "onward"))
    # What waits is looked at once more when it is sent.
    notification_preference_set(actor=ana, wants=["reminder"])
    to = []
    sent(
        sends={
            Channel.EMAIL: lambda target, said: (
                to.append((target.address, said.told)) or Delivery(NotificationHappening.DELIVERED)
            )
        }
    )
    assert to == [("finn@example.org", "onward")]


def test_it_goes_to_the_address_that_they_have_when_it_is_sent(actor, nudge, small, people):
    telling(actor, nudge, small, asked=names_text(["ana"]))
    notify()
    notification_preference_set(actor=replace(actor, name="ana"), wants=MEMBER_KINDS, email="other@example.org")
    to = []
    sent(
        sends={Channel.EMAIL: lambda target, _: to.append(target.address) or Delivery(NotificationHappening.DELIVERED)}
    )
    assert to == ["other@example.org"]
    assert Notification.objects.get().state == "sent"


@pytest.mark.parametrize("change", ["off", "left", "no address"])
def test_a_member_who_turned_it_off_later_gets_none_that_waits(actor, nudge, small, people, change):
    telling(actor, nudge, small, asked=names_text(["ana"]))
    notify()
    if change == "left":
        Member.objects.filter(name="ana").update(removed_at=2)
    else:
        email = "" if change == "no address" else "ana@example.org"
        notification_preference_set(
            actor=replace(actor, name="ana"), wants=MEMBER_KINDS if change != "off" else (), email=email
        )
    assert sent(sends={Channel.EMAIL: lambda *_: pytest.fail("it was sent")}) == 1
    row = Notification.objects.get()
    assert (row.state, row.attempts) == ("skipped", 0)
    assert "ana wants no mail of this" in row.error


def test_a_mail_server_that_is_away_is_asked_once_for_all_members_and_webhooks_go_on(actor, nudge, small, people):
    telling(actor, nudge, small, asked=ASKED)
    notify()
    tried = []
    away = lambda target, _: tried.append(target) or Delivery(NotificationHappening.FAILED, "the mail server is away")  # noqa: E731
    Notification.objects.create(
        **{name: getattr(Notification.objects.all()[0], name) for name in ("workspace_id", "run_id", "told", "content", "at", "made_at", "next_at")},
        id="f" * 32, seq=99, channel="webhook", target=HOOK.id, shown=HOOK.public_address,
    )  # fmt: skip
    sent(HOOK, sends={Channel.EMAIL: away, Channel.WEBHOOK: TAKES})
    assert len(tried) == 1
    assert Notification.objects.get(member="").state == "sent"


def test_what_was_answered_meanwhile_is_not_sent(actor, nudge, small, people):
    telling(actor, nudge, small, asked=names_text(["ana"]))
    notify()
    Review.objects.update(decided_at=1, verb="approve", decided_by="cleo")
    sent(sends={Channel.EMAIL: lambda *_: pytest.fail("it was sent")})
    assert Notification.objects.get().error == "answered before it was sent"


def test_a_follow_up_is_sent_though_nothing_waits_for_it(actor, nudge, small, people):
    closed = {"decided_at": 1, "by_system": True}
    telling(actor, nudge, small, item="follow_up", asked=names_text(["ana"]), **closed)
    notify()
    sent(sends={Channel.EMAIL: TAKES})
    assert (Notification.objects.get().told, Notification.objects.get().state) == ("follow_up", "sent")


def test_an_items_notifications_and_what_became_of_them(actor, nudge, small, people):
    run_id = telling(actor, nudge, small, asked=ASKED, reminded=("reminder",))
    notify()
    found = list_notifications(actor, run_id, "esc-1")
    assert [(one.told, one.shown) for one in found] == [
        ("review", "ana"), ("review", "cleo"), ("reminder", "ana"), ("reminder", "cleo")
    ]  # fmt: skip
    assert list_notifications(actor, run_id, "esc-2") == []


def test_without_a_mail_server_no_one_is_looked_for(actor, nudge, small, people, settings):
    telling(actor, nudge, small, asked=ASKED)
    assert not outbox.mails()
    outbox.notify()
    assert told() == []
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "fabric@example.org"
    assert outbox.has_work()


@pytest.mark.parametrize("email", ["ana", "a@b", "a b@example.org", "x" * 300 + "@example.org"])
def test_what_is_no_address_is_said(actor, people, email):
    with pytest.raises(Refused, match="is no e-mail address"):
        notification_preference_set(actor=replace(actor, name="ana"), wants=MEMBER_KINDS, email=email)


def test_a_token_does_not_say_where_a_members_mail_goes(actor, people):
    with pytest.raises(Refused, match="a token cannot"):
        notification_preference_set(actor=replace(actor, name="ana", via="token:t"), wants=MEMBER_KINDS, email="")
    notification_preference_set(actor=replace(actor, name="ana", via="token:t"), wants=["follow_up"])
    assert find_mail(replace(actor, name="ana")).wants == ("follow_up",)


def test_a_program_is_not_mailed_and_no_member_about_an_unknown_kind(actor, people):
    with pytest.raises(Refused, match="which gets no mail"):
        notification_preference_set(actor=replace(actor, name="robot", via="token:t"), wants=["review"])
    with pytest.raises(Refused, match="there is no mail about 'alert'; there are: review"):
        notification_preference_set(actor=replace(actor, name="ana"), wants=["review", "alert"])


def test_what_is_older_than_is_looked_back_to_is_forgotten(actor, nudge, small, people):
    telling(actor, nudge, small, asked=ASKED)
    notify()
    notifications_prune(now=database_us())
    assert NotificationRead.objects.count() == 1
    notifications_prune(now=database_us() + 40 * 86_400 * S)
    assert NotificationRead.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_several_workers_at_once_tell_each_once(actor, nudge, small, people):
    telling(actor, nudge, small, asked=ASKED)
    failed = []

    def work():
        try:
            notify()
        except Exception as error:  # noqa: BLE001
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert told() == [("ana", "review"), ("cleo", "review")]


def test_a_member_that_there_is_none_of(actor):
    assert member_target("nobody") is None
    assert post_to().targets == ()
