"""Serves dashboards: figures of the runs that a query finds, by group and over time."""

from __future__ import annotations

import time
from typing import Annotated

from django.http import HttpRequest
from ninja import Query, Router
from pydantic import Field

from console.api.runs.operations import QueryLine, Zone, query_times_out, read_query
from console.api.shapes.common import Instant, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.selectors.dashboards.asked import DAYS, Grouping, Width, read_asked
from fabric.selectors.dashboards.dashboard import RUNS_MAX, find_dashboard
from fabric.selectors.dashboards.figures import Figures
from fabric.selectors.dashboards.statement import GROUPS_MAX
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.selectors.runs.query.values import require_zone

router = Router(tags=["runs"])


class ReviewFiguresOut(ResponseShape):
    """Reviews of these runs by the time of their answer. Withdrawn ones are left out."""

    in_time: int = Field(description="Answered by a person before the due time.", examples=[7])
    late: int = Field(description="Answered by a person after it.", examples=[1])
    expired: int = Field(description="Closed for want of an answer.", examples=[0])
    overdue: int = Field(description="Open after the due time.", examples=[0])
    waiting: int = Field(description="Open before it: unknown yet.", examples=[2])


class FiguresOut(ResponseShape):
    """Figures of some runs."""

    runs: int = Field(description="Number of runs.", examples=[40])
    completed: int = Field(description="Completed without a recovery.", examples=[30])
    recovered: int = Field(description="Completed after a recovery.", examples=[4])
    bad: int = Field(description="Failed, aborted or stopped.", examples=[2])
    cancelled: int = Field(description="Cancelled.", examples=[1])
    unended: int = Field(description="Not ended: neither a success nor a failure.", examples=[3])
    succeeded: int = Field(description="Completed by the agents: a static answer is no success.", examples=[33])
    cost_usd_micros: int = Field(description="Spent so far, in millionths of a US dollar.", examples=[412500])
    unconfirmed_usd_micros: int | None = Field(
        description="Part of it that no bill confirms, at the worst case; null: not known for a part of a run."
    )
    cost_per_success_usd_micros: int | None = Field(
        description="The whole cost for each success, rounded up; null: there is no success.", examples=[12500]
    )
    timed: int = Field(description="Number of runs with a latency: ended and not cancelled.", examples=[36])
    p50_us: int | None = Field(description="Median latency in microseconds, by nearest rank; null: none.")
    p95_us: int | None = Field(description="95th percentile; null: none.")
    p99_us: int | None = Field(description="99th percentile; null: none.")
    fired: dict[str, int] = Field(
        description="Number of runs in which each protection fired; empty over time.", examples=[{"budget": 2}]
    )
    reviews: ReviewFiguresOut = Field(description="Reviews of these runs; zero over time.")


class GroupOut(ResponseShape):
    """Runs with a common property."""

    name: str = Field(
        description="Its name; of a revision, model or agent with the fabric.", examples=["research-desk"]
    )
    query: str = Field(
        description="Query that finds its runs; empty: no query does.", examples=["fabric:research-desk"]
    )
    other: bool = Field(description="True for all groups beyond the dearest.")
    figures: FiguresOut = Field(description="Its figures.")
    costs_usd_micros: list[int] = Field(description="Spent by its runs of each stretch of time.")
    runs: list[int] = Field(description="Number of its runs of each stretch of time.")


class StretchOut(ResponseShape):
    """Runs that were started in a stretch of time."""

    since: Instant = Field(description="Its beginning.")
    until: Instant = Field(description="Its end, which is no part of it.")
    query: str = Field(description="Query that finds its runs.", examples=["started:2026-11-25"])
    figures: FiguresOut = Field(description="Their figures.")


class DashboardOut(ResponseShape):
    """Figures of the runs that a query finds in a range that ends now."""

    query: str = Field(description="Query that finds all of them.", examples=["started:>=2026-11-19"])
    by: str = Field(description="What groups the runs.", examples=["fabric"])
    bucket: Width = Field(description="Width of each stretch of time.", examples=["day"])
    whole: FiguresOut = Field(description="Figures of all runs.")
    groups: list[GroupOut] = Field(description=f"The {GROUPS_MAX} dearest groups, and all others as one.")
    times: list[StretchOut] = Field(description="Stretches of time, the oldest first.")
    cut: bool = Field(description=f"True: only the newest {RUNS_MAX:,} runs are counted.")
    oldest_at: Instant | None = Field(description="Request of the oldest counted run; null: there is no run.")


Range = Annotated[
    str | None,
    Query(max_length=8, description=f"Range that ends now: {', '.join(DAYS)}; without it 7d.", example="30d"),
]
Bucket = Annotated[
    str | None,
    Query(max_length=8, description=f"Width of a stretch of time: {', '.join(Width)}; without it the usual of the range.", example="day"),
]  # fmt: skip
By = Annotated[
    str | None,
    Query(
        max_length=80,
        description=f"What groups the runs: {', '.join(one for one in Grouping if one is not Grouping.LABEL)}, or a label such as label.team; without it fabric.",
        example="label.team",
    ),
]


@router.get("/dashboard", response=DashboardOut, url_name="api-dashboard", operation_id="getDashboard")
def get_dashboard(
    request: HttpRequest,
    q: QueryLine = None,
    range: Range = None,  # noqa: A002 - the parameter's name
    bucket: Bucket = None,
    by: By = None,
    zone: Zone = None,
) -> DashboardOut:
    """Get figures of runs. By group and over time."""
    actor = find_actor(request)
    fabrics = fabric_ids(actor)
    query = read_query(q or "", tuple(fabrics), zone)
    now = time.time_ns() // 1_000
    asked = read_asked(range or "", bucket or "", by or "", now=now, zone=require_zone(zone or "UTC"))
    with query_times_out():
        found = find_dashboard(actor, query, fabrics, asked)
    return DashboardOut(
        query=found.query,
        by=asked.grouping,
        bucket=asked.width,
        whole=_shape_figures(found.whole),
        groups=[
            GroupOut(
                name=one.name,
                query=one.query,
                other=one.other,
                figures=_shape_figures(one.figures),
                costs_usd_micros=list(one.costs),
                runs=list(one.counts),
            )
            for one in found.groups
        ],
        times=[
            StretchOut(
                since=instant(one.since), until=instant(one.until), query=one.query, figures=_shape_figures(one.figures)
            )
            for one in found.times
        ],
        cut=found.cut,
        oldest_at=None if found.oldest_at is None else instant(found.oldest_at),
    )


def _shape_figures(figures: Figures) -> FiguresOut:
    own = {name: getattr(figures, name) for name in FiguresOut.model_fields if hasattr(figures, name)}
    reviews = {name: getattr(figures.reviews, name) for name in ReviewFiguresOut.model_fields}
    own |= {"fired": dict(figures.fired), "reviews": ReviewFiguresOut(**reviews)}
    return FiguresOut(**own, cost_per_success_usd_micros=figures.per_success)
