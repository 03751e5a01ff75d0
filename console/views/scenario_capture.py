"""A run's failures, kept as a scenario: first what would be kept, and what cannot be made to happen again."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.scenario_words import address, enters_words
from fabric.selectors.errors import Refused
from fabric.selectors.runs import run_get
from simulator.library.capturing import capturable, captured_name, scenario_capture
from simulator.library.services import NAME_MAX
from simulator.library.words import disturbances_words

SHOWN = 50
"""Disturbances that are told."""


class NameForm(forms.Form):
    """What the scenario is to be called; the page proposes a name."""

    name = forms.CharField(
        max_length=NAME_MAX,
        error_messages={
            "required": "the scenario has no name: give it one",
            "max_length": f"a name has at most {NAME_MAX} characters: shorten it",
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def capture(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The page, and keeping it. 409: nothing of the run can be made to happen again, or the name is taken; 422: it is no name."""
    actor, form = actor_of(request.user), NameForm(request.POST)
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
            messages.success(
                request, f"{made.view.name} is in the library: what failed in the run can be played again."
            )
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
    return render(request, "drills/scenario_capture.html", shown, status=status)
