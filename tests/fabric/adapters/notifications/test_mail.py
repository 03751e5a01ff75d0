"""E-mail against a real server on loopback, through Django's own backend."""

import smtplib
import socket

import pytest

from fabric.adapters.notifications.mail import SUBJECTS, Mailer, _classify_failure
from fabric.core.texts.notifications import Delivery, NotificationHappening, NotificationKind
from tests.fabric.adapters.notifications.messages import MESSAGE, OPS
from tests.fabric.adapters.notifications.receivers import mail_server

MAILER = Mailer("fabric@example.org", "https://fabric.example.org:8443")


@pytest.fixture
def box(settings):
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", server.port, 10
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        yield server


def test_everything_that_is_told_has_a_subject():
    assert set(SUBJECTS) == set(NotificationKind)


def test_a_review_arrives_with_everything_and_its_link(box):
    assert MAILER.send(OPS, MESSAGE) == Delivery(NotificationHappening.DELIVERED)
    (mail,) = box.taken
    assert box.recipients == ["ops@example.org"]
    assert mail["Message-ID"] == f"<{MESSAGE.key}@fabric.example.org>"
    assert (mail["From"], mail["To"]) == ("fabric@example.org", "ops@example.org")
    assert mail["Subject"] == "[Fabric Flow] A review waits for you (research-desk: provider)"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail.get_content().splitlines() == [
        "A review waits for you.",
        "",
        "Reason: the provider says no – thrice",
        "Failure: provider",
        "Fabric: research-desk",
        "Run: 0199-run",
        "Stage: fan_out",
        "Tier: interactive",
        "Cost so far: $0.0123",
        "Answer until: 2026-11-18T12:00:00.000000Z",
        "Reviewers: owner",
        "",
        MESSAGE.link,
    ]


@pytest.mark.parametrize(
    ("where", "answer", "happened"),
    [
        ("rcpt", "550 no such user", NotificationHappening.REFUSED),
        ("rcpt", "450 mailbox busy", NotificationHappening.FAILED),
        ("data", "554 looks like spam", NotificationHappening.REFUSED),
        ("data", "451 try later", NotificationHappening.FAILED),
    ],
)
def test_a_refusal_for_good_is_told_from_one_for_now(box, where, answer, happened):
    setattr(box, where, answer)
    delivery = MAILER.send(OPS, MESSAGE)
    assert (delivery.happened, box.taken) == (happened, [])
    assert answer[:3] in delivery.error


def test_a_server_that_hangs_up_or_is_not_there_is_tried_again(box, settings):
    box.hangs_up = True
    assert MAILER.send(OPS, MESSAGE).happened is NotificationHappening.FAILED
    with socket.create_server(("127.0.0.1", 0)) as free:
        settings.EMAIL_PORT = free.getsockname()[1]
    delivery = MAILER.send(OPS, MESSAGE)
    assert delivery == Delivery(
        NotificationHappening.FAILED, "the mail server could not be reached (ConnectionRefusedError)"
    )


def test_a_password_that_is_not_accepted_may_be_mended_and_says_no_more_than_its_code():
    error = smtplib.SMTPAuthenticationError(535, b"hunter2 is wrong")
    assert _classify_failure(error) == Delivery(
        NotificationHappening.FAILED, "the mail server did not accept user and password (535)"
    )
    assert "hunter2" not in _classify_failure(smtplib.SMTPDataError(554, b"hunter2")).error
