"""Webhooks against a real server: what is sent and how it is signed, and what each answer means."""

import base64
import hmac
import json
import socket
from hashlib import sha256

import pytest

from fabric.adapters.notifications.posting import BYTES_MAX
from fabric.adapters.notifications.webhook import Webhooks, secret_bytes, signature
from fabric.core.texts.notifications import Channel, Delivery, NotificationHappening, Target
from tests.fabric.adapters.notifications.messages import DATA, MESSAGE
from tests.fabric.adapters.notifications.receivers import webhook_receiver

KEY = bytes(range(32))
NOW = 1_795_000_100.5


@pytest.fixture
def hook():
    with webhook_receiver() as receiver:
        yield receiver


def sent(hook, **more):
    return Webhooks(KEY, now=lambda: NOW, **more).send(Target(channel=Channel.WEBHOOK, address=hook.url), MESSAGE)


def test_the_signature_is_that_of_the_specification():
    """The example of the reference implementations."""
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    given = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert given == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_***", "whsec_a"])
def test_what_is_no_secret_is_refused(text):
    with pytest.raises(ValueError, match="whsec_ and base64"):
        secret_bytes(text)


def test_a_receiver_can_check_it_and_finds_everything(hook):
    assert sent(hook) == Delivery(NotificationHappening.DELIVERED)
    (got,) = hook.got
    assert got.headers["webhook-id"] == got.headers["idempotency-key"] == MESSAGE.key
    assert got.headers["webhook-timestamp"] == "1795000100"
    assert got.headers["content-type"] == "application/json"
    signed = f"{MESSAGE.key}.1795000100.".encode() + got.body
    assert got.headers["webhook-signature"] == "v1," + base64.b64encode(hmac.digest(KEY, signed, sha256)).decode()
    assert json.loads(got.body) == {
        "type": "fabric_flow.review",
        "timestamp": "2026-11-18T11:06:40.000042Z",
        "data": {"id": MESSAGE.key, "version": 1, **DATA, "link": MESSAGE.link},
    }


def test_two_attempts_send_the_same_bytes(hook):
    sent(hook)
    sent(hook)
    assert hook.got[0].body == hook.got[1].body


@pytest.mark.parametrize(
    ("status", "happened"),
    [(200, NotificationHappening.DELIVERED), (302, NotificationHappening.REFUSED), (410, NotificationHappening.REFUSED), (429, NotificationHappening.FAILED), (503, NotificationHappening.FAILED)],
)  # fmt: skip
def test_each_answer_means_something(hook, status, happened):
    hook.answers.append((status, {"Location": hook.url, "Content-Length": "0"}, b""))
    delivery = sent(hook)
    assert (delivery.happened, len(hook.got)) == (happened, 1), "no redirect is followed"
    assert ("" if status == 200 else f"answered HTTP {status}") in delivery.error
    assert "secret" not in delivery.error


def test_how_long_it_wants_to_be_left_alone_is_heard(hook):
    hook.answers.append((503, {"Retry-After": "120", "Content-Length": "0"}, b""))
    assert sent(hook).retry_after_s == 120.0


@pytest.mark.parametrize("status", [200, 500])
def test_a_long_answer_is_not_read_and_its_status_counts(hook, status):
    hook.answers.append((status, {}, b"x" * (BYTES_MAX * 4)))
    assert sent(hook).happened is (NotificationHappening.DELIVERED if status == 200 else NotificationHappening.FAILED)


def test_one_that_does_not_answer_is_left(hook):
    hook.go_on.clear()
    delivery = sent(hook, deadline_s=0.3)
    hook.go_on.set()
    assert delivery.happened is NotificationHappening.FAILED
    assert delivery.error.endswith("did not answer within 0.3 seconds")


def test_one_without_a_listener_is_tried_again():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = Target(channel=Channel.WEBHOOK, address=f"http://127.0.0.1:{port}/secret")
    delivery = Webhooks(KEY).send(target, MESSAGE)
    assert delivery == Delivery(NotificationHappening.FAILED, f"nothing answers at http://127.0.0.1:{port}")
