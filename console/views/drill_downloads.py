"""What a drill's page gives away: the drill as a test of pytest, and reports of one drill, of a batch, and of a fabric's coverage."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.drill_words import cell_words
from fabric.core.actor import Actor
from fabric.selectors.fabrics import revision_get
from fabric.services.fabric_yaml import fabric_dump
from simulator.drills.as_pytest import pytest_of
from simulator.drills.selectors import DrillView, batch_get, coverage, drill_get
from simulator.drills.stored_reports import Report, batch_report, coverage_report, drill_report


def pytest_text(actor: Actor, seen: DrillView) -> str:
    """A drill as a test. Refused conflict for a live one."""
    return pytest_of(seen, fabric_dump(revision_get(actor, seen.fabric, seen.number).spec))


def pytest_name(seen: DrillView) -> str:
    """The name of the file that holds it."""
    what = (seen.scenario or str(seen.failure)).replace("-", "_")
    return f"test_{what}_{seen.tier}.py"


def sent(report: Report) -> HttpResponse:
    """A report as a download: what it holds is not shown under this console's own address."""
    return _file(report.text, report.media, report.name)


def _file(text: str, media: str, name: str) -> HttpResponse:
    response = HttpResponse(text, content_type=media)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_safe
def as_pytest(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The page with the test, to be copied; with ``form=file`` the file. 409: a live drill."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    text, name = pytest_text(actor, seen), pytest_name(seen)
    if request.GET.get("form") == "file":
        return _file(text, "text/x-python; charset=utf-8", name)
    shown = {"one": seen, "title": cell_words(seen), "text": text, "name": name}
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
