"""Reads stops of new runs: those that stand, and those that stood."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import BigIntegerField, Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import JSONObject

from fabric.core.people.actor import Actor
from fabric.core.values.words import instant
from fabric.models import StartStop
from fabric.models.runs.stops import OPEN
from fabric.selectors.database_time import store_now_sql
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible

STOPS_MAX = 100
"""Largest number of stops that a list shows."""


class RunningRuns(StrEnum):
    """Fate of the runs that were started before a stop."""

    FINISH = "finish"
    PAUSE = "pause"
    CANCEL = "cancel"


RESUME = "resume"
"""Remaining work of workers (``StartStop.left``) once the runs that a stop paused are to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopView:
    """A stop of new runs. Instants are microseconds since the epoch."""

    id: str
    fabric: str
    """Name of the stopped fabric; empty: the whole workspace."""
    stopped_by: str
    stopped_at: int
    reason: str
    until_at: int | None
    """Its given end; None: it stands until a person lifts it."""
    running: RunningRuns
    left: str
    """The workers' remaining work on running runs: pause, cancel or resume; empty: nothing."""
    ended_at: int | None
    """None: it stands, or no worker has recorded its given end yet."""
    ended_by: str
    paused: int = 0
    """Number of runs that it paused; zero in views that do not count."""
    cancelled: int = 0
    resumed: int = 0
    """Number of the paused runs that were resumed with it, or moved on otherwise."""

    @property
    def what(self) -> str:
        """Return what is stopped: ``new runs``, ``new runs of refunds``."""
        return f"new runs of {self.fabric}" if self.fabric else "new runs"

    @property
    def said(self) -> str:
        """Return what is stopped, since when, by whom, until when, and why."""
        until = f", until {instant(self.until_at)}" if self.until_at else ""
        return f"{self.what} are stopped since {instant(self.stopped_at)}, by {self.stopped_by}{until}: {self.reason}"

    @property
    def resumable(self) -> int:
        """Return the number of runs that it paused and that were not resumed with it."""
        return self.paused - self.resumed


_COLUMNS = (
    "id", "fabric__name", "stopped_by", "stopped_at", "reason", "until_at", "running", "left", "ended_at", "ended_by"
)  # fmt: skip


def stops_standing(actor: Actor) -> list[StopView]:
    """Return the stops that refuse new runs which the actor could see: that of the workspace first, then by fabric."""
    rows = _visible(actor).filter(_stands()).values_list(*_COLUMNS)
    return sorted(_views(rows), key=lambda one: one.fabric)


def find_stop(actor: Actor, fabric: str) -> StopView | None:
    """Return the stop that refuses new runs of a fabric: that of the workspace before that of the fabric. None: they
    may start.
    """
    rows = _visible(actor).filter(_stands(), Q(fabric=None) | Q(fabric__name=fabric))
    return min(_views(rows.values_list(*_COLUMNS)), key=lambda one: one.fabric, default=None)


def query_workspace_stop(workspace: str) -> Subquery:
    """Return the stop of all new runs of a workspace as a column, for ``read_stop``. ``workspace``: the outer query's
    field of its id.
    """
    rows = StartStop.objects.filter(_stands(), fabric=None, workspace=OuterRef(workspace))
    columns = {name: F(name) for name in _COLUMNS if name != "fabric__name"}
    return Subquery(rows.values(stop=JSONObject(**columns))[:1])


def read_stop(row: Mapping[str, Any] | None) -> StopView | None:
    """Return such a column as a view; None: new runs of the workspace are not stopped."""
    return None if row is None else StopView(**{**row, "fabric": "", "running": RunningRuns(row["running"])})


def stops_list(actor: Actor) -> list[StopView]:
    """Return the stops that stand, then those that ended last, with the numbers of runs that they moved."""
    order = (F("ended_at").desc(nulls_first=True), "-stopped_at", "id")
    return _views(_counted(_visible(actor)).order_by(*order)[:STOPS_MAX])


def stop_get(actor: Actor, stop_id: str) -> StopView:
    """Return a stop with the numbers of runs that it moved. Raises Refused not_found."""
    found = _views(_counted(_visible(actor).filter(id=stop_id)))
    if not found:
        message = f"there is no stop {stop_id[:80]!r} in this workspace; look at the list of stops"
        raise Refused(message, code="not_found", field="stop")
    return found[0]


def find_open_stop(actor: Actor, fabric: str) -> StopView:
    """Return the stop of this fabric, or of the workspace for an empty name. Raises Refused conflict where none
    stands.
    """
    for one in stops_standing(actor):
        if one.fabric == fabric:
            return one
    message = f"new runs{f' of {fabric}' if fabric else ''} are not stopped"
    raise Refused(message, code="conflict", field="stop")


def _stands() -> Q:
    """Return the condition on stops that refuse new runs now."""
    now = RawSQL(*store_now_sql(), output_field=BigIntegerField())  # noqa: S611 - Nothing in it comes from outside.
    return OPEN & (Q(until_at=None) | Q(until_at__gt=now))


def _visible(actor: Actor) -> QuerySet[StartStop]:
    whole = Q(workspace_id=actor.workspace_id, fabric=None)
    return StartStop.objects.filter(whole | match_visible(actor, StartStop))


def _counted(rows: QuerySet[StartStop]) -> QuerySet[StartStop, tuple[object, ...]]:
    counts = {
        "paused": Count("runs", filter=Q(runs__did=RunningRuns.PAUSE)),
        "cancelled": Count("runs", filter=Q(runs__did=RunningRuns.CANCEL)),
        "resumed": Count("runs", filter=Q(runs__did=RunningRuns.PAUSE, runs__resumed=True)),
    }
    return rows.annotate(**counts).values_list(*_COLUMNS, *counts)


def _views(rows: Iterable[tuple[object, ...]]) -> list[StopView]:
    names = (*(name.partition("__")[0] for name in _COLUMNS), "paused", "cancelled", "resumed")
    found = [dict(zip(names, row, strict=False)) for row in rows]
    return [
        StopView(**row | {"fabric": row["fabric"] or "", "running": RunningRuns(str(row["running"]))})  # type: ignore[arg-type]
        for row in found
    ]
