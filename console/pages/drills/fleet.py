"""Shows the drill results of all fabrics, a row and 24 marks each, and starts drills of all stale cells."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.pages.drills.renderings import name_sight, shared_parts
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.fragments import fresh_part
from console.site.sentences import sentence
from console.templatetags.figures import percent_of
from console.templatetags.marks import FAILURES, TIERS
from console.words.drills import CELLS, DrillMark, came_marks, cell_mark
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.selectors.overview.frame_counts import workers_alive_count
from simulator.drills import tasks
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.fleet import FleetPage, FleetRow, fleet_page
from simulator.drills.services.drill_stop import find_drill_stop
from simulator.drills.services.fleet import FleetAsked, stale_ask
from simulator.scenarios.promises import digests

NEVER = "never"
"""Value of ``only`` that selects the fabrics that were never drilled."""
FAR = 0.9
"""Gap after each row of the decision table, in marks."""


@dataclass(frozen=True, slots=True)
class StripCell:
    """One of the 24 marks of a strip."""

    state: State
    x: float
    """Left edge, percent."""
    y: int
    """Top edge of its shape, which differs by state, in pixels of 16."""
    height: int
    title: str
    """Its cell and state in words."""


@dataclass(frozen=True, slots=True)
class FleetLine:
    """A fabric as a line of the page."""

    row: FleetRow
    strip: tuple[StripCell, ...]
    marks: list[tuple[DrillMark, int]]
    trend: str
    """Points of a line through the passed shares of the newest batches, for a view box of 120 x 18. Empty: fewer than
    two batches.
    """
    told: str
    """The trend in words."""
    may: bool
    """True if the viewer may start drills of it."""

    @property
    def answer(self) -> str:
        """Return the strip in words."""
        if self.row.stand is None:
            return "published by another version"
        return ", ".join(f"{count} {mark.word.lower()}" for mark, count in self.marks)


@require_safe
def show_fleet(request: HttpRequest) -> HttpResponse:
    """Show all fabrics. ``only=never``: those that were never drilled; ``after``: the cursor of the page.

    With ``fabric`` it redirects to the coverage of that fabric, where this address led before. The page's script gets
    the changing part alone.
    """
    if "fabric" in request.GET:
        return redirect(f"{reverse('drills-coverage')}?{request.GET.urlencode()}")
    if not request.headers.get("HX-Request"):
        return _page(request)
    actor, (only, after) = find_actor(request.user), _wanted(request)
    rights = tuple(sorted(actor.held or actor.roles))
    key = ("fleet", *name_sight(actor), *rights, only, after)
    part = shared_parts.render_shared(key, lambda: _board(actor, only, after))
    return fresh_part(request, part, time.time_ns() // 1_000)


@require_POST
def ask_stale(request: HttpRequest) -> HttpResponse:
    """Start drills of all stale cells of all fabrics. 403: the viewer may not. 409: nothing is stale, or drills are
    stopped.
    """
    actor = find_actor(request.user)
    try:
        asked = stale_ask(actor=actor, wake=tasks.wake)
    except Refused as refusal:
        return _page(request, sentence(refusal.message), errors.STATUS[refusal.code])
    messages.success(request, describe_request(asked))
    return redirect("drills")


def describe_request(asked: FleetAsked) -> str:
    """Return the result of a request in words."""
    cells = f"{asked.cells} cell{'s' if asked.cells != 1 else ''}"
    fabrics = f"{asked.fabrics} fabric{'s' if asked.fabrics != 1 else ''}"
    verb = "is" if asked.cells == 1 else "are"
    left = f" {asked.left} more fabric{'s have' if asked.left != 1 else ' has'} stale cells: ask again when these have ended."
    return f"{cells} of {fabrics} {verb} queued in simulated time.{left if asked.left else ''}"


def _wanted(request: HttpRequest) -> tuple[str, str]:
    """Return the filter and the cursor."""
    only = NEVER if request.GET.get("only") == NEVER else ""
    return only, request.GET.get("after", "")


def _page(request: HttpRequest, problem: str = "", status: int = 200) -> HttpResponse:
    actor, (only, after) = find_actor(request.user), _wanted(request)
    now_ms = time.time_ns() // 1_000_000
    page = fleet_page(actor, after=after, never=bool(only))
    if not page.rows and not only and not after:
        return render(request, "drills/none.html", {"now_ms": now_ms, "problem": problem}, status=status)
    asked = urlencode({"only": only, "after": after})
    shown = {
        "board": render_to_string("drills/fleet/board.html", build_board(actor, page, only, after)),
        "part": f"{reverse('drills')}?{asked}",
        "now_ms": now_ms,
        "problem": problem,
    }
    return render(request, "drills/fleet/page.html", shown, status=status)


def _board(actor: Actor, only: str, after: str) -> str:
    page = fleet_page(actor, after=after, never=bool(only))
    return render_to_string("drills/fleet/board.html", build_board(actor, page, only, after))


def build_board(actor: Actor, page: FleetPage, only: str, after: str) -> dict[str, Any]:
    """Return the context of the board."""
    lines = [build_line(actor, row) for row in page.rows]
    read = [line for line in lines if line.row.stand is not None]
    return {
        "lines": lines,
        "proven": sum(line.row.count(State.PASS) for line in lines),
        "cells": len(digests.CELLS) * len(read),
        "due": sum(len(line.row.due) for line in lines if line.may),
        "open": sum(len(line.row.open) for line in lines),
        "may_ask": actor.may_somewhere(Right.RUN),
        "drill_stop": find_drill_stop(actor),
        "workers": workers_alive_count(),
        "only": only,
        "whole": not page.next and not after,
        "next": f"{reverse('drills')}?{urlencode({'only': only, 'after': page.next})}" if page.next else "",
        "first": after and f"{reverse('drills')}?{urlencode({'only': only})}",
        "legend": [(state, *SHAPES[state], cell_mark(state).word.lower()) for state in SHAPES],
    }


SHAPES: Mapping[State, tuple[int, int]] = {
    State.PASS: (2, 12),
    State.DEVIATED: (0, 16),
    State.ERROR: (0, 16),
    State.UNKNOWN: (2, 12),
    State.STALE: (8, 6),
    State.NEVER: (11, 3),
}
"""Top edge and height of each mark, so that no state is told by colour alone. A cell that waits or runs shows its last
verdict. Total over the states of ``FabricStanding``, by test.
"""


def build_line(actor: Actor, row: FleetRow) -> FleetLine:
    """Return a fabric as a line."""
    counts = row.stand.counts if row.stand else {}
    shares = [percent_of(one.passed, one.drilled) for one in row.trend]
    ends = [f"{one.passed} of {one.drilled}" for one in row.trend]
    return FleetLine(
        row=row,
        strip=_strip(row),
        marks=came_marks({str(state): count for state, count in counts.items()}),
        trend=_trend_points(shares) if len(shares) > 1 else "",
        told=f"passed in the last {len(ends)} batches: {', '.join(ends)}" if len(ends) > 1 else "",
        may=actor.place_at(row.fabric.name).may(Right.RUN),
    )


def _trend_points(shares: Sequence[int]) -> str:
    """Return the points of a line through percents; 100 is at the top whatever the others are."""
    step = 120 / (len(shares) - 1)
    return " ".join(f"{n * step:.1f},{17 - 15 * share / 100:.1f}" for n, share in enumerate(shares))


def _strip(row: FleetRow) -> tuple[StripCell, ...]:
    """Return the 24 marks, row by row of the decision table, with a gap after each row."""
    if row.stand is None:
        return ()
    rows = len(digests.CELLS) // len(Tier)
    step = 100 / (len(digests.CELLS) + FAR * (rows - 1))
    return tuple(
        StripCell(
            state,
            round(step * (n + FAR * (n // len(Tier))), 2),
            *SHAPES[state],
            f"{FAILURES[cell[0]]}, {TIERS[cell[1]]}: {CELLS[state][0].lower()}",
        )
        for n, (cell, state) in enumerate((cell, row.stand.states[cell]) for cell in digests.CELLS)
    )
