"""Reads a dashboard in one statement over the newest matching runs, and another for the numbers of revisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Case, IntegerField, Value, When

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.models import Revision
from fabric.selectors.dashboards.asked import LABEL, DashboardAsked, Grouping
from fabric.selectors.dashboards.figures import (
    NO_FIGURES,
    OUTCOMES,
    REVIEWS,
    Dashboard,
    Figures,
    Group,
    ReviewFigures,
    TimeFigures,
)
from fabric.selectors.dashboards.narrowing import narrow_line, quote_value
from fabric.selectors.dashboards.statement import OTHER, WHOLE, build_statement
from fabric.selectors.database_time import time_limit
from fabric.selectors.overview.success_cost import FELL_BACK
from fabric.selectors.runs.punctuality import find_timed_reviews, name_punctuality
from fabric.selectors.runs.query.filters import Ids
from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.list_pages import match_runs

RUNS_MAX = 50_000
"""Largest number of newest runs that are counted."""
LIMIT_S = 6.0
NO_NAME = {
    Grouping.MODEL: "tools and child runs",
    Grouping.AGENT: "no agent",
    Grouping.LABEL: "without the label",
}
"""Names of the groups that have none of their own."""
_COLUMNS = (
    *("id", "root_run_id", "fabric_id", "revision_id", "state", "recovered", "cost_usd_micros"),
    *("unconfirmed_usd_micros", "took_us", "created_at", "fired", "spent_on", "success"),
)
_SUCCEEDED = Case(
    When(FELL_BACK, then=Value(0)),
    When(state=RunState.COMPLETED.value, then=Value(1)),
    default=Value(0),
    output_field=IntegerField(),
)
_COUNTS = ("runs", *OUTCOMES, "succeeded", "cost_usd_micros", "unconfirmed_usd_micros", "timed", "p50_us", "p95_us")
Rows = dict[str, list[tuple[Any, ...]]]


def find_dashboard(actor: Actor, query: Query, fabrics: Ids, asked: DashboardAsked) -> Dashboard:
    """Return the figures of the runs that a query finds in a range. Raises TookTooLong."""
    rows = _read(actor, query, fabrics, asked)
    whole = _gather(rows, rows["whole"]).get((WHOLE, 0), NO_FIGURES)
    times = _gather(rows, rows["times"], placed=False)
    counted, oldest = next(((row[5], row[12]) for row in rows["oldest"]), (0, None))
    return Dashboard(
        query=narrow_line(query, asked.term),
        whole=whole,
        groups=tuple(_list_groups(rows, query, fabrics, asked)),
        times=tuple(
            TimeFigures(
                since=one.since,
                until=one.until,
                query=narrow_line(query, one.term),
                figures=times.get((WHOLE, number), NO_FIGURES),
            )
            for number, one in enumerate(asked.stretches)
        ),
        oldest_at=oldest,
        cut=counted >= RUNS_MAX,
    )


def _read(actor: Actor, query: Query, fabrics: Ids, asked: DashboardAsked) -> Rows:
    runs = match_runs(actor, query, fabrics).filter(created_at__gte=asked.since).annotate(success=_SUCCEEDED)
    held = find_timed_reviews().annotate(punctuality=name_punctuality()).values("run_id", "punctuality")
    found: Rows = defaultdict(list)
    try:
        newest, params = runs.values(*_COLUMNS)[:RUNS_MAX].query.sql_with_params()
    except EmptyResultSet:  # Django sees that nothing can match.
        return found
    reviews, named = held.query.sql_with_params()
    key = [asked.key] if asked.key else []
    statement = build_statement(asked, newest, reviews, connection.vendor)
    with time_limit(LIMIT_S), connection.cursor() as cursor:
        cursor.execute(statement, [*params, *key, *named, *named])
        for row in cursor.fetchall():
            found[row[0]].append(row)
    return found


def _gather(rows: Rows, sums: Iterable[tuple[Any, ...]], *, placed: bool = True) -> dict[tuple[int, int], Figures]:
    """Return figures by place and stretch. ``placed``: with what fired and with reviews, which have no stretch."""
    fired: dict[int, dict[str, int]] = defaultdict(dict)
    for _, place, _, name, _, count, *_ in rows["fired"] if placed else ():
        fired[place][name] = count
    reviews = {
        row[1]: ReviewFigures(**dict(zip(REVIEWS, row[6:11], strict=True)))
        for row in (rows["reviews"] if placed else ())
    }
    return {
        (place, stretch): Figures(
            **dict(zip((*_COUNTS, "p99_us"), numbers, strict=True)),
            fired=dict(sorted(fired[place].items(), key=lambda one: (-one[1], one[0]))),
            reviews=reviews.get(place, ReviewFigures()),
        )
        for _, place, stretch, _, _, *numbers in sums
    }


def _list_groups(rows: Rows, query: Query, fabrics: Ids, asked: DashboardAsked) -> Iterable[Group]:
    figures = _gather(rows, rows["groups"])
    names = {place: (first, second) for _, place, _, first, second, *_ in rows["names"]}
    numbers = _number_revisions(second for _, second in names.values()) if asked.by is Grouping.REVISION else {}
    known = {fabric_id: name for name, fabric_id in fabrics.items()}
    costs: dict[int, list[int]] = defaultdict(lambda: [0] * len(asked.stretches))
    counts: dict[int, list[int]] = defaultdict(lambda: [0] * len(asked.stretches))
    for row in rows["cells"]:
        costs[row[1]][row[2]], counts[row[1]][row[2]] = row[12], row[5]
    for place in sorted(names) + ([OTHER] if (OTHER, 0) in figures else []):
        if place == OTHER:
            name, terms = "other", None
        else:
            first, second = names[place]
            fabric = known.get(first, "")
            name, terms = _name_group(asked, fabric or first, second, numbers)
        line = "" if terms is None else narrow_line(query, asked.term, *terms)
        yield Group(
            name=name,
            query=line,
            terms=terms,
            figures=figures[place, 0],
            costs=tuple(costs[place]),
            counts=tuple(counts[place]),
            other=place == OTHER,
        )


def _name_group(
    asked: DashboardAsked, first: str, second: str, numbers: Mapping[str, int]
) -> tuple[str, tuple[str, ...] | None]:
    """Return the name of a group, and the terms that find its runs; None: no term says it."""
    of_fabric = f"fabric:{quote_value(first)}"
    match asked.by:
        case Grouping.FABRIC:
            return first, (of_fabric,)
        case Grouping.REVISION:
            number = numbers.get(second, 0)
            return f"{first}, revision {number}", (of_fabric, f"revision:{number}")
        case Grouping.LABEL:
            named = f"{LABEL}{asked.key}"
            return (first, (f"{named}={quote_value(first)}",)) if first else (NO_NAME[asked.by], (f"-{named}",))
        case Grouping.MODEL | Grouping.AGENT:
            if not second:
                return f"{first}, {NO_NAME[asked.by]}", None
            return f"{first}, {second}", (of_fabric, f"{asked.by}:{second}")


def _number_revisions(ids: Iterable[str]) -> dict[str, int]:
    return dict(Revision.objects.filter(id__in=set(ids)).values_list("id", "number"))
