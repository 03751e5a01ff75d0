"""What has become of each fabric's runs lately: for the list of fabrics. Bounded like the overview, and it says where it was cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Count, OuterRef, Subquery

from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.models import Fabric, Run
from fabric.models.runs import ASKED_FOR
from fabric.selectors.contents import line_for, may_read
from fabric.selectors.overview import DAY, TILE_OF, Tile, newest
from fabric.selectors.reach import seen_by
from fabric.selectors.waits_for import Waiting


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
    """Runs of one fabric: the newest, and what became of those that were asked for within the last 24 hours."""

    last: LastRun | None = None
    mix: Mapping[Tile, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """Runs within the last 24 hours."""
        return sum(self.mix.values())


@dataclass(frozen=True, slots=True)
class Activities:
    """By row id of the fabric; one without runs is not in it."""

    by_fabric: Mapping[str, Activity]
    cut: bool
    """True: only the newest runs were looked at."""

    def of(self, fabric_id: str) -> Activity:
        """A fabric's, by row id."""
        return self.by_fabric.get(fabric_id, Activity())


def fabric_activities(actor: Actor, now: int) -> Activities:
    """What has become of each fabric's runs lately."""
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
    """The newest run of each fabric, one look into the index of a fabric's runs for each."""
    own = Run.objects.filter(seen_by(actor, Run), ASKED_FOR, fabric_id=OuterRef("id"))
    own = own.order_by("-created_at", "id")
    fabrics = Fabric.objects.filter(seen_by(actor, Fabric)).annotate(last_id=Subquery(own.values("id")[:1]))
    ids = [last_id for last_id in fabrics.values_list("last_id", flat=True) if last_id]
    columns = ("fabric_id", "fabric__name", "id", "created_at", "state", "reason", "recovered")
    rows = Run.objects.filter(id__in=ids).values_list(*columns)
    return {
        fabric_id: LastRun(
            run_id, created_at, RunState(state), line_for(reason, reads=may_read(actor, name)), recovered
        )
        for fabric_id, name, run_id, created_at, state, reason, recovered in rows
    }
