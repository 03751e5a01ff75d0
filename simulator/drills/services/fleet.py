"""Starts drills of all stale cells of all fabrics, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from simulator.drills.selectors.fleet import fleet_rows
from simulator.drills.services.drills import DrillsAsked, drill_ask

FABRICS_AT_ONCE = 20
"""Fabrics of one request at most, so 480 drills."""


@dataclass(frozen=True, slots=True)
class FleetAsked:
    """Result of a request for all stale cells."""

    asked: Mapping[str, DrillsAsked]
    """Started drills by fabric."""
    left: int
    """Number of further fabrics with stale cells, which wait for the next request."""

    @property
    def cells(self) -> int:
        """Return the number of started drills."""
        return sum(len(one.drills) for one in self.asked.values())

    @property
    def fabrics(self) -> int:
        """Return the number of fabrics that they drill."""
        return len(self.asked)


def stale_ask(
    *,
    actor: Actor,
    reason: str = "",
    seed: int | None = None,
    after: str = "",
    wake: Callable[[], None] = lambda: None,
) -> FleetAsked:
    """Start virtual drills of each cell without a fresh verdict, of all fabrics where the actor may start drills.

    Cells that wait or run are left out. ``after``: only fabrics whose name follows this one. ``seed``, ``wake``: as
    ``drill_ask`` takes them. Raises Refused: forbidden (the actor may start drills nowhere), conflict (nothing is
    stale, or the drill stop is pulled).
    """
    right_wanted(actor, Right.RUN, "start drills", anywhere=True)
    found: dict[str, DrillsAsked] = {}
    left = 0
    for row in fleet_rows(actor, after=after):
        name = row.fabric.name
        if not row.due or not actor.place_at(name).may(Right.RUN):
            continue
        if len(found) == FABRICS_AT_ONCE:
            left += 1
            continue
        try:
            found[name] = drill_ask(actor=actor, fabric=name, cells=row.due, seed=seed, reason=reason)
        except Refused as refusal:
            if refusal.field != "cells":
                raise
            continue  # Another request took these cells at the same moment.
    if not found:
        message = "no cell of any fabric is stale: each has a verdict about what it is now, or is being drilled"
        raise Refused(message, code="conflict", field="cells")
    wake()
    return FleetAsked(found, left)
