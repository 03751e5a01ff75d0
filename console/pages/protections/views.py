"""Shows the mechanisms that protect runs, by failure class (MAST): the failures that each stops, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.values.taxonomy import FailureClass
from fabric.selectors.runs.events.explanations import OF_NO_CLASS
from fabric.selectors.runs.margins.protections import measures
from fabric.selectors.runs.margins.protections import protections as all_of_them

CLASSES: Mapping[FailureClass, tuple[str, str]] = {
    FailureClass.SPECIFICATION: ("Specification & design", "the task, the roles or the plan were wrong from the start"),
    FailureClass.INTER_AGENT: (
        "Inter-agent misalignment",
        "agents work past each other, repeat, or wait for each other",
    ),
    FailureClass.VERIFICATION: (
        "Verification & termination",
        "missing checks, no stop, or stopped too early",
    ),
}
"""Name and meaning of each class; total by test."""


@require_safe
def protections(request: HttpRequest) -> HttpResponse:
    """Show the table: a row a mechanism in guard order, a column a class."""
    rows = [(one, [(title, one.answers(which)) for which, (title, _) in CLASSES.items()]) for one in all_of_them()]
    counts = [(title, about, sum(one.answers(which) for one, _ in rows)) for which, (title, about) in CLASSES.items()]
    beside = [(one, [(title, one.answers(which)) for which, (title, _) in CLASSES.items()]) for one in measures()]
    shown = {"rows": rows, "classes": counts, "measures": beside, "unsorted": OF_NO_CLASS, "loops": LOOP_NAMES.values()}
    return render(request, "protections/page.html", shown)
