"""Reads the drill results of all fabrics page by page, by seven statements a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q

from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.fabrics.lookup import FabricView, fabrics_page
from fabric.selectors.reach import match_visible
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.selectors.drill_views import NOT_FRESH, State
from simulator.drills.selectors.standings import FABRICS_MAX, FabricStanding, fabric_stands
from simulator.scenarios.promises.digests import CELLS, Cell

TREND_BATCHES = 8
"""Number of batches in the trend of a fabric."""
TREND_DRILLS = 2_000
"""Number of newest drills of the workspace from which trends are made."""


@dataclass(frozen=True, slots=True)
class BatchShare:
    """Result of one batch of a fabric's drills."""

    passed: int
    drilled: int
    """Drills with a verdict."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A published fabric with its drill results."""

    fabric: FabricView
    stand: FabricStanding | None
    """None: another version published it, and this one cannot read it."""
    open: frozenset[Cell]
    """Cells that wait or run."""
    trend: tuple[BatchShare, ...]
    """The newest batches, the oldest first."""

    @property
    def due(self) -> tuple[Cell, ...]:
        """Return the cells without a fresh verdict that neither wait nor run, row by row."""
        states = self.stand.states if self.stand else {}
        return tuple(cell for cell in CELLS if states.get(cell) in NOT_FRESH and cell not in self.open)

    def count(self, state: State) -> int:
        """Return the number of cells in a state."""
        return self.stand.counts.get(state, 0) if self.stand else 0


@dataclass(frozen=True, slots=True)
class FleetPage:
    """A page of fabrics by name."""

    rows: tuple[FleetRow, ...]
    next: str
    """Name at which the next page continues; empty if this is the last one."""


def fleet_page(actor: Actor, *, after: str = "", never: bool = False, limit: int = FABRICS_MAX) -> FleetPage:
    """Return a page of the workspace's published fabrics with their drill results in simulated time.

    ``after``: ``next`` of the page before. ``never``: only fabrics that were never drilled. ``limit``: at most
    ``FABRICS_MAX``.
    """
    published, more = fabrics_page(
        actor, after=after, limit=min(limit, FABRICS_MAX), only=_undrilled() if never else None
    )
    stands = {one.fabric: one for one in fabric_stands(actor, published)}
    ids = [one.id for one in published]
    open_now, trends = _open_cells(ids), _trends(actor, ids)
    rows = [
        FleetRow(one, stands.get(one.name), frozenset(open_now.get(one.id, ())), trends.get(one.id, ()))
        for one in published
    ]
    if never:  # A verdict about a draft may count for a fabric without a drill of its own.
        rows = [row for row in rows if row.stand is not None and row.stand.never]
    return FleetPage(tuple(rows), published[-1].name if more else "")


def fleet_rows(actor: Actor, after: str = "") -> Iterator[FleetRow]:
    """Yield every published fabric of the workspace, page by page. ``after``: those whose name follows this one."""
    page = fleet_page(actor, after=after)
    yield from page.rows
    while page.next:
        page = fleet_page(actor, after=page.next)
        yield from page.rows


def _undrilled() -> Q:
    """Return the condition on a fabric without a judged drill of its own."""
    own = Drill.objects.filter(fabric_id=OuterRef("pk"), mode=VIRTUAL, scenario="").exclude(verdict="")
    return Q(~Exists(own))


def _open_cells(ids: Sequence[str]) -> Mapping[str, set[Cell]]:
    """Return the cells of each fabric that wait or run."""
    rows = Drill.objects.filter(fabric_id__in=ids, mode=VIRTUAL, scenario="", status__in=OPEN_STATUSES)
    found: dict[str, set[Cell]] = defaultdict(set)
    for fabric, failure, tier in rows.values_list("fabric_id", "failure", "tier"):
        found[fabric].add((FailureType(failure), Tier(tier)))
    return found


def _trends(actor: Actor, ids: Sequence[str]) -> Mapping[str, tuple[BatchShare, ...]]:
    """Return the newest batches of each fabric, among the newest drills of the workspace."""
    newest = Drill.objects.filter(match_visible(actor, Drill)).order_by("-id").values("id")[:TREND_DRILLS]
    rows = Drill.objects.filter(id__in=newest, fabric_id__in=ids, mode=VIRTUAL, scenario="").exclude(verdict="")
    found: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for fabric, batch, verdict in rows.order_by("batch").values_list("fabric_id", "batch", "verdict"):
        found[fabric][batch].append(verdict == State.PASS)
    return {
        fabric: tuple(BatchShare(sum(one), len(one)) for one in list(batches.values())[-TREND_BATCHES:])
        for fabric, batches in found.items()
    }
