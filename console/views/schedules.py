"""Schedules of drills: what is asked for again and again, what came of it last, and making, changing, pausing and deleting them."""

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
from console.forms import sentence
from console.views import errors
from console.views.drill_marks import came_marks
from console.views.drill_words import Mark
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabrics_list
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.schedules import (
    SCHEDULES_MAX,
    ScheduleView,
    may_change,
    schedule_change,
    schedule_create,
    schedule_delete,
    schedule_get,
    schedule_pause,
    schedule_resume,
    schedules_list,
)
from simulator.drills.schedules_due import schedule_run
from simulator.drills.schedules_when import CRON_CHARS_MAX
from simulator.library.selectors import scenarios_list

NAME_MAX = 200
SCENARIO = "scenario:"
"""Before a scenario's name, where a form says what is drilled."""
FIELDS: Mapping[str, str] = {"fabric": "fabric", "cron": "cron", "cells": "what", "scenario": "what"}
"""Of a form, by what a service calls them."""


class ScheduleForm(forms.Form):
    """What is asked for, and when. ``what``: ``all``, ``stale``, or ``scenario:NAME``."""

    fabric = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Pick a fabric."})
    what = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Pick what is drilled."})
    cron = forms.CharField(
        max_length=CRON_CHARS_MAX,
        error_messages={"required": "Say when, in five fields: 0 3 * * * is each night at three."},
    )
    reason = forms.CharField(required=False, max_length=REASON_CHARS_MAX)

    @property
    def asked(self) -> dict[str, str]:
        """As services take it."""
        given = self.cleaned_data
        what = given["what"]
        scenario = what.removeprefix(SCENARIO) if what.startswith(SCENARIO) else ""
        drilled = {"cells": "all" if scenario else what, "scenario": scenario}
        return {"fabric": given["fabric"], "cron": given["cron"], "reason": given["reason"], **drilled}


class ActForm(forms.Form):
    """What is done to a schedule, as it was seen."""

    act = forms.CharField(max_length=NAME_MAX)
    version = forms.IntegerField(min_value=1, max_value=2**31 - 1)


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule as it is listed."""

    one: ScheduleView
    may: bool
    """Whether who looks may change it."""

    @property
    def came(self) -> list[tuple[Mark, int]]:
        """What its last batch came to."""
        return came_marks(self.one.came)

    @property
    def what(self) -> str:
        """What is drilled, in words."""
        one = self.one
        if one.scenario:
            return f"scenario {one.scenario}"
        return "all 24 cells" if one.cells == "all" else "stale cells"


def _pause(actor: Actor, schedule: str, version: int) -> str:
    schedule_pause(actor=actor, schedule=schedule, version=version)
    return "The schedule is paused: it asks for nothing until it is resumed."


def _resume(actor: Actor, schedule: str, version: int) -> str:
    schedule_resume(actor=actor, schedule=schedule, version=version)
    return "The schedule goes on at its next instant."


def _delete(actor: Actor, schedule: str, version: int) -> str:
    schedule_delete(actor=actor, schedule=schedule, version=version)
    return "The schedule is deleted. What it asked for stays."


def _run(actor: Actor, schedule: str, _: int) -> str:
    asked = schedule_run(actor=actor, schedule=schedule, wake=tasks.wake)
    count = len(asked.drills)
    return f"{count} drill{'s are' if count != 1 else ' is'} asked for now; the schedule keeps its next instant."


ACTS: Mapping[str, Callable[[Actor, str, int], str]] = {
    "pause": _pause,
    "resume": _resume,
    "delete": _delete,
    "run": _run,
}
"""What a button does, by its value; each gives what is said afterwards."""


@require_http_methods(["GET", "HEAD", "POST"])
def schedules(request: HttpRequest) -> HttpResponse:
    """All of them, and a form for another; a POST makes it. 422: a field cannot be taken; 409: there are too many."""
    actor = actor_of(request.user)
    if request.method != "POST":
        return _list(request, actor, ScheduleForm())
    form, status = ScheduleForm(request.POST), 422
    if form.is_valid():
        try:
            made = schedule_create(actor=actor, **form.asked)
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            messages.success(request, f"The schedule is made: {made.when}.")
            return redirect("drills-schedules")
    return _list(request, actor, form, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def schedule(request: HttpRequest, schedule_id: str) -> HttpResponse:
    """One of them, to be changed; a POST changes, pauses, resumes, runs or deletes it. 409: it changed since; 403: it is somebody else's."""
    actor = actor_of(request.user)
    seen = schedule_get(actor, schedule_id)
    if request.method != "POST":
        return _one(request, actor, seen, ScheduleForm(_given(seen)))
    act, form = ActForm(request.POST), ScheduleForm(_given(seen))
    problem, status = "The form was not whole. Nothing was changed: load the page again.", 422
    if act.is_valid():
        name, version = act.cleaned_data["act"], act.cleaned_data["version"]
        try:
            if name in ACTS:
                messages.success(request, ACTS[name](actor, seen.id, version))
                return redirect("drills-schedules")
            if name == "change":
                form, problem = ScheduleForm(request.POST), ""
                if form.is_valid():
                    schedule_change(actor=actor, schedule=seen.id, version=version, **form.asked)
                    messages.success(request, "The schedule is changed.")
                    return redirect("drills-schedules")
        except Refused as refusal:
            status = errors.STATUS[refusal.code]
            if form.is_bound and name == "change":
                status, problem = _wrong(form, refusal), ""
            else:
                problem = sentence(refusal.message)
    return _one(request, actor, seen, form, problem, status)


def _given(seen: ScheduleView) -> dict[str, str]:
    what = f"{SCENARIO}{seen.scenario}" if seen.scenario else seen.cells
    return {"fabric": seen.fabric, "what": what, "cron": seen.cron, "reason": seen.reason}


def _wrong(form: ScheduleForm, refusal: Refused) -> int:
    """Puts a refusal beside its field; the status to answer with."""
    field = FIELDS.get(refusal.field)
    form.add_error(field, sentence(refusal.message))
    return 422 if field else errors.STATUS[refusal.code]


def _list(request: HttpRequest, actor: Actor, form: ScheduleForm, status: int = 200) -> HttpResponse:
    found = schedules_list(actor)
    shown = {
        "rows": [Row(one, may_change(actor)) for one in found],
        "most": SCHEDULES_MAX,
        "full": len(found) >= SCHEDULES_MAX,
        **_offered(actor, form),
    }
    return render(request, "drills/schedules.html", shown, status=status)


def _one(
    request: HttpRequest, actor: Actor, seen: ScheduleView, form: ScheduleForm, problem: str = "", status: int = 200
) -> HttpResponse:
    row = Row(seen, may_change(actor))
    shown = {"row": row, "one": seen, "problem": problem, **_offered(actor, form)}
    return render(request, "drills/schedule.html", shown, status=status)


def _offered(actor: Actor, form: ScheduleForm) -> dict[str, Any]:
    """What a form offers."""
    return {
        "form": form,
        "fabrics": fabrics_list(actor),
        "scenarios": [(f"{SCENARIO}{one.name}", one) for one in scenarios_list(actor)],
        "now_ms": time.time_ns() // 1_000_000,
    }
