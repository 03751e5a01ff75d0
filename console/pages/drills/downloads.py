"""Serves downloads of drills: a pytest module, and reports of a drill, a batch, or a fabric's coverage."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.site.access.actors import find_actor
from console.words.drills import cell_words
from fabric.core.people.actor import Actor
from fabric.selectors.contents import UNREAD, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get, revision_spec
from fabric.services.fabrics.yaml.document import fabric_dump
from simulator.drills.library.selectors import scenario_source
from simulator.drills.reports.drills import Report, batch_report, coverage_report, drill_report
from simulator.drills.reports.pytest_case import how_to_run, name_file, write_pytest
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.drills import batch_get, coverage, drill_get

PYTHON = "text/x-python; charset=utf-8"


def pytest_report(actor: Actor, seen: DrillView) -> Report:
    """Return a drill as a pytest module.

    Raises Refused conflict for a live drill, and forbidden if the scenario contains content that the actor may not
    read.
    """
    if seen.scenario and not may_read(actor, seen.fabric) and not scenario_source(actor, seen.scenario):
        raise Refused(UNREAD, code="forbidden", field="drill")
    # A drill's revision is its workspace's, or a drilled draft of one of its members.
    spec = revision_spec(seen.revision_id) if seen.author else revision_get(actor, seen.fabric, seen.number).spec
    text = write_pytest(seen, fabric_dump(spec))
    return Report(text, PYTHON, name_file(seen))


def download_report(report: Report) -> HttpResponse:
    """Return a report as a download, so that the browser does not show it under the console's own address."""
    response = HttpResponse(report.text, content_type=report.media)
    response.headers["Content-Disposition"] = f'attachment; filename="{report.name}"'
    return response


@require_safe
def show_pytest(request: HttpRequest, drill_id: str) -> HttpResponse:
    """Show the page with the test, to be copied; with ``form=file`` the file. 409: a live drill."""
    actor = find_actor(request.user)
    seen = drill_get(actor, drill_id)
    made = pytest_report(actor, seen)
    if request.GET.get("form") == "file":
        return download_report(made)
    shown = {"one": seen, "title": cell_words(seen), "text": made.text, "name": made.name, "command": how_to_run(seen)}
    return render(request, "drills/pytest.html", shown)


@require_safe
def report(request: HttpRequest, drill_id: str, form: str) -> HttpResponse:
    """Download the report of one drill.

    404: unknown format. 409: the drill goes on, or its journal was requested and it played no scenario.
    """
    return download_report(drill_report(drill_get(find_actor(request.user), drill_id), form))


@require_safe
def download_batch(request: HttpRequest, batch: str, form: str) -> HttpResponse:
    """Download the report of a batch. 404: unknown format."""
    return download_report(batch_report(batch_get(find_actor(request.user), batch), form))


@require_safe
def download_coverage(request: HttpRequest, form: str) -> HttpResponse:
    """Download the report of the 24 cells of a published fabric. 404: unknown fabric or format."""
    return download_report(coverage_report(coverage(find_actor(request.user), request.GET.get("fabric", "")), form))
