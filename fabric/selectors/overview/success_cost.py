"""Reads figures of fabrics: recent outcomes of their runs, and the cost of each success.

Figures are counted per fabric, revision and tier, over the runs that were requested within a window. Child runs are
part of a run's cost. A live run counts with its cost so far. Money is micro-dollars. Both reads are bounded like the
overview, and state where they were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from django.db.models import Count, OuterRef, Q, Subquery, Sum

from fabric.core.people.actor import Actor
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.values.flow import STATIC_ANSWER, RunState
from fabric.core.values.taxonomy import Tier
from fabric.models import Fabric, Revision, Run
from fabric.models.runs.run import ASKED_FOR
from fabric.selectors.contents import line_for, may_read
from fabric.selectors.fabrics.lookup import fabric_get, revision_spec
from fabric.selectors.overview.tiles import DAY, NEWEST_RUNS, TILE_OF, Tile, newest
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.lookup import Waiting

Basis = Literal["oracle", "gates", "mixed"]
"""Judge of success: the oracle, or the gates of a revision without one; mixed where only some revisions have one."""
FELL_BACK = Q(reason=str(Reaction.SAFE_FALLBACK)) | Q(reason__startswith=STATIC_ANSWER)
"""Condition on runs completed with the fabric's static answer. No gate has passed an agent's answer, so it is no
success.
"""
DAYS = 7
DAYS_MAX = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessCost:
    """Costs and outcomes of a set of runs."""

    revision: int | None = None
    """Number of the revision; None: all together."""
    tier: Tier | None = None
    """Tier; None: all together."""
    runs: int = 0
    completed: int = 0
    cost_usd_micros: int = 0
    by: Basis = "gates"
    """Judge of the success."""

    @property
    def per_success(self) -> int | None:
        """Return micro-dollars for each completed run, rounded up; None: there is none."""
        return -(-self.cost_usd_micros // self.completed) if self.completed else None


@dataclass(frozen=True, slots=True)
class SuccessCosts:
    """A fabric's cost per success, altogether and in its parts."""

    days: int
    whole: SuccessCost
    parts: tuple[SuccessCost, ...]
    """By revision, the newest first, and tier; those without runs are left out."""
    cut: bool
    """True: only the newest runs were read."""


def success_costs(actor: Actor, name: str, now: int, days: int = DAYS) -> SuccessCosts:
    """Return the recent cost of a success in a fabric. ``now``: microseconds since the epoch. Raises Refused
    not_found.
    """
    fabric = fabric_get(actor, name)
    rows = Run.objects.filter(
        match_visible(actor, Run), ASKED_FOR, fabric_id=fabric.id, created_at__gt=now - days * DAY
    )
    oldest = rows.order_by("-created_at").values_list("created_at", flat=True)[NEWEST_RUNS : NEWEST_RUNS + 1]
    cut = next(iter(oldest), None)
    rows = rows if cut is None else rows.filter(created_at__gt=cut)
    found = rows.order_by().values_list("revision_id", "tier").annotate(
        runs=Count("id"),
        completed=Count("id", filter=Q(state=RunState.COMPLETED.value) & ~FELL_BACK),
        cost=Sum("cost_usd_micros"),
    )  # fmt: skip
    groups = list(found)
    numbers = dict(Revision.objects.filter(id__in={one[0] for one in groups}).values_list("id", "number"))
    order = list(Tier)
    bases = {revision_id: _basis(revision_id) for revision_id in numbers}
    parts = sorted(
        (
            SuccessCost(
                revision=numbers.get(revision_id, 0),
                tier=Tier(tier),
                runs=runs,
                completed=completed,
                cost_usd_micros=cost,
                by=bases.get(revision_id, "gates"),
            )
            for revision_id, tier, runs, completed, cost in groups
        ),
        key=lambda part: (-(part.revision or 0), order.index(part.tier or order[0])),
    )
    whole = SuccessCost(
        runs=sum(part.runs for part in parts),
        completed=sum(part.completed for part in parts),
        cost_usd_micros=sum(part.cost_usd_micros for part in parts),
        by=_together({part.by for part in parts}),
    )
    return SuccessCosts(days, whole, tuple(parts), cut is not None)


def _basis(revision_id: str) -> Basis:
    return "oracle" if revision_spec(revision_id).gates.oracle else "gates"


def _together(found: set[Basis]) -> Basis:
    return next(iter(found), "gates") if len(found) < 2 else "mixed"


@dataclass(frozen=True, slots=True)
class LastRun(Waiting):
    """The newest run of a fabric."""

    id: str
    created_at: int
    state: RunState
    reason: str
    recovered: bool


@dataclass(frozen=True, slots=True)
class Activity:
    """Runs of one fabric: the newest, and the outcomes of those that were requested within the last 24 hours."""

    last: LastRun | None = None
    mix: Mapping[Tile, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """Return the number of runs within the last 24 hours."""
        return sum(self.mix.values())


@dataclass(frozen=True, slots=True)
class Activities:
    """Activities by row id of the fabric; one without runs is left out."""

    by_fabric: Mapping[str, Activity]
    cut: bool
    """True: only the newest runs were read."""

    def find_activity(self, fabric_id: str) -> Activity:
        """Return a fabric's activity, by row id."""
        return self.by_fabric.get(fabric_id, Activity())


def fabric_activities(actor: Actor, now: int) -> Activities:
    """Return recent outcomes of each fabric's runs."""
    rows, cut = newest(actor)
    mixes: dict[str, dict[Tile, int]] = {}
    recent = rows.filter(created_at__gt=now - DAY).order_by().values_list("fabric_id", "state", "recovered")
    for fabric_id, state, recovered, count in recent.annotate(count=Count("id")):
        tile = TILE_OF[RunState(state)]
        tile = Tile.RECOVERED if tile is Tile.COMPLETED and recovered else tile
        mix = mixes.setdefault(fabric_id, {})
        mix[tile] = mix.get(tile, 0) + count
    lasts = _lasts(actor)
    return Activities({name: Activity(lasts.get(name), mixes.get(name, {})) for name in {*lasts, *mixes}}, cut)


def _lasts(actor: Actor) -> dict[str, LastRun]:
    """Return the newest run of each fabric, one look into the index of a fabric's runs for each."""
    own = Run.objects.filter(match_visible(actor, Run), ASKED_FOR, fabric_id=OuterRef("id"))
    own = own.order_by("-created_at", "id")
    fabrics = Fabric.objects.filter(match_visible(actor, Fabric)).annotate(last_id=Subquery(own.values("id")[:1]))
    ids = [last_id for last_id in fabrics.values_list("last_id", flat=True) if last_id]
    columns = ("fabric_id", "fabric__name", "id", "created_at", "state", "reason", "recovered")
    rows = Run.objects.filter(id__in=ids).values_list(*columns)
    return {
        fabric_id: LastRun(
            run_id, created_at, RunState(state), line_for(reason, reads=may_read(actor, name)), recovered
        )
        for fabric_id, name, run_id, created_at, state, reason, recovered in rows
    }
