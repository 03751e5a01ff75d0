"""Manages schedules of drills: lists them with their last result, makes, changes, pauses and deletes them."""

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

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.drills import DrillMark, came_marks
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.library.selectors import scenarios_list
from simulator.drills.schedules.crontab import CRON_CHARS_MAX
from simulator.drills.schedules.services import (
    SCHEDULES_MAX,
    ScheduleView,
    may_change,
    schedule_change,
    schedule_create,
    schedule_delete,
    schedule_get,
    schedule_pause,
    schedule_resume,
    schedule_run,
    schedules_list,
)

NAME_MAX = 200
SCENARIO = "scenario:"
"""Prefix of a scenario's name in the form's field ``what``."""
FIELDS: Mapping[str, str] = {"fabric": "fabric", "cron": "cron", "cells": "what", "scenario": "what"}
"""Field of the form, by the name that the services use."""


class ScheduleForm(forms.Form):
    """Form of a schedule. ``what``: ``all``, ``stale``, or ``scenario:NAME``."""

    fabric = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Pick a fabric."})
    what = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Pick what is drilled."})
    cron = forms.CharField(
        max_length=CRON_CHARS_MAX,
        error_messages={"required": "Say when, in five fields: 0 3 * * * is each night at three."},
    )
    reason = forms.CharField(required=False, max_length=REASON_CHARS_MAX)

    @property
    def service_values(self) -> dict[str, str]:
        """Return the values under the names that the services use."""
        given = self.cleaned_data
        what = given["what"]
        scenario = what.removeprefix(SCENARIO) if what.startswith(SCENARIO) else ""
        drilled = {"cells": "all" if scenario else what, "scenario": scenario}
        return {"fabric": given["fabric"], "cron": given["cron"], "reason": given["reason"], **drilled}


class ActForm(forms.Form):
    """Form that acts on a schedule. It carries the version that the page showed."""

    act = forms.CharField(max_length=NAME_MAX)
    version = forms.IntegerField(min_value=1, max_value=2**31 - 1)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as a row of the list."""

    one: ScheduleView
    may: bool
    """True if the viewer may change it."""

    @property
    def came(self) -> list[tuple[DrillMark, int]]:
        """Return a badge and a count for each verdict of the last batch."""
        return came_marks(self.one.came)

    @property
    def what(self) -> str:
        """Return the drilled cells or scenario in words."""
        one = self.one
        if one.scenario:
            return f"scenario {one.scenario}"
        return "all 24 cells" if one.cells == "all" else "stale cells"


def _pause(actor: Actor, schedule: str, version: int) -> str:
    schedule_pause(actor=actor, schedule=schedule, version=version)
    return "The schedule is paused. It starts nothing until it is resumed."


def _resume(actor: Actor, schedule: str, version: int) -> str:
    schedule_resume(actor=actor, schedule=schedule, version=version)
    return "The schedule resumes at its next time."


def _delete(actor: Actor, schedule: str, version: int) -> str:
    schedule_delete(actor=actor, schedule=schedule, version=version)
    return "The schedule is deleted. Its drills stay."


def _run(actor: Actor, schedule: str, _: int) -> str:
    asked = schedule_run(actor=actor, schedule=schedule, wake=tasks.wake)
    count = len(asked.drills)
    return f"{count} drill{'s are' if count != 1 else ' is'} started now; the schedule keeps its next time."


ACTS: Mapping[str, Callable[[Actor, str, int], str]] = {
    "pause": _pause,
    "resume": _resume,
    "delete": _delete,
    "run": _run,
}
"""Function of each button, by the button's value. It returns the message to show afterwards."""


@require_http_methods(["GET", "HEAD", "POST"])
def schedules(request: HttpRequest) -> HttpResponse:
    """List the schedules; POST makes one. 409: too many exist. 422: an invalid field."""
    actor = find_actor(request.user)
    if request.method != "POST":
        return _list(request, actor, ScheduleForm())
    form, status = ScheduleForm(request.POST), 422
    if form.is_valid():
        try:
            made = schedule_create(actor=actor, **form.service_values)
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            messages.success(request, f"The schedule is made: {made.when}.")
            return redirect("drills-schedules")
    return _list(request, actor, form, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """Show one schedule; POST changes, pauses, resumes, runs or deletes it.

    403: another person owns it. 409: it changed since the page was shown.
    """
    actor = find_actor(request.user)
    seen = schedule_get(actor, schedule_id)
    if request.method != "POST":
        return _one(request, actor, seen, ScheduleForm(_given_values(seen)))
    act, form = ActForm(request.POST), ScheduleForm(_given_values(seen))
    problem, status = "The form was incomplete. Nothing was changed: load the page again.", 422
    if act.is_valid():
        name, version = act.cleaned_data["act"], act.cleaned_data["version"]
        try:
            if name in ACTS:
                messages.success(request, ACTS[name](actor, seen.id, version))
                return redirect("drills-schedules")
            if name == "change":
                form, problem = ScheduleForm(request.POST), ""
                if form.is_valid():
                    schedule_change(actor=actor, schedule=seen.id, version=version, **form.service_values)
                    messages.success(request, "The schedule is changed.")
                    return redirect("drills-schedules")
        except Refused as refusal:
            status = errors.STATUS[refusal.code]
            if form.is_bound and name == "change":
                status, problem = _wrong(form, refusal), ""
            else:
                problem = sentence(refusal.message)
    return _one(request, actor, seen, form, problem, status)


def _given_values(seen: ScheduleView) -> dict[str, str]:
    what = f"{SCENARIO}{seen.scenario}" if seen.scenario else seen.cells
    return {"fabric": seen.fabric, "what": what, "cron": seen.cron, "reason": seen.reason}


def _wrong(form: ScheduleForm, refusal: Refused) -> int:
    """Put a refusal beside its field, and return the HTTP status."""
    field = FIELDS.get(refusal.field)
    form.add_error(field, sentence(refusal.message))
    return 422 if field else errors.STATUS[refusal.code]


def _list(request: HttpRequest, actor: Actor, form: ScheduleForm, status: int = 200) -> HttpResponse:
    found = schedules_list(actor)
    shown = {
        "rows": [ScheduleRow(one, may_change(actor)) for one in found],
        "most": SCHEDULES_MAX,
        "full": len(found) >= SCHEDULES_MAX,
        **_form_choices(actor, form),
    }
    return render(request, "drills/schedules/list.html", shown, status=status)


def _one(
    request: HttpRequest, actor: Actor, seen: ScheduleView, form: ScheduleForm, problem: str = "", status: int = 200
) -> HttpResponse:
    row = ScheduleRow(seen, may_change(actor))
    shown = {"row": row, "one": seen, "problem": problem, **_form_choices(actor, form)}
    return render(request, "drills/schedules/one.html", shown, status=status)


def _form_choices(actor: Actor, form: ScheduleForm) -> dict[str, Any]:
    """Return the choices of the form."""
    return {
        "form": form,
        "fabrics": fabrics_list(actor),
        "scenarios": [(f"{SCENARIO}{one.name}", one) for one in scenarios_list(actor)],
        "now_ms": time.time_ns() // 1_000_000,
    }
