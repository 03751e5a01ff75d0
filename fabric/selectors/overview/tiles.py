"""Tiles of the overview, which show whether anything is wrong now, each by a call of its own.

Every answer is bounded: live runs are read from the index of live runs, ended ones among the newest ``NEWEST_RUNS``,
and the result states where it was cut. Child runs are part of their parent, and so is their money. Instants are
microseconds since the epoch, UTC; money is micro-dollars. ``now`` is the caller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from fabric.core.people.actor import Actor
from fabric.core.values.flow import LIVE_STATES, TERMINAL, RunState
from fabric.models import Fabric, Incarnation, Run
from fabric.models.runs.run import ASKED_FOR, LIVE
from fabric.selectors.fabrics.lookup import FIRST_FABRIC, is_scripted, run_cap
from fabric.selectors.reach import match_visible

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
COUNTED = 1_000
"""Largest count; beyond it, only that there are more."""
NEWEST_RUNS = 10_000
"""Number of newest runs among which ended ones are looked for. Only the list of runs by age is indexed for them."""


def newest(actor: Actor) -> tuple[QuerySet[Run], bool]:
    """Return the workspace's newest runs, at most about ``NEWEST_RUNS``, and True if there are older ones."""
    rows = Run.objects.filter(match_visible(actor, Run), ASKED_FOR)
    oldest = rows.order_by("-created_at").values_list("created_at", flat=True)[NEWEST_RUNS : NEWEST_RUNS + 1]
    cut = next(iter(oldest), None)
    return (rows if cut is None else rows.filter(created_at__gt=cut)), cut is not None


def live_runs(actor: Actor, *states: RunState) -> QuerySet[Run]:
    """Return the workspace's runs in these live states, from the index of live runs."""
    values = [state.value for state in states]
    return Run.objects.filter(match_visible(actor, Run), LIVE, ASKED_FOR, state__in=values)


# -- runs by state -----------------------------------------------------------------------------------------------------


class Tile(StrEnum):
    """Group in which runs are counted."""

    RUNNING = "running"
    WAITING = "waiting"
    QUEUED = "queued"
    PAUSED = "paused"
    ENDING = "ending"
    QUARANTINED = "quarantined"
    COMPLETED = "completed"
    RECOVERED = "recovered"
    STOPPED = "stopped"
    ENDED_BADLY = "failed"
    CANCELLED = "cancelled"


TILE_OF: Mapping[RunState, Tile] = {
    RunState.RUNNING: Tile.RUNNING,
    RunState.WAITING: Tile.WAITING,
    RunState.QUEUED: Tile.QUEUED,
    RunState.PAUSED: Tile.PAUSED,
    RunState.CANCELLING: Tile.ENDING,
    RunState.UNWINDING: Tile.ENDING,
    RunState.QUARANTINED: Tile.QUARANTINED,
    RunState.COMPLETED: Tile.COMPLETED,
    RunState.STOPPED: Tile.STOPPED,
    RunState.FAILED: Tile.ENDED_BADLY,
    RunState.ABORTED: Tile.ENDED_BADLY,
    RunState.CANCELLED: Tile.CANCELLED,
}
"""Tile of each state; total over ``RunState``. A run that completed after recovery counts apart."""

SPARK_BINS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCount:
    """Runs of one tile: live ones now, ended ones within a span until now."""

    tile: Tile
    count: int
    capped: bool = False
    """True: there are more than ``count``."""
    oldest_at: int | None = None
    """Time of the oldest live run's request; None for ended ones."""
    spark: tuple[int, ...] = ()
    """Number of ended runs in each twelfth of the span, the oldest first."""


@dataclass(frozen=True, slots=True)
class States:
    """Runs by state."""

    tiles: Mapping[Tile, TileCount]
    cut: bool
    """True: only the newest ``NEWEST_RUNS`` ended runs were counted."""
    span: int = HOUR
    """Length of the time until now in which ended runs are counted."""

    @property
    def live(self) -> int:
        """Return the number of live runs, as far as they were counted."""
        return sum(self.tiles[TILE_OF[state]].count for state in LIVE_ONCE)

    @property
    def ended_count(self) -> int:
        """Return the number of runs that ended within the span."""
        return sum(tile.count for tile in self.tiles.values()) - self.live


LIVE_ONCE = tuple({TILE_OF[state]: state for state in LIVE_STATES}.values())
"""One live state for each tile that counts live runs."""


def states(actor: Actor, now: int, span: int = HOUR) -> States:
    """Return the number of runs in each state: live ones now, ended ones within the span until now."""
    tiles = {tile: _live_tile(actor, tile) for tile in Tile if tile in {TILE_OF[state] for state in LIVE_STATES}}
    rows, cut = newest(actor)
    bins: dict[Tile, list[int]] = {tile: [0] * SPARK_BINS for tile in Tile if tile not in tiles}
    ended = rows.filter(ended_at__gt=now - span).annotate(age=now - F("ended_at"))
    for state, recovered, age in ended.values_list("state", "recovered", "age"):
        tile = TILE_OF[RunState(state)]
        if tile is Tile.COMPLETED and recovered:
            tile = Tile.RECOVERED
        if tile in bins:
            bins[tile][SPARK_BINS - 1 - min(SPARK_BINS - 1, max(0, age) * SPARK_BINS // span)] += 1
    tiles |= {tile: TileCount(tile=tile, count=sum(bars), spark=tuple(bars)) for tile, bars in bins.items()}
    return States(tiles, cut, span)


def _live_tile(actor: Actor, tile: Tile) -> TileCount:
    of_tile = live_runs(actor, *(state for state in LIVE_STATES if TILE_OF[state] is tile))
    found = of_tile.order_by("created_at")[: COUNTED + 1].aggregate(count=Count("id"), oldest=Min("created_at"))
    count = found["count"]
    return TileCount(tile=tile, count=min(count, COUNTED), capped=count > COUNTED, oldest_at=found["oldest"])


# -- money -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpend:
    """Cost so far of one fabric's runs that were requested within a span until now."""

    fabric_name: str
    revision_number: int
    """Number of the revision whose run came nearest to its ceiling."""
    runs: int
    usd_micros: int
    dearest_usd_micros: int
    """Cost of the run that came nearest to its ceiling, and in the next field that ceiling."""
    cap_usd_micros: int
    succeeded: int

    @property
    def share(self) -> int:
        """Return the whole percent of its ceiling that the nearest run has spent. 100: a run without a budget spent
        any.
        """
        if not self.cap_usd_micros:
            return 100 if self.dearest_usd_micros else 0
        return 100 * self.dearest_usd_micros // self.cap_usd_micros

    @property
    def per_success_usd_micros(self) -> int | None:
        """Return the cost of all of them for each completed one; None while there is none."""
        return self.usd_micros // self.succeeded if self.succeeded else None


@dataclass(frozen=True, slots=True)
class Spend:
    """Spend by fabric, the one nearest to a ceiling first."""

    fabrics: tuple[FabricSpend, ...]
    cut: bool

    @property
    def usd_micros(self) -> int:
        """Return the whole spending."""
        return sum(fabric.usd_micros for fabric in self.fabrics)


def spend(actor: Actor, now: int, span: int = HOUR) -> Spend:
    """Sum the cost of each fabric's runs that were requested within the span, with the ceiling of a run."""
    rows, cut = newest(actor)
    grouped = (
        rows.filter(created_at__gt=now - span)
        .order_by()
        .values("fabric__name", "revision_id", "revision__number")
        .annotate(
            runs=Count("id"),
            usd=Sum("cost_usd_micros"),
            dearest=Max("cost_usd_micros"),
            succeeded=Count("id", filter=Q(state=RunState.COMPLETED.value)),
        )
    )
    found: dict[str, FabricSpend] = {}
    for row in grouped:
        one = FabricSpend(
            fabric_name=row["fabric__name"],
            revision_number=row["revision__number"],
            runs=row["runs"],
            usd_micros=row["usd"],
            dearest_usd_micros=row["dearest"],
            cap_usd_micros=run_cap(row["revision_id"]),
            succeeded=row["succeeded"],
        )
        found[one.fabric_name] = _together(found[one.fabric_name], one) if one.fabric_name in found else one
    return Spend(tuple(sorted(found.values(), key=lambda one: (-one.share, -one.usd_micros, one.fabric_name))), cut)


def _together(one: FabricSpend, other: FabricSpend) -> FabricSpend:
    """Return two revisions of one fabric as one; the ceiling is that of the run nearest to its own."""
    near = max(one, other, key=lambda spent: (spent.share, spent.dearest_usd_micros, spent.revision_number))
    return FabricSpend(
        fabric_name=one.fabric_name,
        revision_number=near.revision_number,
        runs=one.runs + other.runs,
        usd_micros=one.usd_micros + other.usd_micros,
        dearest_usd_micros=near.dearest_usd_micros,
        cap_usd_micros=near.cap_usd_micros,
        succeeded=one.succeeded + other.succeeded,
    )


# -- workers -----------------------------------------------------------------------------------------------------------

WORKERS_SHOWN = 50
STILL_LISTED = Q(retired_at__isnull=True) | Q(retired_at__gt=F("lease_until"))
"""Condition on listed workers: a stopping worker ends its own lease. Others retire a missing one, after its lease had
lapsed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One life of one worker process."""

    name: str
    host: str
    pid: int
    started_at: int
    lease_until: int
    alive: bool
    """False if its lease has lapsed without a sign-off."""
    runs: int
    """Runs of this workspace that it owns."""


@dataclass(frozen=True, slots=True)
class WorkersView:
    """Present worker processes, and those that went missing within the last hour."""

    workers: tuple[WorkerView, ...]

    @property
    def alive(self) -> tuple[WorkerView, ...]:
        """Return the workers with a valid lease."""
        return tuple(worker for worker in self.workers if worker.alive)

    @property
    def missing_workers(self) -> tuple[WorkerView, ...]:
        """Return those that were present within the hour and left without a sign-off."""
        return tuple(worker for worker in self.workers if not worker.alive)


def workers(actor: Actor, now: int) -> WorkersView:
    """Return the worker processes by their leases, those with the most runs first. They serve every workspace; the
    runs counted are the actor's.
    """
    rows = list(
        Incarnation.objects.filter(STILL_LISTED, lease_until__gt=now - HOUR)
        .order_by("-lease_until", "name")
        .values("name", "host", "pid", "started_at", "lease_until", gone=Q(retired_at__isnull=False))[:WORKERS_SHOWN]
    )
    owned = Run.objects.filter(match_visible(actor, Run), incarnation__in=[row["name"] for row in rows])
    counts = dict(owned.order_by().values("incarnation").annotate(runs=Count("id")).values_list("incarnation", "runs"))
    found = [
        WorkerView(
            name=row["name"],
            host=row["host"],
            pid=row["pid"],
            started_at=row["started_at"],
            lease_until=row["lease_until"],
            alive=not row["gone"] and row["lease_until"] > now,
            runs=counts.get(row["name"], 0),
        )
        for row in rows
    ]
    return WorkersView(tuple(sorted(found, key=lambda worker: (not worker.alive, -worker.runs, worker.name))))


def workers_alive(now: int) -> bool:
    """Return True if any worker could claim a run."""
    return Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).exists()


# -- the first minutes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """Progress of a new workspace: a fabric that needs no key, a run, its end."""

    sample: str
    """Name of a published fabric whose agents are scripted; empty: there is none."""
    sample_title: str
    guided: bool
    """The sample is the one for newcomers, whose example reads documents and meets a protection."""
    run_id: str
    """The first run; empty: there is none."""
    run_ended: bool


def first_steps(actor: Actor) -> FirstSteps | None:
    """Return the progress of a new workspace; None as soon as it has a second run."""
    runs = list(Run.objects.filter(match_visible(actor, Run), ASKED_FOR).values("id", "state")[:2])
    if len(runs) > 1:
        return None
    published = Fabric.objects.filter(match_visible(actor, Fabric), published__isnull=False).order_by("name")
    first = sorted(published, key=lambda fabric: fabric.name != FIRST_FABRIC)
    sample = next((fabric for fabric in first if is_scripted(str(fabric.published_id))), None)
    return FirstSteps(
        sample=sample.name if sample else "",
        sample_title=sample.title if sample else "",
        guided=sample is not None and sample.name == FIRST_FABRIC,
        run_id=runs[0]["id"] if runs else "",
        run_ended=bool(runs) and RunState(runs[0]["state"]) in TERMINAL,
    )
