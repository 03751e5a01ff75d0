"""Scenarios of one's own: written, imported, changed, copied, deleted, and taken away as a file."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.scenario_page import said_on_page
from console.views.scenario_words import address
from fabric.selectors.errors import Refused
from simulator.library.selectors import ScenarioView, scenario_get
from simulator.library.services import (
    NAME_MAX,
    may_change,
    scenario_change,
    scenario_delete,
    scenario_duplicate,
    scenario_import,
)
from simulator.scenarios.catalogue import FAULTS, PORTS
from simulator.scenarios.chaostoolkit import experiment_of
from simulator.scenarios.probes import PROBES
from simulator.scenarios.toml_reading import BYTES_MAX

JSON = Any
DAMAGED = "The form was not whole, and nothing was done: load the page again."
BEGIN = """\
name = "my-scenario"
title = "What goes wrong"
description = "What is made to happen, and what should hold."
failure = "provider_failure"

[[disturbance]]
fault = "unavailable"
role = "finalizer"
times = 2

[steady_state]
title = "The run is answered, and no promise is broken"

[[steady_state.probes]]
probe = "state"
tolerance = "completed"

[abort]
virtual_s = 400_000.0
"""
"""What a new one begins with: a scenario that can be played."""


class SourceForm(forms.Form):
    """A scenario as text, or as a file."""

    source = forms.CharField(required=False, strip=False, max_length=BYTES_MAX)
    file = forms.FileField(required=False, widget=forms.FileInput)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)

    def clean(self) -> dict[str, Any]:
        """The text: the file's where there is one."""
        cleaned = super().clean() or {}
        cleaned["origin"] = ""
        if (file := cleaned.get("file")) is not None:
            if file.size > BYTES_MAX:
                self.add_error("file", f"{file.name} has {file.size:,} bytes; at most {BYTES_MAX:,} are taken.")
                return cleaned
            try:
                cleaned["source"], cleaned["origin"] = file.read().decode("utf-8-sig"), file.name or ""
            except UnicodeDecodeError:
                self.add_error("file", f"{file.name} is no UTF-8 text: save it as UTF-8.")
                return cleaned
        if not cleaned.get("source", "").strip() and "source" not in self.errors:
            self.add_error("source", "There is nothing here: write a scenario, paste one, or pick a file.")
        return cleaned


class CopyForm(forms.Form):
    """The name of a copy."""

    to = forms.CharField(
        max_length=NAME_MAX,
        error_messages={
            "required": "the copy has no name: give it one",
            "max_length": f"a name has at most {NAME_MAX} characters: give a shorter one",
        },
    )


class DeleteForm(forms.Form):
    """Which version is deleted."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Writing one, or importing it: TOML, or an experiment of chaostoolkit. 409: its name is taken; 422: with every mistake, and what was written."""
    if request.method != "POST":
        return _editor(request, None, BEGIN)
    actor, form = actor_of(request.user), SourceForm(request.POST, request.FILES)
    text = form.data.get("source", "")
    if not form.is_valid():
        return _editor(request, None, text, [str(one) for problems in form.errors.values() for one in problems], 422)
    given = form.cleaned_data
    try:
        found = scenario_import(actor=actor, text=given["source"], origin=given["origin"])
    except Refused as refusal:
        return _editor(request, None, given["source"], list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{found.view.name} is in the library.")
    for one in found.left_out:
        messages.warning(request, _told(one))
    return redirect(address(found.view.name))


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Changing one of the workspace's own. 403: it is somebody else's; 409: it is shipped, or somebody has changed it; 422: with every mistake, and what was written."""
    actor, form = actor_of(request.user), SourceForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    if request.method != "POST":
        if not may_change(actor, seen):
            return redirect(address(seen.name))
        return _editor(request, seen, seen.source, list(seen.problems))
    if not form.is_valid() or form.cleaned_data["version"] is None:
        told = [str(one) for problems in form.errors.values() for one in problems] or [DAMAGED]
        return _editor(request, seen, form.data.get("source", ""), told, 422)
    given = form.cleaned_data
    try:
        scenario_change(actor=actor, name=seen.name, source=given["source"], version=given["version"])
    except Refused as refusal:
        return _editor(request, seen, given["source"], list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{seen.name} was changed. Its verdicts are stale where what it disturbs is another.")
    return redirect(address(seen.name))


@require_POST
def duplicate(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """A copy that can be changed. 409: the name is taken; 422: it is none."""
    actor, form = actor_of(request.user), CopyForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    try:
        if not form.is_valid():
            raise Refused(str(form.errors["to"][0]), code="invalid", field="to")
        made = scenario_duplicate(actor=actor, name=seen.name, to=form.cleaned_data["to"])
    except Refused as refusal:
        return said_on_page(request, actor, seen, list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{made.name} is a copy of {seen.name}, and yours to change.")
    return redirect("scenario-edit", scenario_name=made.name)


@require_POST
def delete(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Deletes one of the workspace's own. 403: it is somebody else's; 409: it is shipped, or somebody has changed it meanwhile."""
    actor, form = actor_of(request.user), DeleteForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    if not form.is_valid():
        return said_on_page(request, actor, seen, [DAMAGED], 422)
    try:
        scenario_delete(actor=actor, name=seen.name, version=form.cleaned_data["version"])
    except Refused as refusal:
        return said_on_page(request, actor, seen, list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{seen.name} was deleted. Its drills stay, each with the scenario as it was asked for.")
    return redirect("scenarios")


@require_safe
def as_toml(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Its source, as a file."""
    seen = scenario_get(actor_of(request.user), scenario_name)
    return _file(seen.source, f"{seen.name}.toml", "application/toml; charset=utf-8")


@require_safe
def as_experiment(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """It as an experiment of chaostoolkit, as a file. Refused conflict where it cannot be read."""
    seen = scenario_get(actor_of(request.user), scenario_name)
    text = json.dumps(experiment_of(seen.readable()), ensure_ascii=False, indent=2) + "\n"
    return _file(text, f"{seen.name}.json", "application/json")


def _file(text: str, name: str, kind: str) -> HttpResponse:
    return HttpResponse(text, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _told(problem: str) -> str:
    """A problem as a sentence; a file's name at its beginning stays as it is."""
    return sentence(problem) if "." not in problem.partition(" ")[0] else f"{problem.rstrip('.')}."


def _editor(
    request: HttpRequest, seen: ScenarioView | None, text: str, problems: list[str] | None = None, status: int = 200
) -> HttpResponse:
    shown = {
        "view": seen,
        "text": text,
        "problems": [_told(one) for one in problems or []],
        "faults": [(port, [one for one in FAULTS.values() if one.port == port]) for port in PORTS],
        "probes": PROBES.items(),
        "lines": max(18, min(text.count("\n") + 3, 60)),
    }
    return render(request, "drills/scenario_edit.html", shown, status=status)
