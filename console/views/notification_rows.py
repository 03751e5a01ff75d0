"""Notifications as rows of a page: their words, and what can be done with each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.notifications import Channel, State, Told
from fabric.selectors.notifications import NotificationView

STATES: Mapping[State, tuple[str, str, str]] = {
    State.WAITING: ("Waiting", "neutral", "wait"),
    State.SKIPPED: ("Not needed", "neutral", "minus"),
    State.SENT: ("Sent", "ok", "okc"),
    State.FAILED: ("Not told", "danger", "alert"),
}
"""Word, tone and icon of each; total over ``State``."""
TOLD: Mapping[Told, str] = {
    Told.ALERT: "Alert",
    Told.QUESTION: "Question",
    Told.REMINDER: "Reminder of a question",
    Told.ONWARD: "Last reminder of a question",
    Told.TICKET: "Ticket",
    Told.SECOND: "Second person wanted",
    Told.DECIDED: "Answer to a question",
    Told.EXPIRED: "Question not answered in time",
    Told.CHANGE: "Second person wanted for a change",
    Told.CHANGED: "What became of a change",
}
"""Total over ``Told``."""
CHANNELS: Mapping[Channel, str] = {Channel.EMAIL: "e-mail", Channel.WEBHOOK: "webhook"}
"""Total over ``Channel``."""


@dataclass(frozen=True, slots=True)
class Row:
    """A notification as it is shown."""

    one: NotificationView

    @property
    def badge(self) -> tuple[str, str, str]:
        """Word, tone and icon; one that failed and is tried again says so."""
        if self.one.state is State.WAITING and self.one.error:
            return "Trying again", "warn", "retry"
        return STATES[self.one.state]

    @property
    def told(self) -> str:
        """What is told."""
        return TOLD[Told(self.one.told)]

    @property
    def channel(self) -> str:
        """How."""
        return CHANNELS[Channel(self.one.channel)]

    @property
    def resendable(self) -> bool:
        """Whether sending it again changes anything: one that has not been tried yet is sent as it is."""
        return self.one.state is State.FAILED or (self.one.state is State.WAITING and bool(self.one.error))
