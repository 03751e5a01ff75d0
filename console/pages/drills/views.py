"""Shows which cells of a fabric's decision table were proven by drills, starts drills, and lists the last batches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.pages.drills import live_impact as drill_live
from console.pages.drills.banner import Going
from console.pages.drills.live_impact import NAME_MAX, AskForm, describe_request, list_cells
from console.pages.drills.remembered import pick_fabric, remember_fabric
from console.pages.drills.renderings import name_sight, shared_parts
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.fragments import fresh_part
from console.site.sentences import sentence
from console.words.decision_table import RungLine, cell_anchor, ladder_in
from console.words.drills import CELLS, STRIKES, DrillMark, came_marks, cell_mark
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.spec.retry_layers import Ladders, ladders
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.words import duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.selectors.overview.frame_counts import workers_alive_count
from simulator.drills import tasks
from simulator.drills.live.conditions import may_ask_live
from simulator.drills.models.tables import LIVE, VIRTUAL, Status
from simulator.drills.selectors.batches import batches_recent
from simulator.drills.selectors.drill_views import BatchView, CellView, Coverage, State
from simulator.drills.selectors.drills import batch_get, coverage
from simulator.drills.services.drill_stop import drills_frame, find_drill_stop
from simulator.drills.services.drills import drill_ask, may_stop, stop_drills
from simulator.scenarios.promises.layers import met_in, unmet_said

MODES = {VIRTUAL: "Simulated", LIVE: "Live"}
"""Words of each mode; total, by test."""


class StopForm(forms.Form):
    """Form that stops drills. It names the fabric of the page that sent it."""

    fabric = forms.CharField(max_length=NAME_MAX)


@dataclass(frozen=True, slots=True)
class CellLine:
    """A cell as a line of the board."""

    view: CellView
    mark: DrillMark
    rungs: tuple[RungLine, ...]
    met_in: str
    """Stage whose retry layers or graph rules are included; empty if the ladder does not depend on the stage."""
    address: str
    """Address of the last or current drill; empty if the cell was never drilled."""
    drilled: str
    """Revision or draft that the verdict is about, unless it is the published revision; else empty."""

    @property
    def anchor(self) -> str:
        """Return its id in the page."""
        return cell_anchor(self.view.failure, self.view.tier)

    @property
    def open(self) -> bool:
        """Return True if a drill of the cell waits or runs."""
        return self.view.now is not None


@dataclass(frozen=True, slots=True)
class RowLine:
    """A row of the matrix."""

    failure: FailureType
    strikes: str
    cells: tuple[CellLine, ...]

    @property
    def open(self) -> bool:
        """Return True if drills of all cells wait or run."""
        return all(one.open for one in self.cells)


@require_safe
def show_coverage(request: HttpRequest) -> HttpResponse:
    """Show the coverage of one fabric by drills of one mode; without a name, of the fabric used last.

    With cells to ``ask`` for live, show the impact of drilling them.
    """
    name, mode = request.GET.get("fabric", ""), read_mode(request)
    if mode == LIVE and "ask" in request.GET:
        picked = {key: request.GET.get(key, "") for key in ("fabric", "number", "seed", "mode")}
        return drill_live.confirm(request, AskForm({**picked, "cells": request.GET["ask"]}))
    return _page(request, name, mode=mode)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Return the changing part of the page to the page's script; without a script, redirect to the page."""
    name, mode = request.GET.get("fabric", ""), read_mode(request)
    if not request.headers.get("HX-Request"):
        return redirect(_address(name, mode))
    now, actor = time.time_ns() // 1_000, find_actor(request.user)
    here, before = _address(name, mode), request.GET.get("before", "")
    board = shared_parts.render_shared(_whose(actor, name, mode), lambda: _board(actor, coverage(actor, name, mode)))
    last = shared_parts.render_shared(
        ("last", *name_sight(actor), here, before), lambda: _render_last(actor, here, before)
    )
    return fresh_part(request, f"{board}\n{last}", now)


def read_mode(request: HttpRequest) -> str:
    """Return the requested mode; virtual by default."""
    return LIVE if request.GET.get("mode") == LIVE else VIRTUAL


@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Start drills. 409: nothing is stale, or all cells wait already. 422: the form is incomplete."""
    actor, form = find_actor(request.user), AskForm(request.POST)
    name = request.POST.get("fabric", "")
    if not form.is_valid():
        problem = "The form was incomplete, so nothing was started. Load the page again."
        if form.live and not form.errors.keys() & {"fabric", "cells", "number"}:
            return drill_live.confirm(request, form, "Nothing was started: check the form.", 422)
        return _page(request, name, problem, 422)
    given, how = form.cleaned_data, form.how()
    try:
        cells, wake = list_cells(given["cells"]), tasks.wake
        asked = drill_ask(
            actor=actor, fabric=given["fabric"], cells=cells, number=given["number"], seed=given["seed"], wake=wake, **how
        )  # fmt: skip
    except Refused as refusal:
        said, status = sentence(refusal.message), errors.STATUS[refusal.code]
        if form.live and refusal.code in ("forbidden", "unavailable"):
            return drill_live.confirm(request, form, said, status)
        return _page(request, name, said, status, mode=how["mode"])
    messages.success(request, describe_request(asked, how["mode"]))
    if given["seed"] is not None and len(asked.drills) == 1:
        return redirect("drill", drill_id=asked.drills[0])
    if request.POST.get("back") == "drills":
        return redirect("drills")
    return redirect(_address(given["fabric"], how["mode"]))


@require_POST
def stop(request: HttpRequest, batch: str) -> HttpResponse:
    """Stop the remaining drills of a batch.

    403: another person started it. 409: all drills have ended. 422: the form is incomplete.
    """
    actor, form = find_actor(request.user), StopForm(request.POST)
    mode = batch_get(actor, batch).drills[0].mode
    if not form.is_valid():
        return _page(request, "", "The form was incomplete, and nothing was stopped: load the page again.", 422)
    name = form.cleaned_data["fabric"]
    try:
        stopped = stop_drills(actor=actor, batch=batch)
    except Refused as refusal:
        return _page(request, name, sentence(refusal.message), errors.STATUS[refusal.code], mode=mode)
    messages.success(request, f"{stopped} drill{'s were' if stopped != 1 else ' was'} stopped.")
    return redirect(_address(name, mode))


def _address(name: str, mode: str) -> str:
    return f"{reverse('drills-coverage')}?{urlencode({'fabric': name} | ({'mode': mode} if mode != VIRTUAL else {}))}"


def _page(
    request: HttpRequest, name: str, problem: str = "", status: int = 200, *, mode: str = VIRTUAL
) -> HttpResponse:
    actor, now_ms, before = find_actor(request.user), time.time_ns() // 1_000_000, request.GET.get("before", "")
    found = pick_fabric(request, actor, name)
    if found is None:
        return render(request, "drills/none.html", {"now_ms": now_ms, "problem": problem}, status=status)
    seen = coverage(actor, found.name, mode)
    shown = {
        "live": mode == LIVE,
        "part": f"{reverse('drills-live')}?{urlencode({'fabric': found.name, 'mode': mode, 'before': before})}",
        "fabric": found,
        "offered": fabrics_list(actor),
        "board": shared_parts.fresh(_whose(actor, found.name, mode), lambda: _board(actor, seen)),
        "now_ms": now_ms,
        "problem": problem,
        "last": _render_last(actor, _address(found.name, mode), before),
    }
    page = render(request, "drills/coverage.html", shown, status=status)
    return remember_fabric(request, page, found) if name else page


# -- the board -------------------------------------------------------------------------------------------------------


def _board(actor: Actor, seen: Coverage) -> str:
    return render_to_string("drills/board.html", build_board(actor, seen))


def _whose(actor: Actor, name: str, mode: str) -> tuple[str, ...]:
    """Return the cache key of a board.

    Operators share one board. Others may stop only their own drills, or none.
    """
    actor, whole = actor.place_at(name), name_sight(actor)
    if actor.may(Right.OPERATE):
        return *whole, name, mode
    return *whole, name, mode, actor.name if actor.may(Right.RUN) else ""


def _render_last(actor: Actor, here: str, before: str) -> str:
    return render_to_string("drills/last.html", build_last(actor, here, before))


def build_board(actor: Actor, seen: Coverage) -> dict[str, Any]:
    """Return the context of the board."""
    actor, counts = actor.place_at(seen.fabric.name), seen.counts
    live = drills_frame(actor).live if seen.mode == LIVE else ""  # Every page tells of it above.
    ordered = [state for state in CELLS for _ in range(counts.get(state, 0))]
    return {
        "fabric": seen.fabric,
        "seen": seen,
        "answer": answer(seen),
        "legend": [(cell_mark(state), counts[state]) for state in CELLS if counts.get(state)],
        "bar": [(round(0.25 + n * 100 / 24, 2), "line" if state is State.NEVER else CELLS[state][1]) for n, state in enumerate(ordered)],
        "columns": list(Tier),
        "rows": _rows(seen),
        "unmet": unmet_said(seen.page.spec),
        "live": seen.mode == LIVE,
        "modes": [(words, _address(seen.fabric.name, mode), mode == seen.mode) for mode, words in MODES.items()],
        "may_ask": actor.may(Right.RUN) and (seen.mode != LIVE or may_ask_live(actor)),
        "going": [Going(one, may_stop(actor, one.asked_by), seen.ahead + n) for n, one in enumerate(seen.batches) if one.id != live],
        "all_open": counts.get(State.QUEUED, 0) + counts.get(State.RUNNING, 0) == 24,
        "stale": counts.get(State.STALE, 0) + counts.get(State.NEVER, 0),
        "never": counts.get(State.NEVER, 0) == 24,
        "last": last_words(seen.last),
        "workers": workers_alive_count(),
        "drill_stop": find_drill_stop(actor),
    }  # fmt: skip


def answer(seen: Coverage) -> str:
    """Return the board in one sentence, for screen readers."""
    counts = seen.counts
    told = ", ".join(f"{counts[state]} {CELLS[state][0].lower()}" for state in CELLS if counts.get(state))
    return f"{seen.proven} of 24 verified for r{seen.fabric.number}: {told}"


def last_words(batch: BatchView | None) -> str:
    """Return the duration of the last batch, and the number of drills that did not finish."""
    if batch is None:
        return ""
    count = len(batch.drills)
    parts = [f"last: {count} cell{'s' if count != 1 else ''}"]
    if batch.took_s is not None:
        parts = [f"{parts[0]} in {duration(batch.took_s)}"]
    for status, words in ((Status.ABORTED, "stopped"), (Status.INTERRUPTED, "interrupted, as the process ended")):
        if some := sum(one.status is status for one in batch.drills):
            parts.append(f"{some} {words}")
    return ", ".join(parts)


def _rows(seen: Coverage) -> list[RowLine]:
    spec = seen.page.spec
    found = ladders(table_with(spec.decision_table), spec)
    lines = [_line(seen, one, found) for one in seen.cells]
    return [
        RowLine(failure, STRIKES[failure], tuple(one for one in lines if one.view.failure is failure))
        for failure in FailureType
    ]


def _line(seen: Coverage, one: CellView, found: Ladders) -> CellLine:
    """Return a cell with its ladder, in the stage in which drills meet the failure."""
    stage = met_in(seen.page.spec, one.failure)
    rungs, layered = ladder_in(found, one.failure, one.tier, stage)
    shown = one.now or one.last
    return CellLine(
        view=one,
        mark=cell_mark(one.state),
        rungs=rungs,
        met_in=stage.replace("_", "-") if layered else "",
        address=reverse("drill", args=[shown.id]) if shown else "",
        drilled=_name_drilled(seen, one),
    )


def _name_drilled(seen: Coverage, one: CellView) -> str:
    if one.last is None:
        return ""
    if one.last.author:
        return "draft"
    return f"r{one.last.number}" if one.state is State.STALE and one.last.number != seen.fabric.number else ""


SHOWN = 10
"""Batches on a page."""


def build_last(actor: Actor, here: str, before: str) -> dict[str, Any]:
    """Return the context of ``drills/last.html``.

    ``here``: the page's address with a query. ``before``: the cursor at which the list continues.
    """
    found, more = batches_recent(actor, before=before, limit=SHOWN)
    return {
        "batches": [(one, came_marks(one.came)) for one in found],
        "older": found[-1].first if more else "",
        "newer": bool(before),
        "here": here,
    }
