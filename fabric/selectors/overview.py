"""Is anything wrong now: the overview's questions, each answered by a call of its own.

Every answer is bounded: live runs are read from the index of live runs, ended ones among the newest ``NEWEST_RUNS``, and what was cut
says so. Runs are those that were asked for: what a run spawned is part of it, and its money too. Instants are microseconds since the epoch, UTC;
money is micro-dollars. ``now`` is the caller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum

from fabric.core.actor import Actor
from fabric.core.flow import TERMINAL, RunState
from fabric.models import Fabric, Incarnation, Run
from fabric.models.runs import ASKED_FOR, LIVE
from fabric.selectors.fabrics import run_cap, scripted
from fabric.selectors.reach import seen_by

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
COUNTED = 1_000
"""Counts go so far; what is more is said to be more."""
NEWEST_RUNS = 10_000
"""How far back questions about ended runs look: nothing but the list of runs by age is indexed for them."""


def newest(actor: Actor) -> tuple[QuerySet[Run], bool]:
    """The workspace's newest runs, at most about ``NEWEST_RUNS``, and whether there are older ones."""
    rows = Run.objects.filter(seen_by(actor, Run), ASKED_FOR)
    oldest = rows.order_by("-created_at").values_list("created_at", flat=True)[NEWEST_RUNS : NEWEST_RUNS + 1]
    cut = next(iter(oldest), None)
    return (rows if cut is None else rows.filter(created_at__gt=cut)), cut is not None


def live_runs(actor: Actor, *states: RunState) -> QuerySet[Run]:
    """The workspace's runs in those states, none of them an ended one; answered from the index of live runs."""
    values = [state.value for state in states]
    return Run.objects.filter(seen_by(actor, Run), LIVE, ASKED_FOR, state__in=values)


# -- runs by state -----------------------------------------------------------------------------------------------------


class Tile(StrEnum):
    """What runs are counted as."""

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
"""Where each state is counted; total over ``RunState``. A run that completed after recovery is counted apart."""

SPARK_BINS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCount:
    """Runs of one tile: live ones now, ended ones within the last hour."""

    tile: Tile
    count: int
    capped: bool = False
    """True: there are more than ``count``."""
    oldest_at: int | None = None
    """Live: when the oldest of them was asked for."""
    spark: tuple[int, ...] = ()
    """Ended: how many in each five minutes of the hour, the oldest first."""


@dataclass(frozen=True, slots=True)
class States:
    """Runs by state."""

    tiles: Mapping[Tile, TileCount]
    cut: bool
    """True: ended runs were counted among the newest ``NEWEST_RUNS`` only."""

    @property
    def live(self) -> int:
        """Runs that have not ended, as far as they were counted."""
        return sum(self.tiles[TILE_OF[state]].count for state in LIVE_ONCE)

    @property
    def ended(self) -> int:
        """Runs that ended within the hour."""
        return sum(tile.count for tile in self.tiles.values()) - self.live


LIVE_STATES = tuple(state for state in RunState if state not in TERMINAL)
LIVE_ONCE = tuple({TILE_OF[state]: state for state in LIVE_STATES}.values())
"""One live state for each tile that counts live runs."""


def states(actor: Actor, now: int) -> States:
    """How many runs there are in each state: live ones now, ended ones within the last hour."""
    tiles = {tile: _live_tile(actor, tile) for tile in Tile if tile in {TILE_OF[state] for state in LIVE_STATES}}
    rows, cut = newest(actor)
    bins: dict[Tile, list[int]] = {tile: [0] * SPARK_BINS for tile in Tile if tile not in tiles}
    ended = rows.filter(ended_at__gt=now - HOUR).annotate(age=now - F("ended_at"))
    for state, recovered, age in ended.values_list("state", "recovered", "age"):
        tile = TILE_OF[RunState(state)]
        if tile is Tile.COMPLETED and recovered:
            tile = Tile.RECOVERED
        if tile in bins:
            bins[tile][SPARK_BINS - 1 - min(SPARK_BINS - 1, max(0, age) * SPARK_BINS // HOUR)] += 1
    tiles |= {tile: TileCount(tile=tile, count=sum(bars), spark=tuple(bars)) for tile, bars in bins.items()}
    return States(tiles, cut)


def _live_tile(actor: Actor, tile: Tile) -> TileCount:
    of_tile = live_runs(actor, *(state for state in LIVE_STATES if TILE_OF[state] is tile))
    found = of_tile.order_by("created_at")[: COUNTED + 1].aggregate(count=Count("id"), oldest=Min("created_at"))
    count = found["count"]
    return TileCount(tile=tile, count=min(count, COUNTED), capped=count > COUNTED, oldest_at=found["oldest"])


# -- money -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpend:
    """What the runs of one fabric that were asked for within the last hour have cost so far."""

    fabric_name: str
    revision_number: int
    """Of the revision whose run came nearest to its ceiling."""
    runs: int
    usd_micros: int
    dearest_usd_micros: int
    """The run that came nearest to its ceiling, and below that ceiling."""
    cap_usd_micros: int
    succeeded: int

    @property
    def share(self) -> int:
        """Whole percent of its ceiling that the nearest run has spent; 100 where nothing may be spent and something was."""
        if not self.cap_usd_micros:
            return 100 if self.dearest_usd_micros else 0
        return 100 * self.dearest_usd_micros // self.cap_usd_micros

    @property
    def per_success_usd_micros(self) -> int | None:
        """Cost of all of them for each that completed; None while none has."""
        return self.usd_micros // self.succeeded if self.succeeded else None


@dataclass(frozen=True, slots=True)
class Spend:
    """Spend by fabric, the one nearest to a ceiling first."""

    fabrics: tuple[FabricSpend, ...]
    cut: bool

    @property
    def usd_micros(self) -> int:
        """All of it."""
        return sum(fabric.usd_micros for fabric in self.fabrics)


def spend(actor: Actor, now: int) -> Spend:
    """What runs that were asked for within the last hour cost, by fabric, beside the ceiling that each run has."""
    rows, cut = newest(actor)
    grouped = (
        rows.filter(created_at__gt=now - HOUR)
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
    """Two revisions of one fabric; the ceiling is that of the run that came nearest to its own."""
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
"""A worker that stops ends its own lease; one that went missing is retired by others, after its lease had lapsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One life of one worker process."""

    name: str
    host: str
    pid: int
    started_at: int
    lease_until: int
    alive: bool
    """False: its lease has lapsed and it never said goodbye."""
    runs: int
    """Runs of this workspace that it owns."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker processes that are there, and those that went missing within the last hour."""

    workers: tuple[Worker, ...]

    @property
    def alive(self) -> tuple[Worker, ...]:
        """Those whose lease holds."""
        return tuple(worker for worker in self.workers if worker.alive)

    @property
    def missing(self) -> tuple[Worker, ...]:
        """Those that were there within the hour and left without a word."""
        return tuple(worker for worker in self.workers if not worker.alive)


def workers(actor: Actor, now: int) -> Workers:
    """The worker processes by their leases, those with the most runs first. They serve every workspace; the runs counted are the actor's."""
    rows = list(
        Incarnation.objects.filter(STILL_LISTED, lease_until__gt=now - HOUR)
        .order_by("-lease_until", "name")
        .values("name", "host", "pid", "started_at", "lease_until", gone=Q(retired_at__isnull=False))[:WORKERS_SHOWN]
    )
    owned = Run.objects.filter(seen_by(actor, Run), incarnation__in=[row["name"] for row in rows])
    counts = dict(owned.order_by().values("incarnation").annotate(runs=Count("id")).values_list("incarnation", "runs"))
    found = [
        Worker(
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
    return Workers(tuple(sorted(found, key=lambda worker: (not worker.alive, -worker.runs, worker.name))))


def workers_alive(now: int) -> bool:
    """Whether any worker could take a run."""
    return Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).exists()


# -- the first minutes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """How far a new workspace has come: a fabric that needs no key, a run, its end."""

    sample: str
    """Name of a published fabric whose agents are scripted; empty: there is none."""
    sample_title: str
    run_id: str
    """The first run; empty: there is none."""
    run_ended: bool


def first_steps(actor: Actor) -> FirstSteps | None:
    """How far a new workspace has come; None as soon as it has a second run."""
    runs = list(Run.objects.filter(seen_by(actor, Run), ASKED_FOR).values("id", "state")[:2])
    if len(runs) > 1:
        return None
    published = Fabric.objects.filter(seen_by(actor, Fabric), published__isnull=False).order_by("name")
    sample = next((fabric for fabric in published if scripted(str(fabric.published_id))), None)
    return FirstSteps(
        sample=sample.name if sample else "",
        sample_title=sample.title if sample else "",
        run_id=runs[0]["id"] if runs else "",
        run_ended=bool(runs) and RunState(runs[0]["state"]) in TERMINAL,
    )
