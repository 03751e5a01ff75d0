"""Notifications as rows of a page: their words, and their acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.texts.notifications import Channel, NotificationKind, NotificationState
from fabric.selectors.chat_routes import ChatRouteView
from fabric.selectors.notifications import NotificationView

STATES: Mapping[NotificationState, tuple[str, str, str]] = {
    NotificationState.WAITING: ("Waiting", "neutral", "wait"),
    NotificationState.SKIPPED: ("Not needed", "neutral", "minus"),
    NotificationState.SENT: ("Sent", "ok", "okc"),
    NotificationState.FAILED: ("Not sent", "danger", "alert"),
}
"""Word, tone and icon of each state; total over ``State``."""
KIND_WORDS: Mapping[NotificationKind, str] = {
    NotificationKind.ALERT: "Alert",
    NotificationKind.REVIEW: "Review",
    NotificationKind.REMINDER: "Reminder of a review",
    NotificationKind.ONWARD: "Last reminder of a review",
    NotificationKind.FOLLOW_UP: "Follow-up",
    NotificationKind.SECOND: "Second person wanted",
    NotificationKind.DECIDED: "Answer to a review",
    NotificationKind.EXPIRED: "Review not answered in time",
    NotificationKind.CHANGE: "Second person wanted for a change",
    NotificationKind.CHANGED: "Result of a change",
    NotificationKind.RUN_COMPLETED: "Run completed",
    NotificationKind.RUN_FAILED: "Run failed",
    NotificationKind.RUN_CANCELLED: "Run cancelled",
    NotificationKind.MENTION: "Mention in a comment",
}
"""Words of each kind of notification. Total over ``NotificationKind``."""
CHANNELS: Mapping[Channel, str] = {
    Channel.EMAIL: "e-mail",
    Channel.WEBHOOK: "webhook",
    Channel.SLACK: "Slack",
    Channel.TEAMS: "Teams",
}
"""Words of each channel; total over ``Channel``."""


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """A chat's channel as a row of the page."""

    one: ChatRouteView

    @property
    def chat(self) -> str:
        """Return the chat's name."""
        return CHANNELS[Channel(self.one.channel)]

    @property
    def hears(self) -> str:
        """Return the reviews that go there."""
        return f"Reviews of {self.one.fabric}" if self.one.fabric else "Reviews for you"


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """A notification as a row of the page."""

    one: NotificationView

    @property
    def badge(self) -> tuple[str, str, str]:
        """Return word, tone and icon; a failed one that is tried again says so."""
        if self.one.state is NotificationState.WAITING and self.one.error:
            return "Trying again", "warn", "retry"
        return STATES[self.one.state]

    @property
    def kind_words(self) -> str:
        """Return the kind of notification in words."""
        return KIND_WORDS[NotificationKind(self.one.told)]

    @property
    def channel(self) -> str:
        """Return the channel in words."""
        return CHANNELS[Channel(self.one.channel)]

    @property
    def resendable(self) -> bool:
        """Return True if sending it again has an effect: one that waits for its first attempt is sent anyway."""
        return self.one.state is NotificationState.FAILED or (
            self.one.state is NotificationState.WAITING and bool(self.one.error)
        )
