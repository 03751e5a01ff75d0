"""Drills, cells, batches and coverage as pages, the API and reports see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.selectors.fabrics.lookup import FabricView, RevisionPage, revision_spec
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Status
from simulator.scenarios.promises.digests import Cell, covers, engine_version


class State(StrEnum):
    """State of a cell."""

    PASS = "pass"  # noqa: S105 - A verdict.
    DEVIATED = "deviated"
    ERROR = "error"
    UNKNOWN = "unknown"
    STALE = "stale"
    """It was drilled, and something that its verdict depends on has changed."""
    NEVER = "never"
    QUEUED = "queued"
    RUNNING = "running"


NOT_FRESH = frozenset({State.STALE, State.NEVER})
"""States of cells without a verdict about their present content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillView:
    """One drill. Instants are microseconds since the epoch, UTC."""

    id: str
    fabric: str
    """Its fabric's name."""
    number: int
    revision_id: str
    author: str
    """Author of the drilled draft; empty for a published revision."""
    mode: str
    scenario: str
    """Name of the played scenario; empty if the cell itself is drilled."""
    source: str = field(repr=False)
    """The scenario's TOML at the time of the request."""
    parameters: Mapping[str, JSON]
    """Values that replace the scenario's own."""
    failure: FailureType | None
    """Row of the decision table; None for a scenario that promises no decision."""
    cap_usd_micros: int | None
    """Cost at which a live one is ended."""
    cap_s: int | None
    """Duration at which a live one is ended."""
    tier: Tier
    seed: int
    covers: str
    batch: str
    place: int
    asked_by: str
    reason: str
    asked_at: int
    status: Status
    started_at: int | None
    ended_at: int | None
    verdict: str
    """Verdict; empty for none."""
    expected: str
    observed: str
    why: str
    stopped_by: str
    run_id: str
    """The disturbed run in the workspace of drills; empty if it was not kept."""
    body: Mapping[str, JSON] = field(repr=False)

    @property
    def drilled_fabric(self) -> str:
        """Return the drilled fabric: ``research-desk@r8``, or ``research-desk, draft of ana``."""
        return name_fabric(self.fabric, self.number, self.author)

    @property
    def cell(self) -> Cell | None:
        """Return its cell, or the cell that its scenario enters; None if it promises no decision."""
        return None if self.failure is None else (self.failure, self.tier)

    @property
    def ended(self) -> bool:
        """Return True if it has ended."""
        return self.status not in OPEN_STATUSES

    @property
    def took(self) -> int | None:
        """Return its duration, microseconds; None before its end, or if it never began."""
        return None if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at

    @property
    def equipment(self) -> tuple[str, ...]:
        """Return the parts added so that the fabric met the failure."""
        return tuple(self.body.get("equipped", ()))


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell and its state."""

    failure: FailureType
    tier: Tier
    state: State
    last: DrillView | None
    """The drill behind the state: the newest about the present cell, else the newest of all; None if never drilled."""
    now: DrillView | None
    """The drill that waits or runs."""

    @property
    def cell(self) -> Cell:
        """Return its failure and tier."""
        return self.failure, self.tier


@dataclass(frozen=True, slots=True)
class BatchView:
    """Drills that were requested together."""

    id: str
    asked_by: str
    asked_at: int
    drills: tuple[DrillView, ...]

    @property
    def done_count(self) -> int:
        """Return the number of ended drills."""
        return sum(one.ended for one in self.drills)

    @property
    def running_drill(self) -> DrillView | None:
        """Return the running drill; None if none runs."""
        return next((one for one in self.drills if one.status is Status.RUNNING), None)

    @property
    def took_s(self) -> float | None:
        """Return the seconds from the first begin to the last end; None while it goes on, or before it begins."""
        begun = [one.started_at for one in self.drills if one.started_at]
        ended = [one.ended_at for one in self.drills if one.ended_at]
        return (max(ended) - min(begun)) / 1e6 if begun and len(ended) == len(self.drills) else None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Drill results of the cells of a fabric's published revision."""

    page: RevisionPage
    cells: tuple[CellView, ...]
    """All 24, row by row."""
    batches: tuple[BatchView, ...]
    """Open batches of this fabric, the next one first."""
    ahead: int
    """Number of batches of this installation and mode that come before the first of them."""
    last: BatchView | None
    """The last ended batch."""
    mode: str = VIRTUAL

    @property
    def fabric(self) -> FabricView:
        """Return the fabric."""
        return self.page.fabric

    @property
    def counts(self) -> Mapping[State, int]:
        """Return the number of cells in each state."""
        return Counter(one.state for one in self.cells)

    @property
    def proven(self) -> int:
        """Return the number of cells that passed as they are now, also those being drilled again."""
        return sum(self.fresh(one) and one.last is not None and one.last.verdict == State.PASS for one in self.cells)

    def fresh(self, one: CellView) -> bool:
        """Return True if a cell's last verdict is about the present cell."""
        return one.last is not None and one.last.covers == cell_digests(self.fabric.revision_id)[one.cell]


@lru_cache(maxsize=256)
def cell_digests(revision_id: str) -> Mapping[Cell, str]:
    """Return the digests that the verdicts about a revision's cells depend on.

    A revision never changes, nor does the engine while a process lives.
    """
    return covers(revision_spec(revision_id), engine_version())


def name_fabric(fabric: str, number: int, author: str) -> str:
    """Return the drilled fabric in words. ``author``: of a draft; empty for the revision of that number."""
    return f"{fabric}, draft of {author}" if author else f"{fabric}@r{number}"
