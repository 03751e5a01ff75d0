"""Shows one person's inbox: what waits for them, comments that mention them, and reviews handed to them."""

from __future__ import annotations

import time

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from console.site.access.actors import find_actor
from console.templatetags.marks import ITEMS
from fabric.selectors.drafts.change_requests import changes_to_approve
from fabric.selectors.reviews.inbox import InboxEntry, read_inbox
from fabric.services.reviews.inbox import inbox_mark_seen

AT_CHARS_MAX = 19


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Show the inbox. It writes nothing: the button, or the page's script, marks it as seen."""
    now = time.time_ns() // 1_000
    actor = find_actor(request.user)
    found, changes = read_inbox(actor), changes_to_approve(actor)
    parts = (
        ("waiting", "Waits for you", found.waiting),
        ("mentions", "Mentions you", found.mentions),
        ("assigned", "Handed to you", found.assigned),
    )
    shown = {
        "inbox": found,
        "changes": changes,
        "empty": found.empty and not changes,
        "parts": [(name, title, [(one, _why(one)) for one in rows]) for name, title, rows in parts if rows],
        "now": now,
        "now_ms": now // 1_000,
    }
    return render(request, "reviews/inbox/page.html", shown)


def _why(one: InboxEntry) -> str:
    """Return why a review is in the inbox, as the beginning of a sentence."""
    if one.comment is not None:
        return f"{one.by} mentioned you"
    if one.by:
        return f"{one.by} handed it to {f'the role {one.role}' if one.role else 'you'}"
    return ITEMS.get(one.review.item, one.review.item)


@require_POST
def seen(request: HttpRequest) -> HttpResponse:
    """Mark the inbox as seen, as it was at ``at``. A page that was opened before keeps newer entries new."""
    given = request.POST.get("at", "")[:AT_CHARS_MAX]
    at = int(given) if given.isascii() and given.isdecimal() else time.time_ns() // 1_000
    inbox_mark_seen(actor=find_actor(request.user), at=at)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    return redirect("reviews-inbox")
