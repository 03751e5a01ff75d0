"""Manages the workspace's own scenarios: writes them as a form or TOML, imports, changes, copies, deletes and
downloads them.

It also keeps a run's failures as a scenario. First it shows which failures it keeps, and which cannot be repeated.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.pages.scenarios.form import read_post, show_form, try_source
from console.pages.scenarios.page import render_refusal
from console.pages.scenarios.words import address, enters_words
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.selectors.errors import Refused
from fabric.selectors.runs.lookup import run_get
from simulator.drills.library.captures import capturable, captured_name, scenario_capture
from simulator.drills.library.form import BEGINNING, Unsayable, read_choices, write_source
from simulator.drills.library.selectors import ScenarioView, scenario_get
from simulator.drills.library.services import (
    NAME_MAX,
    check_scenario,
    may_change,
    scenario_change,
    scenario_delete,
    scenario_duplicate,
    scenario_import,
    scenario_save,
)
from simulator.faults.catalogue import STRUCK
from simulator.faults.fault import PORTS
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.probes import PROBES
from simulator.scenarios.spec.words import disturbances_words
from simulator.texts.toml import BYTES_MAX

DAMAGED = "The form was incomplete, and nothing was done: load the page again."


class SourceForm(forms.Form):
    """A scenario as text, or as a file."""

    source = forms.CharField(required=False, strip=False, max_length=BYTES_MAX)
    file = forms.FileField(required=False, widget=forms.FileInput)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**31 - 1)

    def clean(self) -> dict[str, Any]:
        """Take the text from the file, if one was sent."""
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
    """Form that names the version to delete."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Write a new scenario as a form or as TOML (``as=toml``), or import TOML or an experiment of chaostoolkit.

    409: the name is taken. 422: mistakes; the page lists them and keeps the input.
    """
    if request.method != "POST":
        if request.GET.get("as") == "toml":
            return _editor(request, None, write_source(BEGINNING))
        return show_form(request, None, BEGINNING)
    if request.POST.get("tab") == "form":
        return _take_form(request, None)
    actor, form = find_actor(request.user), SourceForm(request.POST, request.FILES)
    text = form.data.get("source", "")
    if request.POST.get("do") == "form":
        return _turn_into_form(request, None, text)
    if not form.is_valid():
        return _editor(request, None, text, [str(one) for problems in form.errors.values() for one in problems], 422)
    given = form.cleaned_data
    try:
        found = scenario_import(actor=actor, text=given["source"], origin=given["origin"])
    except Refused as refusal:
        return _editor(request, None, given["source"], list(refusal.problems), errors.STATUS[refusal.code])
    for one in found.left_out:
        messages.warning(request, _problem_sentence(one))
    return _saved(request, found.view, f"{found.view.name} is in the library.")


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Show the editor of one of the workspace's own scenarios; POST saves it. It is a form if that can say it.

    403: another person owns it. 409: it is shipped, or changed meanwhile. 422: mistakes; the page lists them and
    keeps the input.
    """
    actor, form = find_actor(request.user), SourceForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    if request.method != "POST":
        if not may_change(actor, seen):
            return redirect(address(seen.name))
        if seen.problems or request.GET.get("as") == "toml":
            return _editor(request, seen, seen.source, list(seen.problems))
        return _turn_into_form(request, seen, seen.source)
    if request.POST.get("tab") == "form":
        return _take_form(request, seen)
    if request.POST.get("do") == "form":
        return _turn_into_form(request, seen, form.data.get("source", ""))
    if not form.is_valid() or form.cleaned_data["version"] is None:
        told = [str(one) for problems in form.errors.values() for one in problems] or [DAMAGED]
        return _editor(request, seen, form.data.get("source", ""), told, 422)
    given = form.cleaned_data
    try:
        scenario_change(actor=actor, name=seen.name, source=given["source"], version=given["version"])
    except Refused as refusal:
        return _editor(request, seen, given["source"], list(refusal.problems), errors.STATUS[refusal.code])
    return _saved(request, seen, CHANGED.format(seen.name))


CHANGED = "{} was changed. Verdicts about changed faults are stale."


def _saved(request: HttpRequest, seen: ScenarioView, said: str) -> HttpResponse:
    messages.success(request, said)
    return redirect(address(seen.name))


def _take_form(request: HttpRequest, seen: ScenarioView | None) -> HttpResponse:
    """Save the sent form, show it as TOML, or show it again with the fields of another fault."""
    choices, act = read_post(request.POST), request.POST.get("do")
    if seen is not None:
        choices = replace(choices, name=seen.name)
    if act == "fields":
        return show_form(request, seen, choices)
    source, problems = try_source(choices)
    if problems:
        return show_form(request, seen, choices, problems, status=422)
    if act == "toml":
        return _editor(request, seen, source)
    actor, version = find_actor(request.user), request.POST.get("version", "")[:10]
    try:
        if seen is None:
            return _saved(request, made := scenario_save(actor=actor, source=source), f"{made.name} is in the library.")
        if not (version.isascii() and version.isdecimal()):
            raise Refused(DAMAGED, code="invalid", field="version")
        scenario_change(actor=actor, name=seen.name, source=source, version=int(version))
    except Refused as refusal:
        return show_form(request, seen, choices, said=refusal.problems, status=errors.STATUS[refusal.code])
    return _saved(request, seen, CHANGED.format(seen.name))


def _turn_into_form(request: HttpRequest, seen: ScenarioView | None, source: str) -> HttpResponse:
    """Show a source as a form. If the form cannot say it, show it as TOML with the reason."""
    try:
        choices = read_choices(check_scenario(source))
    except Unsayable as why:
        return _editor(request, seen, source, note=str(why))
    except Refused as refusal:
        return _editor(request, seen, source, list(refusal.problems), 422)
    return show_form(request, seen, choices)


@require_POST
def duplicate(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Copy a scenario, so that it can be changed. 409: the name is taken. 422: invalid name."""
    actor, form = find_actor(request.user), CopyForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    try:
        if not form.is_valid():
            raise Refused(str(form.errors["to"][0]), code="invalid", field="to")
        made = scenario_duplicate(actor=actor, name=seen.name, to=form.cleaned_data["to"])
    except Refused as refusal:
        return render_refusal(request, actor, seen, list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{made.name} is a copy of {seen.name}, and yours to change.")
    return redirect("scenario-edit", scenario_name=made.name)


@require_POST
def delete(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Delete one of the workspace's own scenarios. 403: another person owns it. 409: it is shipped, or changed
    meanwhile.
    """
    actor, form = find_actor(request.user), DeleteForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    if not form.is_valid():
        return render_refusal(request, actor, seen, [DAMAGED], 422)
    try:
        scenario_delete(actor=actor, name=seen.name, version=form.cleaned_data["version"])
    except Refused as refusal:
        return render_refusal(request, actor, seen, list(refusal.problems), errors.STATUS[refusal.code])
    messages.success(request, f"{seen.name} was deleted. Its drills stay, each with its own copy of the scenario.")
    return redirect("scenarios")


@require_safe
def download_toml(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Download its source."""
    seen = scenario_get(find_actor(request.user), scenario_name)
    return _file(seen.source, f"{seen.name}.toml", "application/toml; charset=utf-8")


@require_safe
def download_experiment(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Download it as an experiment of chaostoolkit. Raises Refused conflict if it cannot be parsed."""
    seen = scenario_get(find_actor(request.user), scenario_name)
    text = json.dumps(build_experiment(seen.readable()), ensure_ascii=False, indent=2) + "\n"
    return _file(text, f"{seen.name}.json", "application/json")


def _file(text: str, name: str, kind: str) -> HttpResponse:
    return HttpResponse(text, content_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _problem_sentence(problem: str) -> str:
    """Return a problem as a sentence. A file's name at its beginning stays unchanged."""
    return sentence(problem) if "." not in problem.partition(" ")[0] else f"{problem.rstrip('.')}."


def _editor(
    request: HttpRequest,
    seen: ScenarioView | None,
    text: str,
    problems: list[str] | None = None,
    status: int = 200,
    note: str = "",
) -> HttpResponse:
    """Show the source. ``note``: why it is not shown as a form."""
    lines = max(18, min(text.count("\n") + 3, 60))
    shown = {
        "view": seen,
        "text": text,
        "problems": [_problem_sentence(one) for one in problems or []],
        "note": note,
        "faults": [(port, [one for one in STRUCK.values() if one.port == port]) for port in PORTS],
        "probes": PROBES.items(),
        "lines": lines,
        "numbers": range(1, lines + 1),
    }
    return render(request, "scenarios/edit.html", shown, status=status)


SHOWN = 50
"""Number of disturbances that the page lists."""


class NameForm(forms.Form):
    """Form with the name of the scenario; the page proposes one."""

    name = forms.CharField(
        max_length=NAME_MAX,
        error_messages={
            "required": "the scenario has no name: give it one",
            "max_length": f"a name has at most {NAME_MAX} characters: shorten it",
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def capture(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Show the page; POST keeps the scenario. 409: nothing can be repeated, or the name is taken. 422: invalid name."""
    actor, form = find_actor(request.user), NameForm(request.POST)
    run = run_get(actor, str(run_id))
    name, problems, status = captured_name(actor, run.id), [], 200
    if request.method == "POST":
        name = request.POST.get("name", "")[:NAME_MAX]
        try:
            if not form.is_valid():
                raise Refused(str(form.errors["name"][0]), code="invalid", field="name")
            made = scenario_capture(actor=actor, run_id=run.id, name=form.cleaned_data["name"])
        except Refused as refusal:
            problems, status = [sentence(refusal.message)], errors.STATUS[refusal.code]
        else:
            messages.success(request, f"{made.view.name} is in the library. You can replay the failures of the run.")
            return redirect(address(made.view.name, run.fabric_name))
    shown = {"run": run, "name": name, "problems": problems, "most": SHOWN}
    try:
        one, left_out = capturable(actor, run.id)
    except Refused as refusal:
        shown["nothing"] = [sentence(one) for one in refusal.problems]
    else:
        words = disturbances_words(one)
        shown |= {
            "words": words[:SHOWN],
            "count": len(words),
            "left_out": left_out,
            "enters": enters_words(one),
            "one": one,
        }
    return render(request, "scenarios/capture.html", shown, status=status)
