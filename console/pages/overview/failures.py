"""Shows failures of the last 24 hours by fabric and cause, and lets people acknowledge a group of them."""

from __future__ import annotations

import time

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right, holders
from fabric.selectors.errors import Refused
from fabric.selectors.overview.failures import RecentFailures, recent_failures
from fabric.services.runs.acknowledgements import NOTE_CHARS_MAX, failures_acknowledge

NAMED = 50
NAME_CHARS_MAX = 200


@require_http_methods(["GET", "HEAD", "POST"])
def failures(request: HttpRequest) -> HttpResponse:
    """Show the groups, and acknowledge one (POST). ``?fabric=&cause=``: the group whose form is open.

    422: the note is refused, and the page keeps it.
    """
    actor, now = find_actor(request.user), time.time_ns() // 1_000
    if request.method != "POST":
        return _page(request, actor, recent_failures(actor, now, named=NAMED))
    given = request.POST
    note, until = given.get("note", ""), given.get("until", "")
    try:
        count = failures_acknowledge(
            actor=actor,
            fabric=given.get("fabric", "")[:NAME_CHARS_MAX],
            cause=given.get("cause", "")[:NAME_CHARS_MAX],
            until=int(until) if until.isascii() and until.isdecimal() and len(until) < 20 else 0,
            note=note,
        )
    except Refused as refusal:
        if refusal.code not in ("too_large", "not_found"):
            raise
        found, said = recent_failures(actor, now, named=NAMED), sentence(refusal.message)
        status = 422 if refusal.code == "too_large" else errors.STATUS[refusal.code]
        return _page(request, actor, found, problem=said, note=note[: 2 * NOTE_CHARS_MAX], status=status)
    messages.success(request, "Acknowledged: 1 failure." if count == 1 else f"Acknowledged: {count:,} failures.")
    return redirect("overview")


def _page(
    request: HttpRequest, actor: Actor, found: RecentFailures, *, problem: str = "", note: str = "", status: int = 200
) -> HttpResponse:
    asked = request.POST if request.method == "POST" else request.GET
    picked = (asked.get("fabric", ""), asked.get("cause", ""))
    shown = {
        "failures": found,
        "rows": [
            (one, may(actor, Right.CONTROL, one.fabric_name), (one.fabric_name, one.cause) == picked)
            for one in found.groups
        ],
        "problem": problem,
        "note": note,
        "holders": holders(Right.CONTROL),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "overview/failures.html", shown, status=status)
