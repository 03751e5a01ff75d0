"""Choose the runs of a job: those that match a query now, or those that were named one by one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from django.db.models import Count, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.models import Run
from fabric.selectors.database_time import TookTooLong, time_limit
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.query.grammar import Problem, Query, parse
from fabric.selectors.runs.query.list_pages import fabric_ids, match_runs

RUNS_MAX = 100_000
"""Largest number of runs of a job."""
NAMED_MAX = 1_000
"""Largest number of runs that are named one by one."""
COUNT_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class RunChoice:
    """The runs that a person chose."""

    query: str = ""
    """Query line, where no run is named; empty: every run."""
    ids: tuple[str, ...] = ()
    """Named runs; empty: those that match the query."""
    zone: tzinfo = UTC
    """Time zone of days and hours in the query."""


@dataclass(frozen=True, slots=True)
class ChosenCount:
    """The number of chosen runs."""

    count: int
    fitting: int
    """Number of those whose present state allows the action."""


def choose_runs(actor: Actor, choice: RunChoice, *, now: int) -> QuerySet[Run, Any]:
    """Return the chosen runs as a question to the database. ``now``: microseconds since the epoch, for the query.

    Raises Refused: invalid (the query, too many names), not_found (a named run).
    """
    if choice.ids:
        return _choose_named(actor, choice.ids)
    fabrics = fabric_ids(actor)
    query = read_query(choice.query, now=now, fabrics=tuple(fabrics), zone=choice.zone)
    return match_runs(actor, query, fabrics)


def read_query(text: str, *, now: int, fabrics: Collection[str], zone: tzinfo = UTC) -> Query:
    """Return the query of a line. Raises Refused invalid, with the place of what is wrong."""
    query = parse(text, now=now, fabrics=tuple(fabrics), zone=zone)
    if isinstance(query, Problem):
        message = f"at character {query.start + 1} of the query: {query.message}"
        raise Refused(message, code="invalid", field="query")
    return query


def count_choice(actor: Actor, choice: RunChoice, states: Collection[str], *, now: int) -> ChosenCount | None:
    """Return how many runs are chosen, counted to one more than ``RUNS_MAX``; None: counting took too long.

    ``states``: those that allow the action. Raises Refused as ``choose_runs``.
    """
    rows = choose_runs(actor, choice, now=now).order_by().values("state")[: RUNS_MAX + 1]
    try:
        with time_limit(COUNT_LIMIT_S):
            found = rows.aggregate(count=Count("*"), fitting=Count("state", filter=Q(state__in=sorted(states))))
    except TookTooLong:
        return None
    return ChosenCount(found["count"], found["fitting"])


def _choose_named(actor: Actor, ids: tuple[str, ...]) -> QuerySet[Run, Any]:
    if len(ids) > NAMED_MAX:
        message = f"{len(ids):,} runs are named; at most {NAMED_MAX:,} are taken one by one: use a query"
        raise Refused(message, code="invalid", field="runs")
    rows = Run.objects.filter(match_visible(actor, Run), id__in=ids)
    missing = set(ids) - set(rows.values_list("id", flat=True))
    if missing:
        message = f"there is no run {min(missing)[:60]!r} here, or it is not visible to you"
        raise Refused(message, code="not_found", field="runs")
    return rows
