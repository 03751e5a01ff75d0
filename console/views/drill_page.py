"""One drill: its verdict, what the table promised and what was seen, line by line, and the drills of the same cell before it."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.drill_words import STRIKES, Mark, aligned, cell_words, drill_mark
from console.views.fabric_table import cell_anchor
from console.views.overview import fresh_part
from fabric.core.actor import Actor
from fabric.selectors.fabrics import fabric_get
from simulator.drills.models import Status
from simulator.drills.selectors import DrillView, State, drill_get, drills_recent
from simulator.library.covering import drill_fresh
from simulator.library.selectors import scenario_source

OTHERS = 20
"""Drills of the same cell that are listed."""


@require_safe
def drill(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The page."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    now_ms = time.time_ns() // 1_000_000
    shown = {"one": seen, "title": cell_words(seen), "board": _board(actor, seen), "now_ms": now_ms}
    shown["given"] = json.dumps(dict(seen.parameters))
    return render(request, "drills/page.html", shown)


@require_safe
def live(request: HttpRequest, drill_id: str) -> HttpResponse:
    """The part of the page that changes while the drill goes on; whoever else comes here is led to the page."""
    actor = actor_of(request.user)
    seen = drill_get(actor, drill_id)
    if not request.headers.get("HX-Request"):
        return redirect("drill", drill_id=drill_id)
    return fresh_part(request, _board(actor, seen), time.time_ns() // 1_000)


def _board(actor: Actor, seen: DrillView) -> str:
    return render_to_string("drills/drill.html", shown_of(actor, seen))


def shown_of(actor: Actor, seen: DrillView) -> dict[str, Any]:
    """What the page shows of a drill."""
    published = fabric_get(actor, seen.fabric)
    lines = aligned(seen.expected, seen.observed) if seen.verdict != State.ERROR else []
    others, _ = drills_recent(actor, fabric=seen.fabric, limit=OTHERS + 1, **_like(seen))
    table = f"{reverse('fabric-revision', args=[seen.fabric, seen.number])}?tab=table"
    return {
        "one": seen,
        "mark": drill_mark(seen),
        "title": cell_words(seen),
        "strikes": STRIKES[seen.failure] if seen.failure and not seen.scenario else "",
        "verdict": verdict_words(seen, sum(line.how != "same" for line in lines)),
        "fresh": drill_fresh(seen, published.revision_id, scenario_source(actor, seen.scenario)),
        "published": published.number,
        "lines": lines,
        "cell": f"{table}#{cell_anchor(*seen.cell)}" if seen.cell else table,
        "coverage": f"{reverse('drills')}?{urlencode({'fabric': seen.fabric})}",
        "others": [(other, drill_mark(other)) for other in others if other.id != seen.id][:OTHERS],
    }


def _like(seen: DrillView) -> dict[str, Any]:
    """What a drill has in common with others of its kind."""
    return {"scenario": seen.scenario, "tier": seen.tier} if seen.scenario else {"cell": seen.cell}


def verdict_words(seen: DrillView, differ: int) -> tuple[Mark, str]:
    """What came of it, in one sentence, with the tone in which it is said."""
    tone, icon, said = _verdicts(differ).get(seen.verdict, ("", "", ""))
    if said:
        return Mark("", tone, icon), said
    told = {
        Status.QUEUED: ("neutral", "clock", "It waits for its turn."),
        Status.RUNNING: ("drill", "run", "It is driven now."),
        Status.ABORTED: ("neutral", "stop", f"{seen.stopped_by or 'Somebody'} stopped it before it came to a verdict."),
        Status.INTERRUPTED: ("warn", "plug", "It came to no verdict."),
    }
    return Mark("", *told[seen.status][:2]), told[seen.status][2]


def _verdicts(differ: int) -> dict[str, tuple[str, str, str]]:
    lines = f"{differ} line{'s differ' if differ != 1 else ' differs'}" if differ else "The chains differ"
    return {
        State.PASS: ("ok", "okc", "The run did what the table says, step by step."),
        State.DEVIATED: ("danger", "alert", f"The run did not do what the table says. {lines}."),
        State.UNKNOWN: ("neutral", "unknown", "Nothing was shown about this cell. Unknown is never counted as a pass."),
        State.ERROR: ("danger", "xc", "The drill failed, so it says nothing about the cell."),
    }
