"""The runs of drills: the same rows as the list of runs has, under the drill that each is of, with its verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.drill_words import Mark, cell_words, drill_mark
from console.views.runs_rows import Line, lines
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabrics_list
from simulator.drills.kept import PAGE, DrillRuns, drills_with_runs
from simulator.drills.names import SAID
from simulator.drills.selectors import DrillView


@dataclass(frozen=True, slots=True)
class Group:
    """A drill and its runs as rows."""

    drill: DrillView
    title: str
    mark: Mark
    rows: tuple[tuple[str, Line], ...]
    """``(part in a word, row)``."""


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The newest drills whose runs are kept; of one fabric where it is named, else of all. Refused not_found for a name that is none."""
    actor, now = actor_of(request.user), time.time_ns() // 1_000
    name, offered = request.GET.get("fabric", ""), fabrics_list(actor)
    if name and name not in {one.name for one in offered}:
        raise Refused(f"no fabric is named {name[:80]!r}; choose one of the list", code="not_found", field="fabric")
    before = request.GET.get("before", "")
    found, more = drills_with_runs(actor, fabric=name, before=before, limit=PAGE)
    shown = {
        "groups": [_group(one, now) for one in found],
        "offered": offered,
        "fabric": name,
        "first": _address(name) if before else "",
        "older": _address(name, found[-1].drill.id) if more else "",
        "now_ms": now // 1_000,
    }
    return render(request, "drills/runs.html", shown)


def _address(name: str, before: str = "") -> str:
    asked = {key: value for key, value in (("fabric", name), ("before", before)) if value}
    return reverse("drills-runs") + (f"?{urlencode(asked)}" if asked else "")


def _group(one: DrillRuns, now: int) -> Group:
    rows = lines([run for _, run in one.runs], now)
    said = [SAID.get(part, part) for part, _ in one.runs]
    return Group(one.drill, cell_words(one.drill), drill_mark(one.drill), tuple(zip(said, rows, strict=True)))
