"""What a drill's page gives away: the drill as a test of pytest, and reports of one drill, of a batch, and of a fabric's coverage."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.drill_words import cell_words
from fabric.core.actor import Actor
from fabric.selectors.contents import UNREAD, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import revision_get, revision_spec
from fabric.services.fabric_yaml import fabric_dump
from simulator.drills.as_pytest import pytest_of
from simulator.drills.selectors import DrillView, batch_get, coverage, drill_get
from simulator.drills.stored_reports import Report, batch_report, coverage_report, drill_report
from simulator.library.selectors import scenario_source

PYTHON = "text/x-python; charset=utf-8"


def pytest_report(actor: Actor, seen: DrillView) -> Report:
    """A drill as a test. Refused conflict for a live one, forbidden where its scenario holds contents that the actor may not read."""
    if seen.scenario and not may_read(actor, seen.fabric) and not scenario_source(actor, seen.scenario):
        raise Refused(UNREAD, code="forbidden", field="drill")
    # A drill's revision is its workspace's, or the draft that somebody there had drilled.
    spec = revision_spec(seen.revision_id) if seen.author else revision_get(actor, seen.fabric, seen.number).spec
    text = pytest_of(seen, fabric_dump(spec))
    what = (seen.scenario or str(seen.failure)).replace("-", "_")
    return Report(text, PYTHON, f"test_{what}_{seen.tier}.py")


def sent(report: Report) -> HttpResponse:
    """A report as a download: what it holds is not shown under this console's own address."""
    response = HttpResponse(report.text, content_type=report.media)
    response.headers["Content-Disposition"] = f'attachment; filename="{report.name}"'
    return response


@require_safe
def as_pytest(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The page with the test, to be copied; with ``form=file`` the file. 409: a live drill."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    made = pytest_report(actor, seen)
    if request.GET.get("form") == "file":
        return sent(made)
    shown = {"one": seen, "title": cell_words(seen), "text": made.text, "name": made.name}
    return render(request, "drills/pytest.html", shown)


@require_safe
def report(request: HttpRequest, drill_id: str, form: str) -> HttpResponse:
    """Of one drill. 404: there is no such form; 409: the journal of what played no scenario, or goes on."""
    return sent(drill_report(drill_get(actor_of(request.user), drill_id), form))


@require_safe
def of_batch(request: HttpRequest, batch: str, form: str) -> HttpResponse:
    """Of drills that were asked for together. 404: there is no such form."""
    return sent(batch_report(batch_get(actor_of(request.user), batch), form))


@require_safe
def of_coverage(request: HttpRequest, form: str) -> HttpResponse:
    """Of a fabric's 24 cells as it is published. 404: there is no such fabric, or no such form."""
    return sent(coverage_report(coverage(actor_of(request.user), request.GET.get("fabric", "")), form))
