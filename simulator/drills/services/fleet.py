"""Starts drills of all stale cells of all fabrics, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from simulator.drills.selectors.fleet import fleet_rows
from simulator.drills.services.drills import drill_ask

FABRICS_AT_ONCE = 20
"""Fabrics of one request at most, so 480 drills."""


@dataclass(frozen=True, slots=True)
class FleetAsked:
    """Result of a request for all stale cells."""

    cells: int
    """Number of started drills."""
    fabrics: int
    """Number of fabrics that they drill."""
    left: int
    """Number of further fabrics with stale cells, which wait for the next request."""


def stale_ask(*, actor: Actor, reason: str = "", wake: Callable[[], None] = lambda: None) -> FleetAsked:
    """Start virtual drills of each cell without a fresh verdict, of all fabrics where the actor may start drills.

    Cells that wait or run are left out. ``wake``: called when the rows are written; it may fail. Raises Refused:
    forbidden (the actor may start drills nowhere), conflict (nothing is stale, or the drill stop is pulled).
    """
    right_wanted(actor, Right.RUN, "start drills", anywhere=True)
    cells = fabrics = left = 0
    for row in fleet_rows(actor):
        if not row.due or not actor.place_at(row.fabric.name).may(Right.RUN):
            continue
        if fabrics == FABRICS_AT_ONCE:
            left += 1
            continue
        try:
            asked = drill_ask(actor=actor, fabric=row.fabric.name, cells=row.due, reason=reason)
        except Refused as refusal:
            if refusal.field != "cells":
                raise
            continue  # Another request took these cells at the same moment.
        cells, fabrics = cells + len(asked.drills), fabrics + 1
    if not fabrics:
        message = "no cell of any fabric is stale: each has a verdict about what it is now, or is being drilled"
        raise Refused(message, code="conflict", field="cells")
    wake()
    return FleetAsked(cells, fabrics, left)
