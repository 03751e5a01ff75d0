"""Sends notifications by e-mail through Django's backend: plain text, one mailbox a message, its Message-ID made of
the notification's key.
"""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import urlsplit

from django.core.mail import EmailMessage

from fabric.core.texts.notifications import Delivery, Message, NotificationHappening, NotificationKind, Target
from fabric.core.values.units import US

SUBJECTS: Mapping[NotificationKind, str] = {
    NotificationKind.ALERT: "Alert",
    NotificationKind.REVIEW: "A review waits for you",
    NotificationKind.REMINDER: "Reminder: a review waits for you",
    NotificationKind.ONWARD: "Three quarters of its time have passed: a review waits for you",
    NotificationKind.FOLLOW_UP: "A run has ended and needs a follow-up",
    NotificationKind.SECOND: "A second person has to agree",
    NotificationKind.DECIDED: "A review was answered",
    NotificationKind.EXPIRED: "A review was not answered in time",
    NotificationKind.CHANGE: "A change of a fabric waits for a second person",
    NotificationKind.CHANGED: "Result of your change",
    NotificationKind.RUN_COMPLETED: "A run completed",
    NotificationKind.RUN_FAILED: "A run failed",
    NotificationKind.RUN_CANCELLED: "A run was cancelled",
    NotificationKind.MENTION: "A comment mentions you",
}
"""Subject of each kind; total over ``NotificationKind``."""
LINES = (
    ("became", "It is"),
    ("by", "By"),
    ("reason", "Reason"),
    ("message", "Message"),
    ("failure_type", "Failure"),
    ("reaction", "Decided about it"),
    ("fabric", "Fabric"),
    ("run_id", "Run"),
    ("stage", "Stage"),
    ("tier", "Tier"),
    ("cost", "Cost so far"),
    ("due_at", "Answer until"),
    ("required_role", "Reviewers"),
    ("author", "Requested by"),
    ("over", "A change of"),
)
"""Fields of the message with their labels, in their order; empty ones are left out."""
ABOUT = (("run_id", "X-Fabric-Run"), ("change_id", "X-Fabric-Change"))
"""Headers that name the subject, for rules that sort mail."""


@dataclass(frozen=True, slots=True)
class Mailer:
    """Sends by e-mail. ``sender``: the address that messages come from; ``installation``: the console's address."""

    sender: str
    installation: str

    def send(self, target: Target, message: Message) -> Delivery:
        """Make one attempt. It waits Django's EMAIL_TIMEOUT for each answer of the server."""
        host = urlsplit(self.installation).hostname or "localhost"
        headers = {
            "Message-ID": f"<{message.key}@{host}>",
            "Date": formatdate(message.at / US),
            # So that no out-of-office reply comes back. (RFC 3834 5)
            "Auto-Submitted": "auto-generated",
            **{header: str(message.data[name]) for name, header in ABOUT if message.data.get(name)},
        }
        mail = EmailMessage(_subject(message), _text(message), self.sender, [target.address], headers=headers)
        try:
            mail.send()
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return _classify_failure(error)
        return Delivery(NotificationHappening.DELIVERED)


def _subject(message: Message) -> str:
    what = message.data.get("failure_type") or message.data.get("became", "")
    about = " ".join(f"{message.data.get('fabric', '')}: {what}".split()).rstrip(":")
    return f"[Fabric Flow] {SUBJECTS[message.told]} ({about})"[:150]


def _text(message: Message) -> str:
    known = dict(message.data)
    if (cost := known.get("cost_usd_micros")) is not None:
        known["cost"] = f"${cost / 1_000_000:.4f}"
    said = [f"{label}: {known[name]}" for name, label in LINES if known.get(name)]
    return "\n".join([f"{SUBJECTS[message.told]}.", "", *said, "", message.link, ""])


def _classify_failure(error: Exception) -> Delivery:
    """Return the delivery for an exception. 5xx about the message or its mailbox is final; one about sign-in or
    connection is not. Source: RFC 5321 4.2.1.
    """
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _ in error.recipients.values()]
        return _delivery_for_code(min(codes, default=0), "refused the mailbox")
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Delivery(
            NotificationHappening.FAILED, f"the mail server did not accept user and password ({error.smtp_code})"
        )
    if isinstance(error, smtplib.SMTPSenderRefused):
        return _delivery_for_code(error.smtp_code, "refused the sender")
    if isinstance(error, smtplib.SMTPDataError):
        return _delivery_for_code(error.smtp_code, "refused the message")
    if isinstance(error, smtplib.SMTPResponseException):
        return Delivery(NotificationHappening.FAILED, f"the mail server answered {error.smtp_code}")
    if isinstance(error, ValueError):
        return Delivery(
            NotificationHappening.REFUSED,
            "the message cannot be written as an e-mail; look at what it is about instead",
        )
    if isinstance(error, TimeoutError):
        return Delivery(NotificationHappening.FAILED, "the mail server did not answer in time")
    return Delivery(NotificationHappening.FAILED, f"the mail server could not be reached ({type(error).__name__})")


def _delivery_for_code(code: int, what: str) -> Delivery:
    return Delivery(
        NotificationHappening.REFUSED if code >= 500 else NotificationHappening.FAILED,
        f"the mail server {what} ({code})",
    )
