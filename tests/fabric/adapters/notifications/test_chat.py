"""Messages to chats against a real server: the payloads that Slack and Teams document, and what each answer means."""

from __future__ import annotations

import json

import pytest

from fabric.adapters.notifications.chat import PAYLOADS, Chats, build_slack_body
from fabric.core.texts.notifications import CHATS, Channel, Delivery, NotificationHappening, Target
from fabric.core.values.frozen import replace
from fabric.http.transport import Gate
from tests.fabric.adapters.notifications.messages import DATA, MESSAGE
from tests.fabric.adapters.notifications.receivers import webhook_receiver


@pytest.fixture
def hook():
    with webhook_receiver() as receiver:
        yield receiver


def sent(hook, channel, *, gate=Gate(), vetted=False):  # noqa: B008 - It is never changed.
    target = Target(channel=channel, address=hook.url, vetted=vetted)
    return Chats(gate, deadline_s=5.0, now=lambda: 1_795_000_100.5).send(target, MESSAGE)


def test_every_chat_has_a_payload():
    assert set(PAYLOADS) == CHATS


def test_slack_gets_blocks_and_a_plain_text(hook):
    assert sent(hook, Channel.SLACK) == Delivery(NotificationHappening.DELIVERED)
    (got,) = hook.got
    assert got.headers["content-type"] == "application/json"
    title = "research-desk: a failure in fan-out (provider)"
    facts = "*Answer until:* 2026-11-18 12:00 UTC\n*Reviewers:* owner\n*Tier:* interactive"
    said = f"{facts}\n<https://fabric.example.org/reviews/esc-1|Open the review>"
    assert json.loads(got.body) == {
        "text": f"A review waits: {title}",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "A review waits", "emoji": False}},
            {"type": "section", "text": {"type": "plain_text", "text": title, "emoji": False}},
            {"type": "section", "text": {"type": "mrkdwn", "text": said, "verbatim": True}},
        ],
    }


def test_teams_gets_an_adaptive_card(hook):
    hook.answers.append((202, {}, b""))
    assert sent(hook, Channel.TEAMS) == Delivery(NotificationHappening.DELIVERED)
    body = json.loads(hook.got[0].body)
    assert body["type"] == "message"
    (attached,) = body["attachments"]
    assert (attached["contentType"], attached["contentUrl"]) == ("application/vnd.microsoft.card.adaptive", None)
    card = attached["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert [one["type"] for one in card["body"]] == ["TextBlock", "TextBlock", "FactSet"]
    assert {"title": "Answer until", "value": "2026-11-18 12:00 UTC"} in card["body"][2]["facts"]
    assert card["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open the review", "url": "https://fabric.example.org/reviews/esc-1"}
    ]


@pytest.mark.parametrize("channel", sorted(CHATS))
def test_no_sentence_of_the_run_is_sent(hook, channel):
    sent(hook, channel)
    said = hook.got[0].body.decode()
    assert DATA["reason"] not in said
    assert "thrice" not in said


def test_signs_that_slack_reads_are_escaped():
    asked = {**DATA, "required_role": "<!channel> & <@U1>"}
    said = json.dumps(build_slack_body(replace(MESSAGE, data=asked)))
    assert "<!channel>" not in said
    assert "&lt;!channel&gt; &amp; &lt;@U1&gt;" in said


def test_a_message_without_a_review_leads_to_its_run():
    about = {name: value for name, value in DATA.items() if name not in ("review_id", "due_at", "item")}
    said = json.dumps(build_slack_body(replace(MESSAGE, data=about)))
    assert "|Open the run>" in said
    assert "Answer until" not in said


@pytest.mark.parametrize("channel", sorted(CHATS))
@pytest.mark.parametrize(
    ("status", "happened"),
    [
        (200, NotificationHappening.DELIVERED),
        (302, NotificationHappening.REFUSED),
        (400, NotificationHappening.REFUSED),
        (404, NotificationHappening.REFUSED),
        (410, NotificationHappening.REFUSED),
        (429, NotificationHappening.FAILED),
        (500, NotificationHappening.FAILED),
    ],
)
def test_each_answer_means_something(hook, channel, status, happened):
    hook.answers.append((status, {"Location": hook.url, "Content-Length": "0"}, b""))
    delivery = sent(hook, channel)
    assert (delivery.happened, len(hook.got)) == (happened, 1), "no redirect is followed"
    assert ("" if status == 200 else f"answered HTTP {status}") in delivery.error
    assert "secret" not in delivery.error


def test_the_wait_that_slack_asks_for_is_kept(hook):
    hook.answers.append((429, {"Retry-After": "30"}, b""))
    assert sent(hook, Channel.SLACK).retry_after_s == 30.0


class TestAddressesOfMembers:
    def test_a_private_one_is_not_asked(self, hook):
        delivery = sent(hook, Channel.SLACK, vetted=True)
        assert (delivery.happened, hook.got) == (NotificationHappening.FAILED, [])
        assert "FABRIC_ALLOWED_HOSTS" in delivery.error
        assert "secret" not in delivery.error

    def test_one_that_the_operator_lists_is_asked(self, hook):
        gate = Gate.trust_hosts([hook.url.split("/")[2]])
        assert sent(hook, Channel.SLACK, gate=gate, vetted=True).happened is NotificationHappening.DELIVERED

    def test_the_operators_own_may_be_private(self, hook):
        assert sent(hook, Channel.SLACK).happened is NotificationHappening.DELIVERED
