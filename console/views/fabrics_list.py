"""The list of fabrics: what is published, what is only drafted, and how each stands."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.fabrics import MIX, Share, outcome_mix
from fabric.core.actor import Actor
from fabric.selectors.change_requests import change_requests, requests_open
from fabric.selectors.drafts import DraftLine, drafts_by_fabric
from fabric.selectors.fabric_activity import Activities, Activity, fabric_activities
from fabric.selectors.fabrics import FabricView, fabrics_list
from simulator.drills.selectors import State
from simulator.drills.standing import Stand, fabric_stands

ASKED_SHOWN = 5
"""Changes that wait for a second person and are named above the list."""
DRAFTS_SHOWN = 3
"""Authors that are named beside a fabric; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafts of one fabric."""

    own: DraftLine | None
    others: tuple[DraftLine, ...]
    """The first few."""
    more: int


@dataclass(frozen=True, slots=True)
class Line:
    """A published fabric in the list."""

    fabric: FabricView
    activity: Activity
    mix: Sequence[Share]
    drafts: Drafts
    stand: Stand | None
    """How its drills stand; None: it was not looked at."""
    requests: int
    """Changes that wait for a second person."""

    @property
    def stale(self) -> int:
        """Cells whose verdict is about what they were before."""
        return self.stand.counts.get(State.STALE, 0) if self.stand else 0

    @property
    def wrong(self) -> int:
        """Cells that did not do what the table says, or could not be drilled."""
        return sum(self.stand.counts.get(state, 0) for state in (State.DEVIATED, State.ERROR)) if self.stand else 0

    @property
    def tone(self) -> str:
        """Of its coverage."""
        if self.stand is None or self.stand.never:
            return "neutral"
        return "danger" if self.wrong else "ok" if self.stand.proven == self.stand.cells else "warn"


@require_safe
def fabrics(request: HttpRequest) -> HttpResponse:
    """Every fabric that is published or drafted, and how it stands. A constant number of statements."""
    actor = actor_of(request.user)
    found = fabric_activities(actor, time.time_ns() // 1_000)
    drafts = drafts_by_fabric(actor)
    lines = _lines(actor, found, drafts)
    names = {line.fabric.name for line in lines}
    only = [(name, _drafts(actor, rows)) for name, rows in drafts.items() if name not in names]
    asked = [one for one in change_requests(actor, most=ASKED_SHOWN) if one.waits]
    shown = {"lines": lines, "only": only, "cut": found.cut, "legend": MIX.values(), "asked": asked}
    return render(request, "fabrics/list.html", shown)


def _lines(actor: Actor, activities: Activities, drafts: Mapping[str, Sequence[DraftLine]]) -> list[Line]:
    published = fabrics_list(actor)
    stands = {stand.fabric: stand for stand in fabric_stands(published)}
    requests = requests_open(actor)
    return [
        Line(
            fabric,
            activity := activities.of(fabric.id),
            outcome_mix(activity.mix),
            _drafts(actor, drafts.get(fabric.name, ())),
            stands.get(fabric.name),
            requests.get(fabric.name, 0),
        )
        for fabric in published
    ]


def _drafts(actor: Actor, rows: Sequence[DraftLine]) -> Drafts:
    own = next((row for row in rows if row.author == actor.name), None)
    others = [row for row in rows if row.author != actor.name]
    return Drafts(own, tuple(others[:DRAFTS_SHOWN]), max(0, len(others) - DRAFTS_SHOWN))
