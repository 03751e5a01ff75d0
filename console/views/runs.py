"""Runs: the list, one run's page, one of its events, cancelling."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from console.access import actor_of
from console.forms import CancelForm, DecisionForm, sentence
from console.live.source import panels
from console.views import errors
from console.views.run_page import EventLine, RunPage, cap_of
from fabric import wiring
from fabric.core.flow import RunState
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalations_open
from fabric.selectors.runs import run_events, run_get, runs_list
from fabric.services.runs import run_cancel

PAGE_RUNS = 50
PAGE_EVENTS = 200
FILTERS = (
    ("", "All"),
    (RunState.RUNNING, "Running"),
    (RunState.WAITING, "Waiting"),
    (RunState.COMPLETED, "Completed"),
    (RunState.FAILED, "Failed"),
    (RunState.ABORTED, "Aborted"),
    (RunState.CANCELLED, "Cancelled"),
)


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The newest runs, a page at a time by the last one seen."""
    state, before = request.GET.get("state", ""), request.GET.get("before", "")
    found = runs_list(actor_of(request.user), limit=PAGE_RUNS + 1, before=before or None, state=state or None)
    more = found[PAGE_RUNS - 1].cursor if len(found) > PAGE_RUNS else ""
    shown = {
        "runs": [RunPage(run, cap_of(run.revision_id)) for run in found[:PAGE_RUNS]],
        "filters": FILTERS,
        "state": state,
        "before": before,
        "more": more,
    }
    return render(request, "runs/list.html", shown)


@require_safe
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """A run: where it stands, what it asks, how it ended, and its events as they come."""
    actor, key = actor_of(request.user), str(run_id)
    # The events are read before the row that says how many there are: the page follows from the last one it shows.
    view = run_get(actor, key)
    before = _number(request.GET.get("before"))
    last = min(view.last_seq, before - 1) if before else view.last_seq
    first = max(0, last - PAGE_EVENTS)
    events = run_events(actor, key, after=first, limit=PAGE_EVENTS) if last else []
    questions = escalations_open(actor, key)
    view = run_get(actor, key)
    made = panels(actor, view, questions)
    shown = {
        "panel": {panel.name: panel.html for panel in made},
        "run": view,
        "run_id": key,
        "events": [EventLine(event) for event in events if event.seq <= last],
        "first": first + 1,
        "last": last,
        "looking_back": bool(before),
        "versions": ".".join(panel.version for panel in made),
        "questions": [(question, DecisionForm()) for question in questions],
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "runs/page.html", shown)


@require_safe
def question(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The part of a run's page that asks for a decision: made for whoever looks, so each page fetches its own."""
    actor, key = actor_of(request.user), str(run_id)
    view = run_get(actor, key)
    questions = [(one, DecisionForm()) for one in escalations_open(actor, key)]
    return render(request, "runs/questions.html", {"run_id": key, "run": view, "questions": questions})


@require_safe
def event(request: HttpRequest, run_id: UUID, seq: int) -> HttpResponse:
    """One event in full: as a page, or as the part that the run's page shows beside its events."""
    actor, key = actor_of(request.user), str(run_id)
    found = run_events(actor, key, after=seq - 1, limit=1) if 0 < seq < 2**31 else []
    if not found or found[0].seq != seq:
        raise Refused(f"run {key} has no event {seq}; look at the run's page", code="not_found", field="seq")
    view = run_get(actor, key)
    shown: dict[str, Any] = {"line": EventLine(found[0]), "run_id": key, "run": view, "last": view.last_seq}
    template = "runs/event.html" if request.headers.get("HX-Request") else "runs/event_page.html"
    response = render(request, template, shown)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def cancel(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Ask what cancelling does first; a POST does it."""
    actor, key = actor_of(request.user), str(run_id)
    view = run_get(actor, key)
    form = CancelForm(request.POST if request.method == "POST" else None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            fresh = run_cancel(
                store=wiring.store(),
                nudge=wiring.nudge(),
                actor=actor,
                run_id=key,
                reason=form.cleaned_data["reason"],
            )
        except Refused as refusal:
            form.add_error(None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            said = "The run is being cancelled: it ends when the calls in flight have been let go."
            messages.info(request, said if fresh else "The run was being cancelled already.")
            return redirect("run", run_id=key)
    elif request.method == "POST":
        status = 422
    return render(request, "runs/cancel.html", {"form": form, "run": view, "page": RunPage(view, 0)}, status=status)


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 12 else 0
