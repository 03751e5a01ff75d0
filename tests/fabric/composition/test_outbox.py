"""From a review of a real run to the mailbox and the webhook, on both databases, with several workers at it: each is told once."""

import json
import subprocess
import sys
import threading

import pytest

from console.launch.processes.data_directory import ROOT
from fabric.adapters.notifications.webhook import secret_bytes, signature
from fabric.composition import outbox
from fabric.composition import worker as worker_process
from fabric.core.texts.notifications import CHATS, Channel
from fabric.models import Duty
from fabric.worker.process.duties import DutyThread
from simulator.installation.database import temporary_database
from tests.fabric.adapters.notifications.receivers import mail_server, webhook_receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_a_review_is_told_once_to_each_with_several_workers_at_it(kind):
    with mail_server() as box, webhook_receiver() as hook, temporary_database(kind) as environment:
        environment |= {
            "FABRIC_NOTIFY_MAIL": "ops@example.org",
            "FABRIC_NOTIFY_WEBHOOKS": hook.url,
            "FABRIC_WEBHOOK_SECRET": SECRET,
            "FABRIC_MAIL_FROM": "fabric@example.org",
            "FABRIC_SMTP_HOST": "127.0.0.1",
            "FABRIC_SMTP_PORT": str(box.port),
            "FABRIC_SMTP_TLS": "off",
            "FABRIC_PUBLIC_URL": "https://fabric.example.org",
        }
        command = [sys.executable, "-m", "tests.fabric.composition.outbox_scene"]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["failed"], said["again"], said["looked"]) == ([], False, [True, True])
    assert said["told"] == sorted(
        [run_id, "review", channel, "sent", 1] for run_id in said["runs"] for channel in ("email", "webhook")
    )
    assert said["duties"] == ["notifications", "notify"]
    assert box.recipients == ["ops@example.org"] * 2
    assert len({mail["Message-ID"] for mail in box.taken}) == len(hook.got) == 2
    for got in hook.got:
        body = json.loads(got.body)
        assert body["data"]["link"].startswith("https://fabric.example.org/reviews/")
        signed = (got.headers["webhook-id"], int(got.headers["webhook-timestamp"]), got.body)
        assert got.headers["webhook-signature"] == signature(secret_bytes(SECRET), *signed)


def test_targets_are_those_of_the_settings(settings):
    assert outbox.targets() == ()
    settings.FABRIC_NOTIFY_MAIL, settings.FABRIC_NOTIFY_WEBHOOKS = ("a@example.org",), ("https://b.example.org/c",)
    settings.FABRIC_NOTIFY_SLACK, settings.FABRIC_NOTIFY_TEAMS = (
        ("https://d.example.org/e",),
        ("https://f.example.org",),
    )
    assert [(one.channel, one.address) for one in outbox.targets()] == [
        (Channel.EMAIL, "a@example.org"),
        (Channel.WEBHOOK, "https://b.example.org/c"),
        (Channel.SLACK, "https://d.example.org/e"),
        (Channel.TEAMS, "https://f.example.org"),
    ]


def test_without_a_sender_or_a_secret_a_channel_is_off(settings):
    assert set(outbox.post().sends) == CHATS
    settings.EMAIL_HOST = "mail.example.org"
    assert set(outbox.post().sends) == CHATS
    settings.DEFAULT_FROM_EMAIL, settings.FABRIC_WEBHOOK_SECRET = "fabric@example.org", SECRET
    assert set(outbox.post().sends) == set(Channel)


def test_without_notifications_looking_writes_nothing(transactional_db):
    for group in outbox.duties():
        assert all(DutyThread([], "one").look(duty) for duty in group)
    assert not Duty.objects.exists()


def test_a_stop_of_the_worker_reaches_what_is_being_sent():
    stopped = threading.Event()
    post = outbox.post(stopped)
    assert not post.stopped()
    stopped.set()
    assert post.stopped()


def test_its_duties_are_not_among_those_that_a_slow_receiver_would_hold_up():
    outside = [duty.name for group in outbox.duties() for duty in group]
    assert len(outside) == len(set(outside))
    assert not {duty.name for duty in worker_process.duties()} & set(outside)
