"""Notifications by e-mail, through Django's e-mail backend: plain text, one mailbox a message, its Message-ID made of the notification's key."""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import urlsplit

from django.core.mail import EmailMessage

from fabric.core.notifications import Delivery, Happened, Message, Target, Told

US = 1_000_000
SUBJECTS: Mapping[Told, str] = {
    Told.ALERT: "Alert",
    Told.QUESTION: "A question waits for you",
    Told.REMINDER: "Reminder: a question waits for you",
    Told.ONWARD: "Three quarters of its time have passed: a question waits for you",
    Told.TICKET: "A run has ended and wants to be looked at",
    Told.SECOND: "A second person has to agree",
    Told.DECIDED: "A question was answered",
    Told.EXPIRED: "A question was not answered in time",
    Told.CHANGE: "A change of a fabric waits for a second person",
    Told.CHANGED: "What became of a change that you asked for",
}
"""Total over ``Told``."""
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
    ("required_role", "Asked of"),
    ("author", "Asked for by"),
    ("over", "A change of"),
)
"""What the message says, in its order; what is empty is left out."""
ABOUT = (("run_id", "X-Fabric-Run"), ("change_id", "X-Fabric-Change"))
"""Headers that name what it is about, for whoever sorts mail by a rule."""


@dataclass(frozen=True, slots=True)
class Mailer:
    """Sends by e-mail. ``sender``: the address that messages come from; ``installation``: the console's address."""

    sender: str
    installation: str

    def send(self, target: Target, message: Message) -> Delivery:
        """One attempt. It waits as long as Django's EMAIL_TIMEOUT for each answer of the server."""
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
            return _failed(error)
        return Delivery(Happened.DELIVERED)


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


def _failed(error: Exception) -> Delivery:
    """What an exception says. 5xx about the message or its mailbox is for good; one about signing in or the connection may be mended. Source: RFC 5321 4.2.1."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _ in error.recipients.values()]
        return _answered(min(codes, default=0), "refused the mailbox")
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Delivery(Happened.FAILED, f"the mail server did not accept user and password ({error.smtp_code})")
    if isinstance(error, smtplib.SMTPSenderRefused):
        return _answered(error.smtp_code, "refused the sender")
    if isinstance(error, smtplib.SMTPDataError):
        return _answered(error.smtp_code, "refused the message")
    if isinstance(error, smtplib.SMTPResponseException):
        return Delivery(Happened.FAILED, f"the mail server answered {error.smtp_code}")
    if isinstance(error, ValueError):
        return Delivery(
            Happened.REFUSED, "the message cannot be written as an e-mail; look at what it is about instead"
        )
    if isinstance(error, TimeoutError):
        return Delivery(Happened.FAILED, "the mail server did not answer in time")
    return Delivery(Happened.FAILED, f"the mail server could not be reached ({type(error).__name__})")


def _answered(code: int, what: str) -> Delivery:
    return Delivery(Happened.REFUSED if code >= 500 else Happened.FAILED, f"the mail server {what} ({code})")
