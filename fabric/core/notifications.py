"""Notifications: what is told outside the console, to whom, and what becomes of each. Alerts, questions and changes of fabrics that wait for a
second person, a row for each and each target.

A row is made once, and sent at least once: a worker that dies after it sent and before it said so leaves it to the next, which sends it
again under the same key. Receivers tell a second copy by that key (Message-ID, webhook-id, Idempotency-Key).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from fabric.core.draw import unit
from fabric.core.fingerprint import digest
from fabric.core.frozen import value

JSON = Any


class Told(StrEnum):
    """What is told."""

    ALERT = "alert"
    """Something failed and the run goes on; nobody has to answer."""
    QUESTION = "question"
    """A run waits for a person's answer."""
    REMINDER = "reminder"
    """Half of a question's time has passed."""
    ONWARD = "onward"
    """Three quarters of it have, and it was passed on."""
    TICKET = "ticket"
    """A run has ended, and a person is to look at why; nothing waits for it."""
    SECOND = "second"
    """One of two who have to agree did: a second person is waited for."""
    DECIDED = "decided"
    """A question was answered by a person."""
    EXPIRED = "expired"
    """Nobody answered in time: the system took the declared answer."""
    CHANGE = "change"
    """A change of a fabric waits for a second person."""
    CHANGED = "changed"
    """What became of a change that was asked for."""


EVENTS: Mapping[str, frozenset[Told]] = {
    "alert_raised": frozenset({Told.ALERT}),
    "escalation_opened": frozenset({Told.QUESTION, Told.TICKET}),
    "escalation_reminded": frozenset({Told.REMINDER, Told.ONWARD}),
    "escalation_approved": frozenset({Told.SECOND}),
    "escalation_decided": frozenset({Told.DECIDED, Told.EXPIRED}),
}
"""The kinds of events that are told, and as what. Each of ``Told`` is here or in ``CHANGES``, by test."""
CHANGES: Mapping[str, Told | None] = {
    "open": Told.CHANGE,
    "stale": Told.CHANGED,
    "published": Told.CHANGED,
    "rejected": Told.CHANGED,
    "withdrawn": None,
    "voided": Told.CHANGED,
}
"""As what it is told that a change request comes to stand so, which is in no journal: the asking to whoever may agree, the rest to its author. None:
nobody is told. Total over ``selectors.change_requests.ChangeState``, by test."""
CALLING = frozenset({"escalation_opened", "escalation_reminded"})
"""Of those, what calls people to a question: members who are asked are told of these."""
MEMBERS_TOLD = (Told.QUESTION, Told.REMINDER, Told.ONWARD, Told.TICKET, Told.CHANGE, Told.CHANGED)
"""As what members are told of those and of ``CHANGES``, and may each want or not; total over them, by test."""
MAILED = CALLING | {"alert_raised"}
"""What the operator's mailboxes are told; webhooks are told all."""
OVER = frozenset({Told.QUESTION, Told.REMINDER, Told.ONWARD, Told.SECOND, Told.CHANGE})
"""What there is no point in telling once the question is closed, or the change waits no more."""
PAYLOAD_VERSION = 1
"""Of what a webhook gets: it grows with each change that a receiver could stumble over; fields may be added without one."""


class Channel(StrEnum):
    """How somebody is reached."""

    EMAIL = "email"
    WEBHOOK = "webhook"


@value(kw_only=True)
class Target:
    """Somebody who is told. Which there are is asked of ``outbox.targets``: the operator's, of the whole installation.

    ``workspace_id`` and ``wants`` are there for targets of one workspace, or of some events.
    """

    channel: Channel
    address: str
    """A mailbox, or a URL, which may hold a secret: it is in no table, on no page and in no log."""
    workspace_id: str = ""
    """Whose runs it is told of; empty: everybody's."""
    wants: frozenset[str] = frozenset(EVENTS)
    """Kinds of events."""

    @property
    def id(self) -> str:
        """The same for the same address, whatever else is configured."""
        return digest("target", self.channel, self.address, self.workspace_id)

    @property
    def shown(self) -> str:
        """What a person may see of the address: of a URL its scheme and host."""
        if self.channel is Channel.EMAIL:
            return self.address
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"


@value(kw_only=True)
class Message:
    """What is sent. Nothing in it is content of a run: no request, no answer, no arguments."""

    key: str
    """The notification's id: the same at every attempt."""
    at: int
    """When what it tells happened, microseconds since the epoch."""
    told: Told
    data: Mapping[str, JSON]
    """``services.notifications`` says what is in it."""
    link: str
    """Where it is looked at, or answered."""


class State(StrEnum):
    """Where a notification stands."""

    WAITING = "waiting"
    """It is sent when it is due; a worker may have it in hand."""
    SKIPPED = "skipped"
    """It was not sent, because there was nothing to answer any more."""
    SENT = "sent"
    FAILED = "failed"
    """It is not tried any more, until somebody asks for it."""


class Happened(StrEnum):
    """What becomes of a notification."""

    DELIVERED = "delivered"
    FAILED = "failed"
    """For now: another attempt may do better."""
    REFUSED = "refused"
    """For good: the same would be refused again."""
    EXHAUSTED = "exhausted"
    """It failed, and that was its last attempt."""
    ANSWERED = "answered"
    """What it asks was answered or withdrawn before it was sent: whoever came would find nothing to do."""
    ASKED = "asked"
    """A person wants it sent again."""


@value()
class Delivery:
    """What came of one attempt. ``error``: one sentence, without the address; ``retry_after_s``: how long the other side wants to be left alone."""

    happened: Happened
    error: str = ""
    retry_after_s: float | None = None


TRANSITIONS: Mapping[tuple[State, Happened], State | None] = {
    (State.WAITING, Happened.DELIVERED): State.SENT,
    (State.WAITING, Happened.FAILED): State.WAITING,
    (State.WAITING, Happened.REFUSED): State.FAILED,
    (State.WAITING, Happened.EXHAUSTED): State.FAILED,
    (State.WAITING, Happened.ANSWERED): State.SKIPPED,
    (State.WAITING, Happened.ASKED): State.WAITING,
    # What a worker says late, whose hold on it had lapsed: another has sent it, or given it up, meanwhile.
    (State.SENT, Happened.DELIVERED): State.SENT,
    (State.SENT, Happened.FAILED): State.SENT,
    (State.SENT, Happened.REFUSED): State.SENT,
    (State.SENT, Happened.EXHAUSTED): State.SENT,
    (State.SENT, Happened.ANSWERED): State.SENT,
    (State.SENT, Happened.ASKED): None,
    (State.SKIPPED, Happened.DELIVERED): State.SENT,
    (State.SKIPPED, Happened.FAILED): State.SKIPPED,
    (State.SKIPPED, Happened.REFUSED): State.SKIPPED,
    (State.SKIPPED, Happened.EXHAUSTED): State.SKIPPED,
    (State.SKIPPED, Happened.ANSWERED): State.SKIPPED,
    (State.SKIPPED, Happened.ASKED): None,
    (State.FAILED, Happened.DELIVERED): State.SENT,
    (State.FAILED, Happened.FAILED): State.FAILED,
    (State.FAILED, Happened.REFUSED): State.FAILED,
    (State.FAILED, Happened.EXHAUSTED): State.FAILED,
    (State.FAILED, Happened.ANSWERED): State.FAILED,
    (State.FAILED, Happened.ASKED): State.WAITING,
}
"""Total over both, by test. None: it is refused."""

ATTEMPTS_MAX = 16
"""Attempts before it is given up: with the waits below about three hours, a little more than four at most."""
BASE_S, FACTOR, CAP_S = 1.0, 2.0, 3_600.0
"""The retry schedule of calls (``policy.retry``), with a cap for somebody who may be away for hours."""


def key_of(run_id: str, seq: int, target_id: str) -> str:
    """A notification's id: one for each event and target, however often the event is read."""
    return digest("notification", run_id, seq, target_id)


def key_of_change(change_id: str, became: str, target_id: str) -> str:
    """The same of a change request: one for each way in which it comes to stand, and target."""
    return digest("notification", "change", change_id, became, target_id)


def delay_s(key: str, failures: int, retry_after_s: float | None = None) -> float:
    """Seconds until the next attempt: full jitter ``U(0, base * factor^n)`` under the cap, n = 0 after the first; Retry-After where that is longer."""
    drawn = unit(0, "notification", f"{key}#{failures}")
    return max(min(CAP_S, drawn * BASE_S * FACTOR ** (failures - 1)), retry_after_s or 0.0)


AGAIN = frozenset({408, 409, 425, 429})
"""Statuses of 4xx that another attempt may mend."""


def verdict(status: int) -> Happened:
    """What an HTTP status says of a webhook's delivery: 2xx took it. Redirects are not followed. Source: Standard Webhooks, "Operational considerations"."""
    if 200 <= status < 300:
        return Happened.DELIVERED
    return Happened.FAILED if status in AGAIN or status >= 500 else Happened.REFUSED


def rfc3339(at: int) -> str:
    """An instant in microseconds since the epoch, UTC, as receivers' programs read it."""
    moment = datetime.fromtimestamp(at // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1_000_000:06d}Z"


def path_of(data: Mapping[str, JSON]) -> str:
    """Where the console shows what a message tells (``Message.data``): the page of the change or the question that it is about, else the run's."""
    if change_id := data.get("change_id"):
        return f"/fabrics/{data['fabric']}/requests/{change_id}"
    escalation_id = data.get("escalation_id")
    return f"/reviews/{escalation_id}" if escalation_id else f"/runs/{data.get('run_id', '')}"
