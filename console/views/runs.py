"""One run's page."""

from __future__ import annotations

import time
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_on_run
from console.live.source import panels
from console.live.stories import AT_ONCE, stories
from console.views.questions import cards
from console.views.run_events import events_context
from console.views.run_marks import marks_of
from console.views.run_page import VIEWS
from console.views.run_parts import ALONE, WITH_MARGINS, beside_of, page_of, part, tabs
from console.views.run_say import fresh_form
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalations_open
from fabric.selectors.families import ancestors_of
from fabric.selectors.messages import takes_turns
from fabric.selectors.runs import run_get
from fabric.services.control import MESSAGE_CHARS_MAX


@require_safe
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """A run: where it stands, what it asks, how it ended; one of its views; its events as they come. ``?part=`` is one part alone."""
    actor, key = actor_on_run(request), str(run_id)
    at_most = None if request.GET.get("whole") == "1" else AT_ONCE
    wanted = request.GET.get("part", "")
    if wanted:
        return _part(actor, key, wanted, at_most)
    view = _view_named(request.GET.get("view", "timeline"))
    # The events are read before the row that says how many there are: the page follows from the last one it shows.
    listed = events_context(actor, run_get(actor, key), request.GET)
    questions = escalations_open(actor, key)
    found = run_get(actor, key)
    shown = listed | {
        "run": found,
        "run_id": key,
        "view": view,
        "last": listed["window"].last_seq,
        "looking_back": not listed["list"].tail,
        "catching_up": at_most is not None and stories.behind(actor, found) > at_most,
        "ancestors": ancestors_of(actor, found.parent_run_id),
        "marks": marks_of(found),
        "talks": takes_turns(found),
        "say_form": fresh_form(),
        "chars_max": MESSAGE_CHARS_MAX,
        "questions": cards(actor, questions),
        "now_ms": time.time_ns() // 1_000_000,
    }
    beside = beside_of(found)
    made = panels(actor, found, questions, beside, at_most=at_most)
    shown["panel"] = {panel.name: panel.html for panel in made}
    shown["versions"] = ".".join(panel.version for panel in made)
    with stories.told(actor, found, at_most=at_most) as story:
        shown["tabs"] = tabs(page_of(actor, found, story))
        shown["children"] = part("children", actor, found, story)
        if view == "timeline" and request.GET.get("fold") == "off":
            shown["unfolded"] = part("unfolded", actor, found, story)
        elif view in ALONE:
            shown["alone"] = part(view, actor, found, story, beside)
    return render(request, "runs/page.html", shown)


def _view_named(name: str) -> str:
    known = [known for known, _ in VIEWS]
    if name not in known:
        raise Refused(f"a run has no view {name[:40]!r}; there are: {', '.join(known)}", code="invalid", field="view")
    return name


def _part(actor: Actor, run_id: str, name: str, at_most: int | None) -> HttpResponse:
    """One part of the page by itself: what keeps itself up to date asks for it."""
    if name not in (*ALONE, "unfolded"):
        raise Refused(
            f"the page of a run has no part {name[:40]!r}; open the page itself", code="not_found", field="part"
        )
    found = run_get(actor, run_id)
    beside = beside_of(found) if name in WITH_MARGINS else None
    with stories.told(actor, found, at_most=at_most) as story:
        return HttpResponse(part(name, actor, found, story, beside))


@require_safe
def question(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """The part of a run's page that asks for a decision: made for whoever looks, so each page fetches its own."""
    actor, key = actor_on_run(request), str(run_id)
    view = run_get(actor, key)
    questions = cards(actor, escalations_open(actor, key))
    return render(request, "runs/questions.html", {"run_id": key, "run": view, "questions": questions})
