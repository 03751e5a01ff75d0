"""Shows the drill stop. Pulling and releasing it need a reason."""

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

from console.forms.common import ReasonForm
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.selectors.errors import Refused
from simulator.drills.selectors.drills import drills_open_count
from simulator.drills.services.drill_stop import find_drill_stop, may_pull, pull_drill_stop, release_drill_stop

COUNTED = 1_000
"""Largest number of open drills that is counted; a larger one is shown as more."""


@dataclass(frozen=True, slots=True)
class DrillStopMove:
    """An act on the drill stop."""

    name: str
    title: str
    button: str
    icon: str
    tone: str
    follows: tuple[str, ...]
    service: Callable[..., int | None]


MOVES: Mapping[str, DrillStopMove] = {
    "pull": DrillStopMove(
        "pull",
        "Stop all drills",
        "Stop all drills",
        "stop",
        "danger",
        (
            "Every drill of this workspace that waits or runs ends within a second, simulated and live, without a verdict.",
            "No drill starts from a page, the API, a command or a schedule until drills are allowed again.",
            "Normal runs are not affected.",
        ),
        pull_drill_stop,
    ),
    "release": DrillStopMove(
        "release",
        "Allow drills",
        "Allow drills",
        "play",
        "primary",
        (
            "Drills can start again at once. Schedules start theirs at their next time.",
            "Stopped drills stay stopped: start them again.",
        ),
        release_drill_stop,
    ),
}
"""Acts by name."""


class MoveForm(ReasonForm):
    """Form that pulls or resets the drill stop, with a reason."""

    act = forms.ChoiceField(choices=[(name, name) for name in MOVES])


@require_http_methods(["GET", "HEAD", "POST"])
def drill_stop_page(request: HttpRequest) -> HttpResponse:
    """Show the drill stop; POST pulls or releases it.

    403: only for operators. 409: it is in that state already. 422: the reason is missing.
    """
    if request.method != "POST":
        return _page(request, MoveForm())
    form, status = MoveForm(request.POST), 422
    if form.is_valid():
        move = MOVES[form.cleaned_data["act"]]
        try:
            ended = move.service(actor=find_actor(request.user), reason=form.cleaned_data["reason"])
        except Refused as refusal:
            form.add_error("reason" if refusal.field == "reason" else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.success(request, _ended_words(ended))
            return redirect("drill-stop")
    return _page(request, form, status)


def _ended_words(ended: int | None) -> str:
    if ended is None:
        return "Drills are allowed again."
    return f"Drills are stopped. {ended or 'No'} drill{'' if ended == 1 else 's'} ended, and no new drill can start."


def _page(request: HttpRequest, form: MoveForm, status: int = 200) -> HttpResponse:
    actor = find_actor(request.user)
    seen = find_drill_stop(actor)
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
    return render(request, "drills/drill_stop.html", shown, status=status)
