"""Shows one run's page, and marks a drill's run with its drill, verdict, clock, and other runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.live.stories import AT_ONCE, stories
from console.pages.runs.events import events_context, list_kinds
from console.pages.runs.live_source import panels
from console.pages.runs.messages import fresh_form
from console.pages.runs.page import VIEWS
from console.pages.runs.panels import ALONE, WITH_MARGINS, build_page, part, read_margin_facts, tabs
from console.pages.runs.past import AS_OF, show_past
from console.site.access.actors import actor_on_run
from console.words.drills import DrillMark, cell_words, drill_mark
from console.words.reviews import cards
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.families import list_ancestors
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.story.messages import takes_turns
from fabric.services.runs.control import MESSAGE_CHARS_MAX
from simulator.drills.runs.names import PART_WORDS, PARTS
from simulator.drills.selectors.runs import RunDrill, find_drill


@require_safe
def run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """A run: where it stands, what it asks, how it ended; one of its views; its events as they come. ``?part=`` is one
    part alone; ``?as_of=`` is the run as of an event.
    """
    actor, key = actor_on_run(request), str(run_id)
    if AS_OF in request.GET:
        return show_past(request, actor, key)
    at_most = None if request.GET.get("whole") == "1" else AT_ONCE
    wanted = request.GET.get("part", "")
    if wanted:
        return _part(actor, key, wanted, at_most)
    view = _view_named(request.GET.get("view", "timeline"))
    # The events are read before the row that says how many there are: the page follows from the last one it shows.
    listed = events_context(actor, run_get(actor, key), request.GET)
    reviews = list_open_reviews(actor, key)
    found = run_get(actor, key)
    shown = listed | {
        "run": found,
        "run_id": key,
        "view": view,
        "last": listed["window"].last_seq,
        "looking_back": not listed["list"].tail,
        "catching_up": at_most is not None and stories.count_behind(actor, found) > at_most,
        "ancestors": list_ancestors(actor, found.parent_run_id),
        "marks": find_marks(found),
        "talks": takes_turns(found),
        "say_form": fresh_form(),
        "chars_max": MESSAGE_CHARS_MAX,
        "reviews": cards(actor, reviews),
        "now_ms": time.time_ns() // 1_000_000,
    }
    beside = read_margin_facts(found)
    made = panels(actor, found, reviews, beside, at_most=at_most)
    shown["panel"] = {panel.name: panel.html for panel in made}
    shown["versions"] = ".".join(panel.version for panel in made)
    with stories.read_story(actor, found, at_most=at_most) as story:
        shown["tabs"] = tabs(build_page(actor, found, story))
        shown["kinds"] = list_kinds(listed["list"].wanted.kind, None if story is None else story.kinds)
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
    beside = read_margin_facts(found) if name in WITH_MARGINS else None
    with stories.read_story(actor, found, at_most=at_most) as story:
        return HttpResponse(part(name, actor, found, story, beside))


@require_safe
def review(request: HttpRequest, run_id: UUID) -> HttpResponse:
    """Show the part of a run's page that asks its reader for a decision. Each page fetches its own."""
    actor, key = actor_on_run(request), str(run_id)
    view = run_get(actor, key)
    reviews = cards(actor, list_open_reviews(actor, key))
    return render(request, "runs/reviews.html", {"run_id": key, "run": view, "reviews": reviews})


@dataclass(frozen=True, slots=True)
class Marks:
    """The banner of a drill's run."""

    of: RunDrill
    title: str
    """Subject of the drill."""
    mark: DrillMark
    """Its verdict."""
    others: tuple[tuple[str, str, bool], ...]
    """Each run of it: its word, its address, and whether it is this one."""


def find_marks(run: RunView) -> Marks | None:
    """Return the marks of a drill's run; None for a real run."""
    found = find_drill(run)
    if found is None:
        return None
    ids: Mapping[str, str] = found.drill.body.get("runs", {})
    others = tuple(
        (PART_WORDS[part], reverse("run", args=[ids[part]]), ids[part] == run.id) for part in PARTS if part in ids
    )
    return Marks(found, cell_words(found.drill), drill_mark(found.drill), others)
