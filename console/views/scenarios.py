"""The library: every scenario of the workspace, what it strikes, and what it was last seen to show of a fabric."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.templatetags.marks import FAILURES
from console.views.drills import fabric_named
from console.views.scenario_words import (
    ORIGINS,
    PORT_WORDS,
    TierCell,
    enters_words,
    port_choices,
    tier_cells,
)
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.fabrics import FabricView, fabrics_list
from simulator.library.selectors import ScenarioView, Shown, scenarios_list, scenarios_shown
from simulator.library.words import ports

NONE = "none"
"""Of the filter by row: those that happen around a run."""
TYPED_MAX = 200


class Filter(NamedTuple):
    """What is looked for."""

    text: str
    enters: str
    port: str
    origin: str

    @property
    def any(self) -> bool:
        """Whether anything is."""
        return any(self)

    def takes(self, view: ScenarioView) -> bool:
        """Whether a scenario is one of those."""
        one = view.scenario
        if one is None:
            return not (self.enters or self.port) and self._origin(view) and self._said(view, "")
        row = str(one.failure or NONE)
        enters = self.enters in ("", row)
        port = not self.port or self.port in ports(one)
        words = " ".join(
            [one.title, one.description, enters_words(one), *one.tags, *(each.fault for each in one.disturbance)]
        )
        return enters and port and self._origin(view) and self._said(view, words)

    def _origin(self, view: ScenarioView) -> bool:
        return self.origin in ("", view.origin)

    def _said(self, view: ScenarioView, told: str) -> bool:
        whole = f"{view.name} {told}".lower()
        return all(word in whole for word in self.text.lower().split())


@dataclass(frozen=True, slots=True)
class Row:
    """A scenario as a line of the library."""

    view: ScenarioView
    enters: str
    faults: list[str]
    ports: list[str]
    cells: list[TierCell]
    origin: str


@require_safe
def scenarios(request: HttpRequest) -> HttpResponse:
    """The page. ``fabric``: whose verdicts are shown; ``q``, ``enters``, ``port``, ``origin``: what is looked for."""
    actor = actor_of(request.user)
    wanted = Filter(*(request.GET.get(name, "")[:TYPED_MAX].strip() for name in ("q", "enters", "port", "origin")))
    fabric = fabric_named(actor, request.GET.get("fabric", ""))
    every = scenarios_list(actor)
    found = [one for one in every if wanted.takes(one)]
    verdicts = scenarios_shown(actor, fabric.name) if fabric else ({}, {})
    rows = [row_of(one, fabric, *verdicts) for one in found]
    shown = {
        "rows": rows,
        "wanted": wanted,
        "every": len(every),
        "fabric": fabric,
        "offered": fabrics_list(actor),
        "tiers": list(Tier),
        "failures": [*((str(one), FAILURES[one]) for one in FailureType), (NONE, "around a run")],
        "ports": port_choices(),
        "origins": [(name, word) for name, (word, _) in ORIGINS.items()],
        "clear": f"{reverse('scenarios')}?{urlencode({'fabric': fabric.name})}" if fabric else reverse("scenarios"),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "drills/library.html", shown)


def row_of(view: ScenarioView, fabric: FabricView | None, shown: Shown, waiting: Shown) -> Row:
    """A scenario as a line."""
    one = view.scenario
    return Row(
        view=view,
        enters=enters_words(one),
        faults=list(dict.fromkeys(each.fault for each in one.disturbance)) if one else [],
        ports=[PORT_WORDS[port] for port in ports(one)] if one else [],
        cells=tier_cells(view, fabric.revision_id if fabric else "", shown, waiting),
        origin=ORIGINS[view.origin][0],
    )
