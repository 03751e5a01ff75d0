"""Describes notifications: messages about alerts, reviews and change requests outside the console. Each notification
and target has one row, with its delivery.

A row is made once, and sent at least once. If a worker dies after it sent one and before it recorded that, the next
worker sends it again under its key. Receivers recognise a second copy by that key (Message-ID, webhook-id,
Idempotency-Key).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import urlsplit

from fabric.core.values.command_ids import unit
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON


class NotificationKind(StrEnum):
    """Kind of a notification."""

    ALERT = "alert"
    """A failure while the run goes on; it needs no answer."""
    REVIEW = "review"
    """A run waits for a person's answer."""
    REMINDER = "reminder"
    """Half of a review's time has passed."""
    ONWARD = "onward"
    """Three quarters of it have, and it was passed on."""
    FOLLOW_UP = "follow_up"
    """A run has ended, and a person is to look at why; nothing waits for it."""
    SECOND = "second"
    """One of two people who have to agree did: the review waits for a second person."""
    DECIDED = "decided"
    """A person answered a review."""
    EXPIRED = "expired"
    """No answer came in time: the system took the declared answer."""
    CHANGE = "change"
    """A change of a fabric waits for a second person."""
    CHANGED = "changed"
    """The result of a change request."""
    RUN_COMPLETED = "run_completed"
    """A run of a fabric whose ends are wanted has completed."""
    RUN_FAILED = "run_failed"
    """Such a run ended otherwise, without a person who cancelled it; its state says how."""
    RUN_CANCELLED = "run_cancelled"
    MENTION = "mention"
    """A comment on a review mentions a member."""


EVENTS: Mapping[str, frozenset[NotificationKind]] = {
    "alert_raised": frozenset({NotificationKind.ALERT}),
    "review_opened": frozenset({NotificationKind.REVIEW, NotificationKind.FOLLOW_UP}),
    "review_reminded": frozenset({NotificationKind.REMINDER, NotificationKind.ONWARD}),
    "review_approved": frozenset({NotificationKind.SECOND}),
    "review_decided": frozenset({NotificationKind.DECIDED, NotificationKind.EXPIRED}),
}
"""Kinds of notifications of each event kind. Each of ``NotificationKind`` is here, in ``CHANGES``, in ``ENDS`` or in
``COMMENTED``, by test.
"""
CHANGES: Mapping[str, NotificationKind | None] = {
    "open": NotificationKind.CHANGE,
    "stale": NotificationKind.CHANGED,
    "published": NotificationKind.CHANGED,
    "rejected": NotificationKind.CHANGED,
    "withdrawn": None,
    "voided": NotificationKind.CHANGED,
    "failed": NotificationKind.CHANGED,
}
"""Kind of notification for each new state of a change request, which is in no journal. The request itself goes to
those who may agree, the rest to its author. None: no notification. Total over
``selectors.change_requests.ChangeState``, by test.
"""
ENDS: Mapping[RunState, NotificationKind] = {
    RunState.COMPLETED: NotificationKind.RUN_COMPLETED,
    RunState.STOPPED: NotificationKind.RUN_FAILED,
    RunState.FAILED: NotificationKind.RUN_FAILED,
    RunState.ABORTED: NotificationKind.RUN_FAILED,
    RunState.CANCELLED: NotificationKind.RUN_CANCELLED,
}
"""Kind of notification for each state in which a run ends; total over ``TERMINAL``, by test."""
EVERY_FABRIC = "*"
"""Name by which a target hears about the ends of every fabric's runs."""
COMMENTED = frozenset({NotificationKind.MENTION})
"""Kinds of notifications that comments make, which are in no journal."""
CALLING = frozenset({"review_opened", "review_reminded"})
"""Event kinds that call the members who are reviewers to a review."""
MEMBER_KINDS = (
    NotificationKind.REVIEW,
    NotificationKind.REMINDER,
    NotificationKind.ONWARD,
    NotificationKind.FOLLOW_UP,
    NotificationKind.CHANGE,
    NotificationKind.CHANGED,
    NotificationKind.MENTION,
)
"""Kinds of notifications that members receive and may each switch off; total over ``CALLING``, ``CHANGES`` and
``COMMENTED``, by test.
"""
MAILED = CALLING | {"alert_raised"}
"""Event kinds that go to the operator's mailboxes and chats; webhooks receive all."""
OVER = frozenset(
    {
        NotificationKind.REVIEW,
        NotificationKind.REMINDER,
        NotificationKind.ONWARD,
        NotificationKind.SECOND,
        NotificationKind.CHANGE,
    }
)
"""Kinds that are pointless once the review is closed, or the change request waits no more."""
PAYLOAD_VERSION = 1
"""Version of a webhook's payload: raised for each change that could break a receiver; added fields do not raise it."""


class Channel(StrEnum):
    """Channel to a recipient."""

    EMAIL = "email"
    WEBHOOK = "webhook"
    SLACK = "slack"
    """A channel of Slack, or of a chat that takes its messages."""
    TEAMS = "teams"
    """A channel of Microsoft Teams."""


CHATS = frozenset({Channel.SLACK, Channel.TEAMS})
"""Channels of chats: many people may read them, so their messages quote no sentence of a run."""


@value(kw_only=True)
class Target:
    """A recipient of notifications. ``outbox.targets`` returns them all: the operator's, of the whole installation.

    ``workspace_id`` and ``wants`` narrow a target to one workspace, or to some events.
    """

    channel: Channel
    address: str
    """A mailbox, or a URL, which may hold a secret. It is in no table, on no page and in no log."""
    workspace_id: str = ""
    """Workspace whose runs it hears about; "": all."""
    wants: frozenset[str] = frozenset(EVENTS)
    """Kinds of events."""
    vetted: bool = False
    """True: a member named the address, so that it has to be public."""
    ends: frozenset[str] = frozenset()
    """Names of the fabrics whose ended runs it hears about; ``EVERY_FABRIC``: of all."""

    @property
    def id(self) -> str:
        """Id by the address alone, whatever else is configured."""
        return digest("target", self.channel, self.address, self.workspace_id)

    @property
    def public_address(self) -> str:
        """The part of the address that a person may see: of a URL its scheme and host."""
        if self.channel is Channel.EMAIL:
            return self.address
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"


@value(kw_only=True)
class Message:
    """A message to send. It contains no content of a run: no request, no answer, no arguments."""

    key: str
    """The notification's id, equal at every attempt."""
    at: int
    """Instant of the reported event, microseconds since the epoch."""
    told: NotificationKind
    data: Mapping[str, JSON]
    """Further facts; ``services.notifications`` lists them."""
    link: str
    """Address of the page where it is shown, or answered."""
    trace_headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that carry the run's trace to a webhook (``Trace.write_headers``)."""


class NotificationState(StrEnum):
    """State of a notification."""

    WAITING = "waiting"
    """It is sent when it is due; a worker may be sending it."""
    SKIPPED = "skipped"
    """It was not sent, because there was nothing to answer any more."""
    SENT = "sent"
    FAILED = "failed"
    """It is not tried any more, until a person requests it."""


class NotificationHappening(StrEnum):
    """Happening that moves a notification."""

    DELIVERED = "delivered"
    FAILED = "failed"
    """For now: another attempt may do better."""
    REFUSED = "refused"
    """Refused for good: another attempt would be refused too."""
    EXHAUSTED = "exhausted"
    """It failed, and that was its last attempt."""
    ANSWERED = "answered"
    """The review was answered or withdrawn before the notification was sent, so that nothing is left to do."""
    ASKED = "asked"
    """A person wants it sent again."""


@value()
class Delivery:
    """Result of one attempt. ``error``: one sentence, without the address; ``retry_after_s``: the delay that the
    receiver requested.
    """

    happened: NotificationHappening
    error: str = ""
    retry_after_s: float | None = None


TRANSITIONS: Mapping[tuple[NotificationState, NotificationHappening], NotificationState | None] = {
    (NotificationState.WAITING, NotificationHappening.DELIVERED): NotificationState.SENT,
    (NotificationState.WAITING, NotificationHappening.FAILED): NotificationState.WAITING,
    (NotificationState.WAITING, NotificationHappening.REFUSED): NotificationState.FAILED,
    (NotificationState.WAITING, NotificationHappening.EXHAUSTED): NotificationState.FAILED,
    (NotificationState.WAITING, NotificationHappening.ANSWERED): NotificationState.SKIPPED,
    (NotificationState.WAITING, NotificationHappening.ASKED): NotificationState.WAITING,
    # A late report of a worker whose lease had lapsed: another has sent it, or given it up, meanwhile.
    (NotificationState.SENT, NotificationHappening.DELIVERED): NotificationState.SENT,
    (NotificationState.SENT, NotificationHappening.FAILED): NotificationState.SENT,
    (NotificationState.SENT, NotificationHappening.REFUSED): NotificationState.SENT,
    (NotificationState.SENT, NotificationHappening.EXHAUSTED): NotificationState.SENT,
    (NotificationState.SENT, NotificationHappening.ANSWERED): NotificationState.SENT,
    (NotificationState.SENT, NotificationHappening.ASKED): None,
    (NotificationState.SKIPPED, NotificationHappening.DELIVERED): NotificationState.SENT,
    (NotificationState.SKIPPED, NotificationHappening.FAILED): NotificationState.SKIPPED,
    (NotificationState.SKIPPED, NotificationHappening.REFUSED): NotificationState.SKIPPED,
    (NotificationState.SKIPPED, NotificationHappening.EXHAUSTED): NotificationState.SKIPPED,
    (NotificationState.SKIPPED, NotificationHappening.ANSWERED): NotificationState.SKIPPED,
    (NotificationState.SKIPPED, NotificationHappening.ASKED): None,
    (NotificationState.FAILED, NotificationHappening.DELIVERED): NotificationState.SENT,
    (NotificationState.FAILED, NotificationHappening.FAILED): NotificationState.FAILED,
    (NotificationState.FAILED, NotificationHappening.REFUSED): NotificationState.FAILED,
    (NotificationState.FAILED, NotificationHappening.EXHAUSTED): NotificationState.FAILED,
    (NotificationState.FAILED, NotificationHappening.ANSWERED): NotificationState.FAILED,
    (NotificationState.FAILED, NotificationHappening.ASKED): NotificationState.WAITING,
}
"""Total over both, by test. None: it is refused."""

ATTEMPTS_MAX = 16
"""Attempts before it is given up: with the waits below about three hours, a little more than four at most."""
BASE_S, FACTOR, CAP_S = 1.0, 2.0, 3_600.0
"""Retry schedule of calls (``policy.retry``), with a cap for a receiver that may be away for hours."""


def build_key(run_id: str, seq: int, target_id: str) -> str:
    """Return a notification's id: one for each event and target, however often the event is read."""
    return digest("notification", run_id, seq, target_id)


def key_of_change(change_id: str, became: str, target_id: str) -> str:
    """Return the key of a change request's notification: one for each new state and target."""
    return digest("notification", "change", change_id, became, target_id)


def delay_s(key: str, failures: int, retry_after_s: float | None = None) -> float:
    """Return the seconds until the next attempt: full jitter ``U(0, base * factor^n)`` under the cap. n = 0 follows the
    first. A longer Retry-After counts instead.
    """
    drawn = unit(0, "notification", f"{key}#{failures}")
    return max(min(CAP_S, drawn * BASE_S * FACTOR ** (failures - 1)), retry_after_s or 0.0)


AGAIN = frozenset({408, 409, 425, 429})
"""Statuses of 4xx that another attempt may mend."""


def verdict(status: int) -> NotificationHappening:
    """Return the result of a webhook's delivery by its HTTP status; 2xx is success. Redirects are not followed.
    Source: Standard Webhooks, "Operational considerations".
    """
    if 200 <= status < 300:
        return NotificationHappening.DELIVERED
    return NotificationHappening.FAILED if status in AGAIN or status >= 500 else NotificationHappening.REFUSED


def rfc3339(at: int) -> str:
    """Return an instant in microseconds since the epoch, UTC, as receivers' programs read it."""
    moment = datetime.fromtimestamp(at // 1_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1_000_000:06d}Z"


def read_path(data: Mapping[str, JSON]) -> str:
    """Return the console's path for a message (``Message.data``): the page of its change request or review, else its
    run's.
    """
    if change_id := data.get("change_id"):
        return f"/fabrics/{data['fabric']}/requests/{change_id}"
    review_id = data.get("review_id")
    return f"/reviews/{review_id}" if review_id else f"/runs/{data.get('run_id', '')}"
