"""The batches that were drilled last, as a part of the drills' pages."""

from __future__ import annotations

from typing import Any

from console.views.drill_marks import came_marks
from fabric.core.actor import Actor
from simulator.drills.recent import batches_recent

SHOWN = 10
"""Batches on a page."""


def last_of(actor: Actor, here: str, before: str) -> dict[str, Any]:
    """What ``drills/last.html`` shows. ``here``: the page's address, with a query. ``before``: where the list is continued."""
    found, more = batches_recent(actor, before=before, limit=SHOWN)
    return {
        "batches": [(one, came_marks(one.came)) for one in found],
        "older": found[-1].first if more else "",
        "newer": bool(before),
        "here": here,
    }
