"""What was told outside the console: to whom, what became of each, and sending again what failed."""

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

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.fabric_versions import change_page
from console.views.notification_rows import STATES, Row
from console.views.overview_words import Headline
from console.views.questions import card
from console.views.review_page import shown
from fabric import outbox
from fabric.core.notifications import MEMBERS_TOLD, Channel, State, Target, Told
from fabric.selectors.change_requests import change_request_get
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalation_get
from fabric.selectors.notifications import mail_of, members_mailed, notifications_count, notifications_list
from fabric.services.notification_members import EMAIL_CHARS_MAX, notification_preference_set
from fabric.services.notification_sending import may_resend, notification_resend

REACHED: Mapping[Channel, tuple[str, str]] = {
    Channel.EMAIL: ("mailbox", "mailboxes"),
    Channel.WEBHOOK: ("webhook", "webhooks"),
}
"""What one target is, and several are; total over ``Channel``."""


MAILS: Mapping[Told, str] = {
    Told.QUESTION: "questions that ask me",
    Told.REMINDER: "when half of their time has passed",
    Told.ONWARD: "when they are passed on",
    Told.TICKET: "tickets: a run has ended, and somebody is to look at why",
    Told.CHANGE: "changes of fabrics that wait for somebody to agree",
    Told.CHANGED: "what became of changes that I asked for",
}
"""What somebody may want to be mailed; total over ``MEMBERS_TOLD``."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What somebody wrote about their mail that cannot be taken."""

    said: str
    field: str
    email: str
    wants: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chip:
    """A choice of the list."""

    word: str
    count: int
    address: str
    current: bool


def headline(targets: tuple[Target, ...], counts: Mapping[State, int], members: int) -> Headline:
    """The page's answer. ``members``: how many are mailed what asks them."""
    by = Counter(one.channel for one in targets)
    to = [f"{by[channel]:,} {words[by[channel] != 1]}" for channel, words in REACHED.items() if by[channel]]
    said = [f"Alerts and questions go to {' and '.join(to)}."] if to else []
    if members:
        said.append(f"{members:,} member{' is' if members == 1 else 's are'} mailed what asks them.")
    lede = " ".join(said) or "No address is configured."
    failed, waiting = counts[State.FAILED], counts[State.WAITING]
    if failed:
        those = "One notification" if failed == 1 else f"{failed:,} notifications"
        return Headline(f"{those} could not be sent", lede, "danger")
    if not targets and not members:
        return Headline("Nobody is told outside the console", lede, "neutral")
    if waiting:
        those = "One notification waits" if waiting == 1 else f"{waiting:,} notifications wait"
        return Headline(f"{those} to be sent", lede, "neutral")
    return Headline("Everything was told" if counts[State.SENT] else "Nothing had to be told yet", lede, "ok")


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """The newest, all or those of one state."""
    return _page(request)


@require_POST
def resend(request: HttpRequest, notification_id: str) -> HttpResponse:
    """Has one sent again; ``question`` or ``change``: whose page it was asked on. 403: that is for operators; 409: it was sent meanwhile, or is not needed."""
    actor = actor_of(request.user)
    asked, of = request.POST.get("question", ""), request.POST.get("change", "")
    item = escalation_get(actor, asked) if asked else None
    change = change_request_get(actor, of) if of else None
    try:
        notification_resend(actor=actor, notification_id=notification_id)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        said, status = sentence(refusal.message), errors.STATUS[refusal.code]
        if change:
            return change_page(request, actor, change, (said,), status)
        return shown(request, actor, card(actor, item, refusal=said), status) if item else _page(request, said, status)
    messages.success(request, "It is sent again as soon as a worker looks, within seconds.")
    if change:
        return redirect("fabric-request", name=change.name, change_id=change.id)
    return redirect("review", item.id) if item else redirect("notifications")


@require_POST
def mine(request: HttpRequest) -> HttpResponse:
    """What whoever is signed in wants to be told by e-mail, and where. 422: that is no address; what was written is kept."""
    actor, wants = actor_of(request.user), request.POST.getlist("wants")[: len(MEMBERS_TOLD) + 1]
    email = request.POST.get("email", "")[:EMAIL_CHARS_MAX]
    try:
        notification_preference_set(actor=actor, wants=wants, email=email)
    except Refused as refusal:
        if refusal.code != "invalid":
            raise
        return _page(
            request,
            wrong=Wrong(sentence(refusal.message), refusal.field, email, wants),
            status=errors.STATUS["invalid"],
        )
    mailed = wants and email.strip()
    messages.success(request, f"What you ticked is mailed to {email.strip()}." if mailed else "You get no mail.")
    return redirect("notifications")


def _page(request: HttpRequest, problem: str = "", status: int = 200, *, wrong: Wrong | None = None) -> HttpResponse:
    actor = actor_of(request.user)
    asked = request.GET.get("state", "")
    state = State(asked) if asked in set(State) else None
    counts, targets, mail = notifications_count(actor), outbox.targets(), mail_of(actor)
    found, more = notifications_list(actor, state)
    address = reverse("notifications")
    chips = [
        Chip("All", sum(counts.values()), address, state is None),
        *(Chip(STATES[one][0], counts[one], f"{address}?state={one}", state is one) for one in reversed(State)),
    ]
    shown = {
        "rows": [Row(one) for one in found],
        "more": more,
        "headline": headline(targets, counts, members_mailed(actor) if outbox.mails() else 0),
        "chips": chips,
        "targets": targets,
        "may": may_resend(actor),
        "mine": mail,
        "wants": [(one, MAILS[one], one in (wrong.wants if wrong else mail.wants)) for one in MEMBERS_TOLD]
        if mail
        else [],
        "mails": outbox.mails(),
        "wrong": wrong,
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "notifications/list.html", shown, status=status)
