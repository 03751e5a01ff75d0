"""What was told outside the console: to whom, what became of each, and sending again what failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.overview_words import Headline
from fabric import outbox
from fabric.core.notifications import Channel, State, Target, Told
from fabric.selectors.errors import Refused
from fabric.selectors.notifications import NotificationView, mail_of, notifications_count, notifications_list
from fabric.services.notification_members import EMAIL_CHARS_MAX, notification_preference_set
from fabric.services.notification_sending import may_resend, notification_resend

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
}
"""Total over ``Told``."""
CHANNELS: Mapping[Channel, str] = {Channel.EMAIL: "e-mail", Channel.WEBHOOK: "webhook"}
"""Total over ``Channel``."""
REACHED: Mapping[Channel, tuple[str, str]] = {
    Channel.EMAIL: ("mailbox", "mailboxes"),
    Channel.WEBHOOK: ("webhook", "webhooks"),
}
"""What one target is, and several are; total over ``Channel``."""


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


@dataclass(frozen=True, slots=True)
class Chip:
    """A choice of the list."""

    word: str
    count: int
    address: str
    current: bool


def headline(targets: tuple[Target, ...], counts: Mapping[State, int]) -> Headline:
    """The page's answer."""
    by = Counter(one.channel for one in targets)
    to = [f"{by[channel]:,} {words[by[channel] != 1]}" for channel, words in REACHED.items() if by[channel]]
    lede = f"Alerts and questions go to {' and '.join(to)}." if to else "No address is configured."
    failed, waiting = counts[State.FAILED], counts[State.WAITING]
    if failed:
        those = "One notification" if failed == 1 else f"{failed:,} notifications"
        return Headline(f"{those} could not be sent", lede, "danger")
    if not targets:
        return Headline("Nobody is told outside the console", lede, "neutral")
    if waiting:
        those = "One notification waits" if waiting == 1 else f"{waiting:,} notifications wait"
        return Headline(f"{those} to be sent", lede, "neutral")
    said = "Everything was told" if counts[State.SENT] else "Nothing had to be told yet"
    return Headline(said, lede, "ok")


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """The newest, all or those of one state."""
    return _page(request)


@require_POST
def resend(request: HttpRequest, notification_id: str) -> HttpResponse:
    """Has one sent again. 403: that is for operators; 409: it was sent meanwhile, or is not needed."""
    actor = actor_of(request.user)
    try:
        notification_resend(actor=actor, notification_id=notification_id)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        return _page(request, sentence(refusal.message), errors.STATUS[refusal.code])
    messages.success(request, "It is sent again as soon as a worker looks, within seconds.")
    return redirect("notifications")


@require_POST
def mine(request: HttpRequest) -> HttpResponse:
    """What whoever is signed in wants to be told by e-mail, and where. 422: that is no address; what was written is kept."""
    actor, questions = actor_of(request.user), request.POST.get("questions") == "on"
    email = request.POST.get("email", "")[:EMAIL_CHARS_MAX]
    try:
        notification_preference_set(actor=actor, questions=questions, email=email)
    except Refused as refusal:
        if refusal.code != "invalid":
            raise
        return _page(request, wrong=(sentence(refusal.message), email, questions), status=errors.STATUS["invalid"])
    where = (
        f"Questions that ask you are mailed to {email.strip()}." if questions and email.strip() else "You get no mail."
    )
    messages.success(request, where)
    return redirect("notifications")


def _page(
    request: HttpRequest, problem: str = "", status: int = 200, *, wrong: tuple[str, str, bool] | None = None
) -> HttpResponse:
    actor = actor_of(request.user)
    asked = request.GET.get("state", "")
    state = State(asked) if asked in set(State) else None
    counts, targets = notifications_count(actor), outbox.targets()
    found, more = notifications_list(actor, state)
    address = reverse("notifications")
    chips = [
        Chip("All", sum(counts.values()), address, state is None),
        *(Chip(STATES[one][0], counts[one], f"{address}?state={one}", state is one) for one in reversed(State)),
    ]
    shown = {
        "rows": [Row(one) for one in found],
        "more": more,
        "headline": headline(targets, counts),
        "chips": chips,
        "targets": targets,
        "may": may_resend(actor),
        "mine": mail_of(actor),
        "mails": outbox.mails(),
        "wrong": wrong,
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "notifications/list.html", shown, status=status)
