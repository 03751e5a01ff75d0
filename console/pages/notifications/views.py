"""Lists notifications sent outside the console: recipients and results. Failed ones can be sent again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.pages.drafts.versions import change_page
from console.pages.reviews.page import show_review
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.headlines import Headline
from console.words.notifications import CHANNELS, STATES, ChannelRow, NotificationRow
from console.words.reviews import card
from fabric.composition import outbox
from fabric.core.texts.notifications import CHATS, MEMBER_KINDS, Channel, NotificationKind, NotificationState, Target
from fabric.selectors.chat_routes import list_chat_routes
from fabric.selectors.drafts.change_requests import change_request_get
from fabric.selectors.errors import Refused
from fabric.selectors.notifications import find_mail, members_mailed, notifications_count, notifications_list
from fabric.selectors.reviews.lookup import get_review
from fabric.services.notifications.delivery import may_resend, notification_resend
from fabric.services.notifications.member_mail import EMAIL_CHARS_MAX, notification_preference_set

REACHED: Mapping[Channel, tuple[str, str]] = {
    Channel.EMAIL: ("mailbox", "mailboxes"),
    Channel.WEBHOOK: ("webhook", "webhooks"),
    Channel.SLACK: ("Slack channel", "Slack channels"),
    Channel.TEAMS: ("Teams channel", "Teams channels"),
}
"""Singular and plural of a channel's targets; total over ``Channel``."""


MAILS: Mapping[NotificationKind, str] = {
    NotificationKind.REVIEW: "reviews for me",
    NotificationKind.REMINDER: "reminders at half of the time",
    NotificationKind.ONWARD: "when they are escalated",
    NotificationKind.FOLLOW_UP: "follow-ups on failed runs",
    NotificationKind.CHANGE: "changes that wait for approval",
    NotificationKind.CHANGED: "when my change was decided",
    NotificationKind.MENTION: "comments that mention me",
}
"""Notifications that a member may receive by mail, in words; total over ``MEMBER_KINDS``."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """Invalid mail settings, with the texts that were typed."""

    said: str
    field: str
    email: str
    wants: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelForm:
    """The form of a chat's channel. The address is not shown again: it is a secret."""

    channel: str = Channel.SLACK
    fabric: str = ""
    said: str = ""
    """Reason of its refusal; empty: it is fresh."""
    field: str = ""


@dataclass(frozen=True, slots=True)
class StateChip:
    """A choice of the list."""

    word: str
    count: int
    address: str
    current: bool


def headline(targets: tuple[Target, ...], counts: Mapping[NotificationState, int], members: int) -> Headline:
    """Return the page's headline. ``members``: number of members who get their reviews by mail."""
    by = Counter(one.channel for one in targets)
    to = [f"{by[channel]:,} {words[by[channel] != 1]}" for channel, words in REACHED.items() if by[channel]]
    said = [f"Alerts and reviews go to {' and '.join(to)}."] if to else []
    if members:
        said.append(f"{members:,} member{' is' if members == 1 else 's are'} mailed about their reviews.")
    lede = " ".join(said) or "No address is configured."
    failed, waiting = counts[NotificationState.FAILED], counts[NotificationState.WAITING]
    if failed:
        those = "One notification" if failed == 1 else f"{failed:,} notifications"
        return Headline(f"{those} could not be sent", lede, "danger")
    if not targets and not members:
        return Headline("Notifications are off; messages appear only here", lede, "neutral")
    if waiting:
        those = "One notification waits" if waiting == 1 else f"{waiting:,} notifications wait"
        return Headline(f"{those} to be sent", lede, "neutral")
    return Headline(
        "All notifications were sent" if counts[NotificationState.SENT] else "No notifications yet", lede, "ok"
    )


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the newest notifications, all or those of one state."""
    return show_notifications(request)


@require_POST
def resend(request: HttpRequest, notification_id: str) -> HttpResponse:
    """Send a notification again. ``review`` or ``change``: the page that sent the request.

    403: only for operators. 409: it was sent meanwhile, or is not needed.
    """
    actor = find_actor(request.user)
    asked, of = request.POST.get("review", ""), request.POST.get("change", "")
    item = get_review(actor, asked) if asked else None
    change = change_request_get(actor, of) if of else None
    try:
        notification_resend(actor=actor, notification_id=notification_id)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        said, status = sentence(refusal.message), errors.STATUS[refusal.code]
        if change:
            return change_page(request, actor, change, (said,), status)
        return (
            show_review(request, actor, card(actor, item, refusal=said), status)
            if item
            else show_notifications(request, said, status)
        )
    messages.success(request, "It is sent again as soon as a worker looks, within seconds.")
    if change:
        return redirect("fabric-request", name=change.name, change_id=change.id)
    return redirect("review", item.id) if item else redirect("notifications")


@require_POST
def mine(request: HttpRequest) -> HttpResponse:
    """Save the viewer's mail address and the notifications they want. 422: invalid address; the page keeps the
    input.
    """
    actor, wants = find_actor(request.user), request.POST.getlist("wants")[: len(MEMBER_KINDS) + 1]
    email = request.POST.get("email", "")[:EMAIL_CHARS_MAX]
    try:
        notification_preference_set(actor=actor, wants=wants, email=email)
    except Refused as refusal:
        if refusal.code != "invalid":
            raise
        return show_notifications(
            request,
            wrong=Wrong(sentence(refusal.message), refusal.field, email, wants),
            status=errors.STATUS["invalid"],
        )
    mailed = wants and email.strip()
    messages.success(request, f"Saved: mail goes to {email.strip()}." if mailed else "You get no mail.")
    return redirect("notifications")


def show_notifications(
    request: HttpRequest,
    problem: str = "",
    status: int = 200,
    *,
    wrong: Wrong | None = None,
    channel: ChannelForm | None = None,
) -> HttpResponse:
    """Show the page. ``wrong``, ``channel``: a refused form with its texts."""
    actor = find_actor(request.user)
    asked = request.GET.get("state", "")
    state = NotificationState(asked) if asked in set(NotificationState) else None
    counts, targets, mail = notifications_count(actor), outbox.targets(), find_mail(actor)
    found, more = notifications_list(actor, state)
    address = reverse("notifications")
    chips = [
        StateChip("All", sum(counts.values()), address, state is None),
        *(
            StateChip(STATES[one][0], counts[one], f"{address}?state={one}", state is one)
            for one in reversed(NotificationState)
        ),
    ]
    shown = {
        "rows": [NotificationRow(one) for one in found],
        "more": more,
        "headline": headline(targets, counts, members_mailed(actor) if outbox.mails() else 0),
        "chips": chips,
        "targets": targets,
        "may": may_resend(actor),
        "mine": mail,
        "wants": [(one, MAILS[one], one in (wrong.wants if wrong else mail.wants)) for one in MEMBER_KINDS]
        if mail
        else [],
        "mails": outbox.mails(),
        "wrong": wrong,
        "channel_form": channel or ChannelForm(),
        "channels": [ChannelRow(one) for one in list_chat_routes(actor)],
        "chats": [(one.value, CHANNELS[one]) for one in sorted(CHATS)],
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "notifications/list.html", shown, status=status)
