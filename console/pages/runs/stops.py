"""Shows stops of new runs: those that stand, those that stood, and the form that stops new runs."""

from __future__ import annotations

import time
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.forms.common import ReasonForm
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.stops import RUNNING, describe_end, describe_moved, describe_resumable
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.selectors.runs.stops import StopView, stops_list, stops_standing
from fabric.services.runs.stops import allow_new_runs, may_stop_starts, stop_new_runs

HOUR = 3_600
ENDS: tuple[tuple[str, str], ...] = (
    ("", "a member allows new runs"),
    (str(HOUR // 2), "30 minutes from now"),
    (str(HOUR), "1 hour from now"),
    (str(2 * HOUR), "2 hours from now"),
    (str(8 * HOUR), "8 hours from now"),
    (str(24 * HOUR), "24 hours from now"),
)
"""Given ends of a stop in seconds, with their words; empty: none."""


class StopForm(ReasonForm):
    """Form that stops new runs."""

    fabric = forms.CharField(max_length=63, required=False)
    running = forms.ChoiceField(choices=[(one.value, one.label) for one in RUNNING])
    until = forms.ChoiceField(choices=ENDS, required=False)


class AllowForm(forms.Form):
    """Form that lifts a stop, or resumes the runs that it paused."""

    resume = forms.BooleanField(required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def stops(request: HttpRequest) -> HttpResponse:
    """Show the stops and the form; POST stops new runs.

    403: only for operators. 409: they are stopped already. 422: the reason is missing.
    """
    actor = find_actor(request.user)
    if request.method != "POST":
        named = request.GET.get("fabric", "")
        return _page(request, actor, StopForm(initial={"fabric": named, "running": RUNNING[0].value}))
    form, status = StopForm(request.POST), 422
    if form.is_valid():
        asked = form.cleaned_data
        until = int(asked["until"]) if asked["until"] else None
        given = {"fabric": asked["fabric"], "reason": asked["reason"], "running": asked["running"], "for_s": until}
        try:
            made = stop_new_runs(actor=actor, **given)
        except Refused as refusal:
            form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            messages.success(request, f"{sentence(made.what.capitalize() + ' are stopped')} {describe_moved(made)}")
            return redirect("run-stops")
    return _page(request, actor, form, status)


@require_POST
def allow(request: HttpRequest, stop_id: str) -> HttpResponse:
    """Allow new runs again.

    403: only for operators. 404: there is no such stop. 409: it has ended already.
    """
    actor, form = find_actor(request.user), AllowForm(request.POST)
    resume = form.is_valid() and form.cleaned_data["resume"]
    try:
        lifted = allow_new_runs(actor=actor, stop_id=stop_id, resume=resume)
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return _page(request, actor, StopForm(initial={"running": RUNNING[0].value}), 409, sentence(refusal.message))
    goes_on = " The runs that it paused are being resumed." if resume else ""
    messages.success(request, f"{sentence(lifted.what.capitalize() + ' are allowed again')}{goes_on}")
    return redirect("run-stops")


def _page(request: HttpRequest, actor: Actor, form: StopForm, status: int = 200, problem: str = "") -> HttpResponse:
    listed = stops_list(actor)
    standing = {one.id for one in stops_standing(actor)}
    fabrics = [one for one in fabrics_list(actor) if may_stop_starts(actor, one.name)]
    shown: dict[str, Any] = {
        "standing": [_row(actor, one) for one in listed if one.id in standing],
        "over": [_row(actor, one) for one in listed if one.id not in standing],
        "form": form,
        "problem": problem,
        "fabrics": fabrics,
        "may": may_stop_starts(actor) or bool(fabrics),
        "may_all": may_stop_starts(actor),
        "choices": RUNNING,
        "ends": ENDS,
        "incomplete": form.is_bound and not (form["reason"].errors or form.non_field_errors()) and not form.is_valid(),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "runs/stops/page.html", shown, status=status)


def _row(actor: Actor, one: StopView) -> dict[str, Any]:
    return {
        "stop": one,
        "what": f"{one.what[0].upper()}{one.what[1:]}",
        "running": next(choice for choice in RUNNING if choice.value == one.running),
        "moved": describe_moved(one),
        "end": describe_end(one),
        "resumable": describe_resumable(one),
        "may": may_stop_starts(actor, one.fabric),
        "address": reverse("run-stop-allow", args=[one.id]),
    }
