"""Sends notifications to channels of Slack and Microsoft Teams, by the webhooks that these make for a channel.

A message has its kind, its subject, the due time, and a link to the page. It quotes no sentence of a run: more people
may read a channel than may read the run. No answer is taken in a chat.
Sources: Slack, "Sending messages using incoming webhooks"; Microsoft, "Create incoming webhooks with Workflows".
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from slack_sdk.models.blocks import HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock

from fabric.adapters.notifications.mail import SUBJECTS
from fabric.adapters.notifications.posting import DEADLINE_S, post_once
from fabric.core.texts.notifications import Channel, Delivery, Message, NotificationKind, Target
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from fabric.http.transport import Gate

TITLE_CHARS_MAX = 150
"""Longest header of a block in Slack."""
CALLS: Mapping[NotificationKind, str] = {
    NotificationKind.REVIEW: "A review waits",
    NotificationKind.REMINDER: "Reminder: a review waits",
    NotificationKind.ONWARD: "Three quarters of its time have passed: a review waits",
}
"""Heading of the kinds whose mail speaks to one person."""
ITEMS: Mapping[str, str] = {
    "pre_action": "a call to approve",
    "post_stage": "a result to judge",
    "failure": "a failure",
    "compensation": "an undo that is stuck",
    "child": "a child run",
    "quarantine": "a quarantined run",
    "follow_up": "a follow-up",
}
"""Words of each kind of review."""
FACTS = (("due_at", "Answer until"), ("required_role", "Reviewers"), ("tier", "Tier"))
"""Fields of a message with their labels, in their order; empty ones are left out."""
CARD = "application/vnd.microsoft.card.adaptive"
CARD_SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
CARD_VERSION = "1.4"


@dataclass(frozen=True, slots=True)
class Chats:
    """Sends to chats. ``gate``: vets the addresses that members name; the operator's own may be private."""

    gate: Gate
    deadline_s: float = DEADLINE_S
    now: Callable[[], float] = time.time
    """Seconds since the epoch, for the receiver's Retry-After."""

    def send(self, target: Target, message: Message) -> Delivery:
        """Make one attempt."""
        payload = PAYLOADS[target.channel](message)
        body = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        gate = self.gate if target.vetted else None
        return asyncio.run(post_once(target, body, {}, now=self.now, gate=gate, deadline_s=self.deadline_s))


def build_slack_body(message: Message) -> JSON:
    """Return a message of blocks, with the plain text that Slack shows in its notification."""
    heading, title = _heading(message), _title(message)
    lines = [f"*{label}:* {_escape(said)}" for label, said in _facts(message)]
    said = "\n".join([*lines, f"<{message.link}|{_link_words(message)}>"])
    blocks = (
        HeaderBlock(text=PlainTextObject(text=heading[:TITLE_CHARS_MAX], emoji=False)),
        SectionBlock(text=PlainTextObject(text=title, emoji=False)),
        SectionBlock(text=MarkdownTextObject(text=said, verbatim=True)),
    )
    return {"text": _escape(f"{heading}: {title}"), "blocks": [one.to_dict() for one in blocks]}


def build_teams_body(message: Message) -> JSON:
    """Return a message with one adaptive card, as a workflow of Teams takes it."""
    facts: list[JSON] = [{"title": label, "value": said} for label, said in _facts(message)]
    card: JSON = {
        "$schema": CARD_SCHEMA,
        "type": "AdaptiveCard",
        "version": CARD_VERSION,
        "body": [
            {"type": "TextBlock", "text": _heading(message), "weight": "Bolder", "size": "Medium", "wrap": True},
            {"type": "TextBlock", "text": _title(message), "wrap": True},
            {"type": "FactSet", "facts": facts},
        ],
        "actions": [{"type": "Action.OpenUrl", "title": _link_words(message), "url": message.link}],
    }
    return {"type": "message", "attachments": [{"contentType": CARD, "contentUrl": None, "content": card}]}


PAYLOADS: Mapping[Channel, Callable[[Message], JSON]] = {
    Channel.SLACK: build_slack_body,
    Channel.TEAMS: build_teams_body,
}
"""Payload of each chat; total over ``CHATS``, by test."""


def _heading(message: Message) -> str:
    return CALLS.get(message.told, SUBJECTS[message.told])


def _title(message: Message) -> str:
    """Return the subject without a sentence of the run: fabric, kind of review, stage and type of failure."""
    data = message.data
    item, stage = str(data.get("item") or ""), str(data.get("stage") or "")
    about = " in ".join(filter(None, [ITEMS.get(item, words(item)), words(stage)]))
    failure = f" ({words(str(data['failure_type']))})" if data.get("failure_type") else ""
    return f"{data.get('fabric', '')}: {about or 'run'}{failure}"


def _facts(message: Message) -> list[tuple[str, str]]:
    shown = {**message.data, "due_at": _read_time(str(message.data.get("due_at") or ""))}
    return [(label, str(shown[name])) for name, label in FACTS if shown.get(name)]


def _read_time(text: str) -> str:
    """Return an instant of a message as people read it, to the minute."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC" if text else ""


def _link_words(message: Message) -> str:
    return "Open the review" if message.data.get("review_id") else "Open the run"


def _escape(text: str) -> str:
    """Return text without the signs that Slack reads as links and mentions. Source: Slack, "Escaping text"."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
