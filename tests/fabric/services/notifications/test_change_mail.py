"""Members get mail about changes of fabrics: those who may agree when one waits, its author when it is decided; once each, and none in vain."""

from __future__ import annotations

import json
import threading

import pytest
from django.db import connection

from fabric.composition import outbox
from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import CHANGES, Channel, Delivery, NotificationHappening, NotificationState
from fabric.models import AuditLine, ChangeRequest, Member, Notification
from fabric.selectors.drafts.change_requests import ChangeState
from fabric.selectors.notifications import notifications_of_change
from fabric.services.actors import find_actor
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.change_requests import change_approve, change_reject, change_request_open, change_withdraw
from fabric.services.drafts.publication import draft_request
from fabric.services.errors import Refused
from fabric.services.notifications.delivery import BEFORE, notification_resend
from fabric.services.notifications.member_mail import notification_preference_set
from tests.fabric.adapters.notifications.receivers import mail_server
from tests.fabric.services.notifications.scenes import notification_row, sent
from tests.fabric.services.world import EYES, published_by_two
from tests.people import member

OTHER = EYES.replace("title: A small fabric", "title: Another title")
THIRD = EYES.replace("title: A small fabric", "title: A third title")


def person(name: str, *roles: str, email: str | None = None, **more: bool) -> Actor:
    made = member(name, *(roles or ("editor", "reviewer")), **more)
    made.email = f"{name}@example.org" if email is None else email
    made.save()
    return find_actor(made)


@pytest.fixture
def ana(actor: Actor) -> Actor:
    """An editor with an address; the fabric is published by two, and no mail server was known until then."""
    published_by_two(actor, EYES)
    return person("ana")


@pytest.fixture
def ben(ana: Actor, settings) -> Actor:
    """Another, and from now on there is a mail server."""
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "fabric@example.org"
    return person("ben")


def told() -> list[tuple[str, str, str]]:
    rows = Notification.objects.order_by("at", "shown")
    return [(row.shown, row.told, json.loads(bytes(row.content))["became"]) for row in rows]


def refuse_sending():
    return {Channel.EMAIL: lambda *_: pytest.fail("it was sent")}


def test_members_who_may_agree_are_told_once_and_no_others(ana, ben, stranger):
    person("cleo", "owner")
    person("viv", "viewer")
    person("rev", "reviewer")
    person("noel", email="")
    person("left", is_active=False)
    person("robot", service=True)
    person("gone")
    Member.objects.filter(name="gone").update(removed_at=1)
    notification_preference_set(actor=person("quiet"), wants=["review", "changed"])
    person("far")
    Member.objects.filter(name="far").update(workspace_id=stranger.workspace_id)
    asked = change_request_open(actor=ana, source=OTHER, message="Twice the budget.")
    assert change_request_open(actor=ana, source=OTHER).id == asked.id
    assert told() == [("ben", "change", ""), ("cleo", "change", "")]
    row = Notification.objects.filter(shown="ben").get()
    assert (row.run_id, row.change, row.workspace_id) == (None, asked.id, ana.workspace_id)
    (one, _) = notifications_of_change(ben, asked.id)
    assert (one.fabric, one.reason, one.came) == ("small", "Twice the budget.", "asked for by ana")
    assert one.path == f"/fabrics/small/requests/{asked.id}"
    assert notifications_of_change(stranger, asked.id) == []
    notification_row(ana, "run-1")
    assert notifications_of_change(ben, "") == []


def test_its_author_is_told_what_became_of_it_and_by_whom_but_not_what_they_did_themselves(ana, ben):
    change_reject(actor=ben, request_id=change_request_open(actor=ana, source=OTHER).id, reason="Keep it.")
    first = change_request_open(actor=ana, source=OTHER)
    change_request_open(actor=ana, source=THIRD)
    drafts.draft_of_fabric(actor=ana, name="small")
    step = drafts.draft_replace(actor=ana, name="small", step=0, text=OTHER).step
    asked = draft_request(actor=ana, name="small", step=step)
    drafts.draft_discard(actor=ana, name="small", step=step)
    own = ChangeRequest.objects.filter(id__in=(first.id, asked.id), author="ana", decided_by="ana")
    assert {one.state for one in own} == {"voided"}
    asked = change_request_open(actor=ana, source=OTHER)
    change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    said = [
        (data["became"], data["by"], data["reason"], data["revision"])
        for row in Notification.objects.filter(told="changed", shown="ana").order_by("at")
        for data in [json.loads(bytes(row.content))]
    ]
    assert said == [("rejected", "ben", "Keep it.", ""), ("published", "ben", "", "r2")]


def test_whose_change_is_passed_over_is_told_once_and_the_others_mail_is_not_needed(ana, ben):
    mine, other = change_request_open(actor=ana, source=OTHER), change_request_open(actor=ben, source=THIRD)
    change_approve(actor=ben, request_id=mine.id, digest=mine.digest)
    assert [one for one in told() if one[1] == "changed"] == [
        ("ana", "changed", "published"),
        ("ben", "changed", "made stale"),
    ]
    (stale,) = (one for one in notifications_of_change(ana, other.id) if one.told == "changed")
    assert (stale.came, stale.reason) == ("made stale by ben", "r2 is published by now: bring it in, and ask again")
    sent(sends={Channel.EMAIL: lambda *_: Delivery(NotificationHappening.DELIVERED)})
    asking = Notification.objects.get(told="change", change=other.id)
    assert (asking.state, asking.error) == ("skipped", "another revision was published before it was sent")
    assert {row.state for row in Notification.objects.filter(told="changed")} == {"sent"}
    asked = change_request_open(actor=ana, source=EYES)
    change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert [row.shown for row in Notification.objects.filter(told="changed", change=other.id)] == ["ben"]


def test_what_was_withdrawn_is_told_to_no_one_and_calls_no_one_any_more(ana, ben):
    asked = change_request_open(actor=ana, source=OTHER)
    change_withdraw(actor=ana, request_id=asked.id)
    assert told() == [("ben", "change", "")]
    assert sent(sends=refuse_sending()) == 1
    row = Notification.objects.get()
    assert (row.state, row.attempts, row.error) == ("skipped", 0, "withdrawn before it was sent")


@pytest.mark.parametrize("state", [one for one in ChangeState if one in BEFORE and one is not ChangeState.STALE])
def test_what_waits_no_more_calls_no_one(ana, ben, state):
    asked = change_request_open(actor=ana, source=OTHER)
    ChangeRequest.objects.filter(id=asked.id).update(state=state)
    sent(sends=refuse_sending())
    assert (Notification.objects.get().state, Notification.objects.get().error) == ("skipped", BEFORE[state])


def test_what_is_said_of_what_is_over_and_told_is_total():
    assert set(BEFORE) == set(ChangeState) - {ChangeState.OPEN}
    assert set(CHANGES) == set(ChangeState)
    assert {state for state, told in CHANGES.items() if told is None} == {ChangeState.WITHDRAWN}


def test_who_wants_none_by_the_time_it_is_sent_gets_none(ana, ben):
    change_request_open(actor=ana, source=OTHER)
    notification_preference_set(actor=ben, wants=["changed"])
    sent(sends=refuse_sending())
    assert "ben wants no mail of this" in Notification.objects.get().error


def test_an_author_who_wants_none_is_not_told(ana, ben):
    notification_preference_set(actor=ana, wants=["change"])
    change_reject(actor=ben, request_id=change_request_open(actor=ana, source=OTHER).id, reason="No.")
    assert told() == [("ben", "change", "")]


def test_without_a_mail_server_no_one_is_looked_for(ana, ben, settings):
    settings.EMAIL_HOST = ""
    assert not outbox.mails()
    asked = change_request_open(actor=ana, source=OTHER)
    change_reject(actor=ben, request_id=asked.id, reason="No.")
    assert told() == []


def test_nothing_is_told_of_what_was_not_done(ana, ben):
    asked = change_request_open(actor=ana, source=OTHER)
    before = told()
    Member.objects.filter(name="ana").update(roles="viewer")
    with pytest.raises(Refused, match="may not publish fabrics any more"):
        change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    ChangeRequest.objects.filter(id=asked.id).update(text=EYES)
    with pytest.raises(Refused):
        change_approve(actor=ben, request_id=asked.id, digest=asked.digest)
    assert told() == before


def test_the_mails_arrive_with_their_link_and_no_credential(ana, ben, settings):
    with mail_server() as box:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = box.port, 10
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.FABRIC_PUBLIC_URL = "https://fabric.example.org"
        key = "sk-ant-api03-" + "Ab3" * 24
        asked = change_request_open(actor=ana, source=OTHER, message=f"Twice the budget.\nKey {key}.")
        outbox.notify()
        change_reject(actor=ben, request_id=asked.id, reason="Keep the cap.")
        outbox.notify()
    link = f"https://fabric.example.org/fabrics/small/requests/{asked.id}"
    first, second = box.taken
    assert box.recipients == ["ben@example.org", "ana@example.org"]
    assert first["Subject"] == "[Fabric Flow] A change of a fabric waits for a second person (small)"
    assert (first["X-Fabric-Change"], first["X-Fabric-Run"]) == (asked.id, None)
    lines = first.get_content().splitlines()
    assert lines[0] == "A change of a fabric waits for a second person."
    assert lines[2].startswith("Message: Twice the budget. Key (")
    assert lines[3:] == ["Fabric: small", "Requested by: ana", "A change of: r1", "", link]
    assert key not in first.get_content()
    assert second["Subject"] == "[Fabric Flow] Result of your change (small: rejected)"
    assert second.get_content().splitlines() == [
        "Result of your change.", "", "It is: rejected", "By: ben", "Reason: Keep the cap.",
        "Fabric: small", "Requested by: ana", "A change of: r1", "", link,
    ]  # fmt: skip
    assert {NotificationState(row.state) for row in Notification.objects.all()} == {NotificationState.SENT}


def test_one_that_was_given_up_is_sent_again_and_the_audit_line_names_the_change(actor, ana, ben):
    asked = change_request_open(actor=ana, source=OTHER)
    sent(
        sends={
            Channel.EMAIL: lambda *_: Delivery(
                NotificationHappening.REFUSED, "the mail server refused the mailbox (550)"
            )
        }
    )
    notification_resend(actor=actor, notification_id=Notification.objects.get().id)
    (line,) = AuditLine.objects.filter(kind="notification_resent")
    assert (asked.id.encode() in line.body, b'"run"' in line.body) == (True, False)
    sent(sends={Channel.EMAIL: lambda *_: Delivery(NotificationHappening.DELIVERED)})
    assert Notification.objects.get().state == "sent"


@pytest.mark.django_db(transaction=True)
def test_of_two_who_decide_at_once_one_is_told_of(actor, ana, ben):
    asked = change_request_open(actor=ana, source=OTHER)
    refused = []

    def decide(who, reason):
        try:
            change_reject(actor=who, request_id=asked.id, reason=reason)
        except Refused as refusal:
            refused.append(refusal.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=decide, args=(who, who.name)) for who in (actor, ben)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["conflict"]
    assert [one for one in told() if one[1] == "changed"] == [("ana", "changed", "rejected")]
