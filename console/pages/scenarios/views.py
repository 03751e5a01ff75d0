"""Lists the scenarios of the workspace by failure, recommends some for a fabric, and shows their last results in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.pages.drills.remembered import pick_fabric, remember_fabric
from console.pages.scenarios.words import ORIGINS, PORT_WORDS, TierCell, enters_words, port_choices, tier_cells
from console.site.access.actors import find_actor
from console.templatetags.marks import FAILURES
from fabric.core.people.roles import Right
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import FabricView, fabrics_list, revision_spec
from simulator.drills.library.recommendations import recommend_scenarios
from simulator.drills.library.selectors import ScenarioView, Shown, scenarios_list, scenarios_shown
from simulator.drills.services.drill_stop import find_drill_stop
from simulator.scenarios.spec.words import INFRASTRUCTURE, ports

NONE = "none"
"""Value of the row filter for scenarios that happen around a run."""
TYPED_MAX = 200


class LibraryFilter(NamedTuple):
    """Filter of the library."""

    text: str
    enters: str
    port: str
    origin: str

    @property
    def any(self) -> bool:
        """Return True if a filter is set."""
        return any(self)

    def takes(self, view: ScenarioView) -> bool:
        """Return True if a scenario passes the filter."""
        one = view.scenario
        if one is None:
            return not (self.enters or self.port) and self._origin(view) and self._matches_text(view, "")
        row = str(one.failure or NONE)
        enters = self.enters in ("", row)
        port = not self.port or self.port in ports(one)
        words = " ".join(
            [one.title, one.description, enters_words(one), *one.tags, *(each.fault for each in one.disturbance)]
        )
        return enters and port and self._origin(view) and self._matches_text(view, words)

    def _origin(self, view: ScenarioView) -> bool:
        return self.origin in ("", view.origin)

    def _matches_text(self, view: ScenarioView, told: str) -> bool:
        whole = f"{view.name} {told}".lower()
        return all(word in whole for word in self.text.lower().split())


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """A scenario as a line of the library."""

    view: ScenarioView
    faults: list[str]
    ports: list[str]
    cells: list[TierCell]
    origin: str
    """Its origin in a word; empty if it comes with the product."""
    why: str = ""
    """Why it is recommended, one phrase; empty if it is not."""


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """Scenarios that enter one row of the decision table."""

    key: str
    words: str
    rows: list[ScenarioRow]


@require_safe
def scenarios(request: HttpRequest) -> HttpResponse:
    """Show the library. ``fabric``: whose verdicts are shown; ``q``, ``enters``, ``port``, ``origin``: the filter."""
    actor = find_actor(request.user)
    wanted = LibraryFilter(
        *(request.GET.get(name, "")[:TYPED_MAX].strip() for name in ("q", "enters", "port", "origin"))
    )
    fabric = pick_fabric(request, actor, request.GET.get("fabric", ""))
    every = scenarios_list(actor)
    found = [one for one in every if wanted.takes(one)]
    verdicts = scenarios_shown(actor, fabric.name) if fabric else ({}, {})
    shown = {
        "count": len(found),
        "groups": group_by_failure([build_row(one, fabric, *verdicts) for one in found]),
        "recommended": _recommend(fabric, every, verdicts) if fabric and not wanted.any else [],
        "may_run": fabric is not None and actor.place_at(fabric.name).may(Right.RUN),
        "drill_stop": find_drill_stop(actor),
        "wanted": wanted,
        "every": len(every),
        "fabric": fabric,
        "offered": fabrics_list(actor),
        "tiers": list(Tier),
        "failures": [*((str(one), FAILURES[one]) for one in FailureType), (NONE, INFRASTRUCTURE)],
        "ports": port_choices(),
        "origins": [(name, word) for name, (word, _) in ORIGINS.items()],
        "clear": f"{reverse('scenarios')}?{urlencode({'fabric': fabric.name})}" if fabric else reverse("scenarios"),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return remember_fabric(request, render(request, "scenarios/library.html", shown), fabric)


UNREADABLE = "unreadable"
"""Key of the group of scenarios that this version cannot read."""


def group_by_failure(rows: Sequence[ScenarioRow]) -> list[ScenarioGroup]:
    """Return the scenarios by the row that they enter, in the table's order, without empty groups."""
    names = {str(one): FAILURES[one] for one in FailureType} | {NONE: INFRASTRUCTURE, UNREADABLE: "cannot be read"}
    found: dict[str, list[ScenarioRow]] = {key: [] for key in names}
    for row in rows:
        one = row.view.scenario
        found[UNREADABLE if one is None else str(one.failure or NONE)].append(row)
    return [ScenarioGroup(key, names[key], some) for key, some in found.items() if some]


def _recommend(fabric: FabricView, every: Sequence[ScenarioView], verdicts: tuple[Shown, Shown]) -> list[ScenarioRow]:
    """Return the recommended scenarios of a fabric; none for a revision that this version cannot read."""
    try:
        found = recommend_scenarios(revision_spec(fabric.revision_id), every)
    except (Refused, ValueError):
        return []
    return [build_row(one.view, fabric, *verdicts, why=one.why) for one in found]


def build_row(
    view: ScenarioView, fabric: FabricView | None, shown: Shown, waiting: Shown, *, why: str = ""
) -> ScenarioRow:
    """Return a scenario as a line."""
    one = view.scenario
    return ScenarioRow(
        view=view,
        why=why,
        faults=list(dict.fromkeys(each.fault for each in one.disturbance)) if one else [],
        ports=[PORT_WORDS[port] for port in ports(one)] if one else [],
        cells=tier_cells(view, fabric.revision_id if fabric else "", shown, waiting),
        origin="" if view.origin == "shipped" else ORIGINS[view.origin][0],
    )
