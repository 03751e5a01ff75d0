"""The drills: which cells of a fabric's decision table have been shown to do what they say, and having them shown."""

from __future__ import annotations

import threading
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

from console.access import actor_of
from console.forms import sentence
from console.views import drill_live, errors
from console.views.drill_asking import NAME_MAX, AskForm, asked_words, cells_of
from console.views.drill_going import Going
from console.views.drill_last import last_of
from console.views.drill_words import CELLS, STRIKES, Mark, cell_mark
from console.views.fabric_table import RungLine, cell_anchor, ladder_in
from console.views.overview import SHARED_S, fresh_part
from fabric.core.actor import Actor
from fabric.core.decision_table import table_with
from fabric.core.retry_layers import Ladders, ladders
from fabric.core.roles import Right
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.words import duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, fabrics_list
from fabric.selectors.standing import workers_alive_count
from simulator.drills import tasks
from simulator.drills.layers import met_in
from simulator.drills.lever import drills_frame, lever_of
from simulator.drills.live_asking import may_ask_live
from simulator.drills.models import LIVE, VIRTUAL, Status
from simulator.drills.selectors import BatchView, CellView, Coverage, State, batch_get, coverage, drills_recent
from simulator.drills.services import drill_ask, drill_stop, may_stop
from simulator.drills.unmet import unmet_said

MODES = {VIRTUAL: "Virtual", LIVE: "Live"}
"""In words; total, by test."""
BOARDS_MAX = 256
"""Renderings kept at once."""


class StopForm(forms.Form):
    """On whose page somebody stops drills."""

    fabric = forms.CharField(max_length=NAME_MAX)


@dataclass(frozen=True, slots=True)
class CellLine:
    """A cell as it is shown."""

    view: CellView
    mark: Mark
    rungs: tuple[RungLine, ...]
    met_in: str
    """The stage whose retry layers, or rules of a graph, stand among them; empty: they are the cell's own, whatever the stage."""
    address: str
    """Of the drill that it is by, or that goes on; empty: it was never drilled."""
    before: int
    """The revision of a stale verdict, where it is an earlier one; 0: it is not."""

    @property
    def anchor(self) -> str:
        """Its id in the page."""
        return cell_anchor(self.view.failure, self.view.tier)

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return self.view.now is not None


@dataclass(frozen=True, slots=True)
class RowLine:
    """A row of the matrix."""

    failure: FailureType
    strikes: str
    cells: tuple[CellLine, ...]

    @property
    def open(self) -> bool:
        """Whether all of it waits or runs."""
        return all(one.open for one in self.cells)


@require_safe
def drills(request: HttpRequest) -> HttpResponse:
    """The coverage of one fabric, by drills of one mode; without its name that of the one that was drilled last. With cells to ``ask`` for live: what that would do."""
    name, mode = request.GET.get("fabric", ""), mode_of(request)
    if mode == LIVE and "ask" in request.GET:
        picked = {key: request.GET.get(key, "") for key in ("fabric", "number", "seed", "mode")}
        return drill_live.confirm(request, AskForm({**picked, "cells": request.GET["ask"]}))
    return _page(request, name, mode=mode)


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes, for the page's script; whoever else comes here is led to the page."""
    name, mode = request.GET.get("fabric", ""), mode_of(request)
    if not request.headers.get("HX-Request"):
        return redirect(_address(name, mode) if name else reverse("drills"))
    now, actor = time.time_ns() // 1_000, actor_of(request.user)
    return fresh_part(request, _boards.shared(actor, name, mode), now)


def mode_of(request: HttpRequest) -> str:
    """The mode that a page is asked for in: virtual, unless it is live."""
    return LIVE if request.GET.get("mode") == LIVE else VIRTUAL


@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Asks for drills. 409: nothing is stale, or all of it waits already; 422: the form was not whole."""
    actor, form = actor_of(request.user), AskForm(request.POST)
    name = request.POST.get("fabric", "")
    if not form.is_valid():
        problem = "The form was not whole, and nothing was asked for: load the page again."
        if form.live and not form.errors.keys() & {"fabric", "cells", "number"}:
            return drill_live.confirm(request, form, "Nothing was asked for: look at what was given.", 422)
        return _page(request, name, problem, 422)
    given, how = form.cleaned_data, form.how()
    try:
        cells, wake = cells_of(given["cells"]), tasks.wake
        asked = drill_ask(
            actor=actor, fabric=given["fabric"], cells=cells, number=given["number"], seed=given["seed"], wake=wake, **how
        )  # fmt: skip
    except Refused as refusal:
        said, status = sentence(refusal.message), errors.STATUS[refusal.code]
        if form.live and refusal.code in ("forbidden", "unavailable"):
            return drill_live.confirm(request, form, said, status)
        return _page(request, name, said, status, mode=how["mode"])
    messages.success(request, asked_words(asked, how["mode"]))
    if given["seed"] is not None and len(asked.drills) == 1:
        return redirect("drill", drill_id=asked.drills[0])
    return redirect(_address(given["fabric"], how["mode"]))


@require_POST
def stop(request: HttpRequest, batch: str) -> HttpResponse:
    """Stops what is left of a batch. 403: it is somebody else's; 409: all of it has ended; 422: the form was not whole."""
    actor, form = actor_of(request.user), StopForm(request.POST)
    mode = batch_get(actor, batch).drills[0].mode
    if not form.is_valid():
        return _page(request, "", "The form was not whole, and nothing was stopped: load the page again.", 422)
    name = form.cleaned_data["fabric"]
    try:
        stopped = drill_stop(actor=actor, batch=batch)
    except Refused as refusal:
        return _page(request, name, sentence(refusal.message), errors.STATUS[refusal.code], mode=mode)
    messages.success(request, f"{stopped} drill{'s were' if stopped != 1 else ' was'} stopped.")
    return redirect(_address(name, mode))


def _address(name: str, mode: str) -> str:
    return f"{reverse('drills')}?{urlencode({'fabric': name} | ({'mode': mode} if mode != VIRTUAL else {}))}"


def fabric_named(actor: Actor, name: str) -> FabricView | None:
    """The fabric that is meant; None: there is none at all. Refused not_found for a name that is none."""
    offered = fabrics_list(actor)
    if not offered:
        return None
    by_name = {one.name: one for one in offered}
    if name:
        found = by_name.get(name)
        if found is None:
            message = f"no fabric is named {name[:80]!r}; there are: {', '.join(list(by_name)[:20])}"
            raise Refused(message, code="not_found", field="fabric")
        return found
    last, _ = drills_recent(actor, limit=1)
    return by_name.get(last[0].fabric, offered[0]) if last else offered[0]


def _page(
    request: HttpRequest, name: str, problem: str = "", status: int = 200, *, mode: str = VIRTUAL
) -> HttpResponse:
    actor, now_ms = actor_of(request.user), time.time_ns() // 1_000_000
    found = fabric_named(actor, name)
    if found is None:
        return render(request, "drills/none.html", {"now_ms": now_ms, "problem": problem}, status=status)
    seen = coverage(actor, found.name, mode)
    shown = {
        "live": mode == LIVE,
        "part": f"{reverse('drills-live')}?{urlencode({'fabric': found.name, 'mode': mode})}",
        "fabric": found,
        "offered": fabrics_list(actor),
        "board": _boards.fresh(actor, seen),
        "now_ms": now_ms,
        "problem": problem,
        "last": last_of(actor, _address(found.name, mode), request.GET.get("before", "")),
    }
    return render(request, "drills/coverage.html", shown, status=status)


# -- the board ---------------------------------------------------------------------------------------------------------


def _board(actor: Actor, seen: Coverage) -> str:
    return render_to_string("drills/board.html", board_of(actor, seen))


class _Boards:
    """The last rendering of each fabric's board for those who may stop the same drills, and when it was made (a monotonic clock, seconds)."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ...], tuple[float, str]] = {}
        self._making = threading.Lock()

    def fresh(self, actor: Actor, seen: Coverage) -> str:
        """A new rendering: who opens the page sees what they have just done."""
        html = _board(actor, seen)
        if len(self._made) >= BOARDS_MAX:
            self._made.clear()
        self._made[_whose(actor, seen.fabric.name, seen.mode)] = (time.monotonic(), html)
        return html

    def shared(self, actor: Actor, name: str, mode: str) -> str:
        """A rendering that is at most ``SHARED_S`` old; of many who ask at once, one makes it. Refused not_found."""
        with self._making:
            made_at, html = self._made.get(_whose(actor, name, mode), (0.0, ""))
            if html and time.monotonic() - made_at < SHARED_S:
                return html
            return self.fresh(actor, coverage(actor, name, mode))


def _whose(actor: Actor, name: str, mode: str) -> tuple[str, ...]:
    """Operators see the same; others may stop what they asked for themselves, and some only look."""
    actor, whole = actor.at(name), (actor.workspace_id, *actor.fabrics, *(actor.reach or ()))
    if actor.may(Right.OPERATE):
        return *whole, name, mode
    return *whole, name, mode, actor.name if actor.may(Right.RUN) else ""


_boards = _Boards()


def board_of(actor: Actor, seen: Coverage) -> dict[str, Any]:
    """What the board shows."""
    actor, counts = actor.at(seen.fabric.name), seen.counts
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
        "lever": lever_of(actor),
    }  # fmt: skip


def answer(seen: Coverage) -> str:
    """The page's sentence, for who cannot see the matrix."""
    counts = seen.counts
    told = ", ".join(f"{counts[state]} {CELLS[state][0].lower()}" for state in CELLS if counts.get(state))
    return f"{seen.proven} of 24 cells proven for r{seen.fabric.number}: {told}"


def last_words(batch: BatchView | None) -> str:
    """How long the last batch took, and what did not come to its end."""
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
    """A cell with all that a drill of it goes down, in the stage in which drills meet the failure."""
    stage = met_in(seen.page.spec, one.failure)
    rungs, layered = ladder_in(found, one.failure, one.tier, stage)
    shown = one.now or one.last
    before = one.last.number if one.state is State.STALE and one.last else 0
    return CellLine(
        view=one,
        mark=cell_mark(one.state),
        rungs=rungs,
        met_in=stage.replace("_", "-") if layered else "",
        address=reverse("drill", args=[shown.id]) if shown else "",
        before=before if before != seen.fabric.number else 0,
    )
