"""One drill: its verdict, what the table promised and what was seen, line by line, and the drills of the same cell before it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.drilled import actor_on
from console.views.drill_lines import Shown, at_moment, lines_of, run_of
from console.views.drill_moments import player_of
from console.views.drill_side import disturbance_of, steady_of
from console.views.drill_timeline import picture_of
from console.views.drill_words import STRIKES, Mark, cell_words, drill_mark
from console.views.fabric_table import cell_anchor
from console.views.overview import fresh_part
from fabric.core.actor import Actor
from fabric.selectors.contents import may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabric_get
from fabric.selectors.runs import run_get
from simulator.drills.lever import lever_of
from simulator.drills.models import Status
from simulator.drills.names import draft_name
from simulator.drills.selectors import DrillView, State, drill_get, drills_recent
from simulator.drills.services import SEED_MAX
from simulator.library.covering import drill_fresh
from simulator.library.selectors import scenario_source

OTHERS = 20
"""Drills of the same cell that are listed."""


@require_safe
def drill(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The page; for its own script, as it steps from moment to moment, the part that a moment changes."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    at = request.GET.get("at", "")
    if request.headers.get("HX-Request"):
        return render(request, "drills/watch.html", watch_of(seen, at, _run(actor, seen)))
    now_ms = time.time_ns() // 1_000_000
    shown = {"one": seen, "title": cell_words(seen), "board": _board(actor, seen, at), "now_ms": now_ms}
    shown |= {"given": json.dumps(dict(seen.parameters)), "another": secrets.randbelow(SEED_MAX) + 1}
    return render(request, "drills/page.html", shown)


@require_safe
def live(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The part of the page that changes while the drill goes on; whoever else comes here is led to the page."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    if not request.headers.get("HX-Request"):
        return redirect("drill", drill_id=drill_id)
    return fresh_part(request, _board(actor, seen), time.time_ns() // 1_000)


def _board(actor: Actor, seen: DrillView, at: str = "") -> str:
    return render_to_string("drills/drill.html", shown_of(actor, seen, at))


def shown_of(actor: Actor, seen: DrillView, at: str = "") -> dict[str, Any]:
    """What the page shows of a drill. ``at``: the moment at which its player stands."""
    # A draft has no page of its own among the revisions: its drill is told by what it was drilled with.
    published = None if seen.author else fabric_get(actor, seen.fabric)
    named = draft_name(seen.fabric, seen.author) if seen.author else seen.fabric
    others, _ = drills_recent(actor, fabric=named, limit=OTHERS + 1, **_like(seen))
    table = "" if seen.author else f"{reverse('fabric-revision', args=[seen.fabric, seen.number])}?tab=table"
    run = _run(actor, seen)
    watch = watch_of(seen, at, run)
    return {
        **watch,
        "reads": may_read(actor, seen.fabric),
        "mark": drill_mark(seen),
        "title": cell_words(seen),
        "strikes": STRIKES[seen.failure] if seen.failure and not seen.scenario else "",
        "verdict": verdict_words(seen, watch["lines"]),
        "fresh": drill_fresh(
            seen, published.revision_id if published else seen.revision_id, scenario_source(actor, seen.scenario)
        ),
        "published": published.number if published else None,
        "cell": f"{table}#{cell_anchor(*seen.cell)}" if seen.cell and table else table,
        "coverage": f"{reverse('drills')}?{urlencode({'fabric': seen.fabric, 'mode': seen.mode})}",
        "steady": steady_of(seen),
        "disturbance": disturbance_of(seen),
        "run": reverse("run", args=[run]) if run else "",
        "lever": lever_of(actor),
        "others": [(other, drill_mark(other)) for other in others if other.id != seen.id][:OTHERS],
    }


def _run(actor: Actor, seen: DrillView) -> str:
    """The disturbed run, where it was kept and the actor may look at it; empty: not."""
    run = run_of(seen)
    try:
        return run and run_get(actor_on(actor, "run", run), run).id
    except Refused:
        return ""


def watch_of(seen: DrillView, at: str, run: str = "") -> dict[str, Any]:
    """The part that a moment of the player changes: the lines, the picture, and the player itself. ``run``: whose events the lines lead to."""
    story = seen.body.get("story")
    kept = story if isinstance(story, dict) else {}
    player, lines = player_of(kept, at), lines_of(seen, run)
    here = player if player is not None and player.chosen else None
    return {
        "one": seen,
        "lines": at_moment(lines, here.seq) if here else lines,
        "player": player,
        "picture": picture_of(kept, lines, here.at_s if here else None),
    }


def _like(seen: DrillView) -> dict[str, Any]:
    """What a drill has in common with others of its kind."""
    return {"scenario": seen.scenario, "tier": seen.tier} if seen.scenario else {"cell": seen.cell, "mode": seen.mode}


def verdict_words(seen: DrillView, lines: Sequence[Shown]) -> tuple[Mark, str]:
    """What came of it, in one sentence, with the tone in which it is said."""
    tone, icon, said = _verdicts(lines).get(seen.verdict, ("", "", ""))
    if said:
        return Mark("", tone, icon), said
    words = {
        Status.QUEUED: ("neutral", "clock", "It waits for its turn."),
        Status.RUNNING: ("drill", "run", "It is driven now."),
        Status.ABORTED: ("neutral", "stop", _aborted(seen)),
        Status.INTERRUPTED: ("warn", "plug", "It came to no verdict."),
    }
    return Mark("", *words[seen.status][:2]), words[seen.status][2]


def _aborted(seen: DrillView) -> str:
    if seen.body.get("aborted"):
        return "It met a limit of its own and was ended before it came to a verdict:"
    return f"{seen.stopped_by or 'Somebody'} stopped it before it came to a verdict."


def _verdicts(lines: Sequence[Shown]) -> dict[str, tuple[str, str, str]]:
    return {
        State.PASS: ("ok", "okc", "The run did what the table says, step by step."),
        State.DEVIATED: ("danger", "alert", _deviated(lines)),
        State.UNKNOWN: ("neutral", "unknown", "Nothing was shown about this cell. Unknown is never counted as a pass."),
        State.ERROR: ("danger", "xc", "The drill failed, so it says nothing about the cell."),
    }


def _deviated(lines: Sequence[Shown]) -> str:
    """Where it first did otherwise."""
    wrong = [line for line in lines if line.how != "same"]
    if not wrong:
        if lines:
            return "The run did what the table says, and the steady state did not hold."
        return "The run did not do what the table says. The chains differ."
    first = wrong[0]
    expected = first.expected.words if first.expected else "nothing more"
    observed = f"and {first.observed.words} was seen" if first.observed else "and it did not happen"
    many = "1 line differs" if len(wrong) == 1 else f"{len(wrong)} lines differ, the first is this"
    return f"The run did not do what the table says. {many}. Line {first.number}: {expected} was expected, {observed}."
