"""The lever of drills: how it stands, pulling it and releasing it, each with a reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import ReasonForm, sentence
from console.views import errors
from fabric.selectors.errors import Refused
from simulator.drills.lever import lever_of, lever_pull, lever_release, may_pull
from simulator.drills.selectors import drills_open_count

COUNTED = 1_000
"""Open drills are counted so far; what is more is said to be more."""


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that a person can do to the lever."""

    name: str
    title: str
    button: str
    icon: str
    tone: str
    follows: tuple[str, ...]
    service: Callable[..., int | None]


MOVES: Mapping[str, Move] = {
    "pull": Move(
        "pull",
        "Stop all drills",
        "Stop all drills",
        "stop",
        "danger",
        (
            "Every drill of this workspace that waits or runs ends within a second, virtual and live. None of them has a verdict.",
            "No new one is begun, from a page, the API, a command or a schedule, until somebody releases the lever.",
            "Runs that are no drill's go on as they are.",
        ),
        lever_pull,
    ),
    "release": Move(
        "release",
        "Release the lever",
        "Release the lever",
        "play",
        "primary",
        (
            "Drills may be asked for again at once, and schedules ask at their next instant.",
            "What was stopped stays so: ask for it again.",
        ),
        lever_release,
    ),
}
"""By name."""


class MoveForm(ReasonForm):
    """What somebody does to the lever, and why."""

    act = forms.ChoiceField(choices=[(name, name) for name in MOVES])


@require_http_methods(["GET", "HEAD", "POST"])
def lever(request: HttpRequest) -> HttpResponse:
    """The page; a POST pulls or releases it. 422: a reason is missing; 409: it was pulled, or released, already; 403: that is for operators."""
    if request.method != "POST":
        return _page(request, MoveForm())
    form, status = MoveForm(request.POST), 422
    if form.is_valid():
        move = MOVES[form.cleaned_data["act"]]
        try:
            ended = move.service(actor=actor_of(request.user), reason=form.cleaned_data["reason"])
        except Refused as refusal:
            form.add_error("reason" if refusal.field == "reason" else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.success(request, _done(ended))
            return redirect("drills-lever")
    return _page(request, form, status)


def _done(ended: int | None) -> str:
    if ended is None:
        return "The lever is released: drills may be asked for."
    return f"The lever is pulled. {ended or 'No'} drill{'s were' if ended != 1 else ' was'} stopped, and none is begun."


def _page(request: HttpRequest, form: MoveForm, status: int = 200) -> HttpResponse:
    actor = actor_of(request.user)
    seen = lever_of(actor)
    count = drills_open_count(actor, COUNTED + 1)
    shown: dict[str, Any] = {
        "seen": seen,
        "open": f"{COUNTED:,}+" if count > COUNTED else str(count),
        "move": MOVES["release" if seen else "pull"],
        "may": may_pull(actor),
        "form": form,
        "wrong": form.is_bound and not (form["reason"].errors or form.non_field_errors()),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "drills/lever.html", shown, status=status)
