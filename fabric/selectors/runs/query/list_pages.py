"""Read the list of runs: pages in both directions, counts, times of start, and news. All filters run in SQL.

Nothing here reads events, and nothing depends on how many runs there are, but for filters that no index answers: those
get a time limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, F, Min, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.core.values.labels import read_labels
from fabric.models import Fabric, Run
from fabric.models.runs.run import BAD_STATES, ENDED, match_words
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.database_time import time_limit
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.reach import build_reach_condition, match_visible, read_by
from fabric.selectors.runs.labels import find_labels
from fabric.selectors.runs.lookup import LABELS, VIEW_COLUMNS, RunView, Waiting, make_view
from fabric.selectors.runs.query.filters import Ids, condition
from fabric.selectors.runs.query.grammar import OF_CONTENTS, Query
from fabric.selectors.runs.query.orders import NEWEST, Order, match_index

PAGE_MAX = 200
COUNT_MAX = 10_000
"""Matches are counted so far; the chart shows as many of the newest."""
FABRICS_MAX = 1_000
PAGE_LIMIT_S = 2.0
"""A filter that the database cannot answer in so long is given up."""
COUNT_LIMIT_S = 0.3
"""Time limit of parts beside the list, which a page can leave out."""

_COMPLETED = f"state = '{RunState.COMPLETED.value}'"
_BARS = f"""
    SELECT number, COUNT(*) FILTER (WHERE {_COMPLETED} AND NOT recovered),
        COUNT(*) FILTER (WHERE {_COMPLETED} AND recovered),
        COUNT(*) FILTER (WHERE {match_words(sorted(set(BAD_STATES) - {RunState.CANCELLED})) % {"expressions": "state"}}),
        COUNT(*) FILTER (WHERE state = '{RunState.CANCELLED.value}'),
        COUNT(*) FILTER (WHERE NOT ({match_words(ENDED) % {"expressions": "state"}}))
    FROM ({{newest}}) AS newest GROUP BY number ORDER BY number LIMIT %s
"""  # noqa: S608 - Words of the engine's own.
"""Counts of ``Bar``'s parts in each stretch of the ``newest`` runs. Django cannot group a sliced query, so it is
written out.
"""


@dataclass(frozen=True, slots=True)
class RunRow(Waiting):
    """A run as a row of the list. Each field is read from the column of its name or from ``_PATHS``, but for
    the last two.

    Instants are microseconds since the epoch, UTC; money is micro-dollars.
    """

    id: str
    title: str
    session_key: str
    created_by: str
    tier: str
    state: str
    stage: str
    epoch: int
    cost_usd_micros: int
    tokens: int
    recovered: bool
    truncated: bool
    cause: str
    failure: str
    fired: str
    breakers: str
    created_at: int
    ended_at: int | None
    last_seq: int
    reason: str
    fabric_name: str
    revision_number: int
    children: int = 0
    """Number of child runs."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values by key; a child run has its root's."""

    @property
    def took_us(self) -> int | None:
        """Time from the request to the end; None: it has not ended."""
        return None if self.ended_at is None else self.ended_at - self.created_at

    @property
    def final_cost_usd_micros(self) -> int | None:
        """Cost at the end; None: it has not ended."""
        return None if self.ended_at is None else self.cost_usd_micros

    @property
    def final_tokens(self) -> int | None:
        """Tokens at the end; None: it has not ended."""
        return None if self.ended_at is None else self.tokens


_PATHS = {"fabric_name": "fabric__name", "revision_number": "revision__number"}
"""The columns of other tables, by the row's field."""
_COLUMNS = tuple(_PATHS.get(one.name, one.name) for one in fields(RunRow) if one.name not in ("children", "labels"))


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows in their order, and whether there are later and earlier ones."""

    rows: tuple[RunRow, ...]
    order: Order
    newer: bool
    older: bool

    @property
    def first(self) -> str:
        """Cursor of its first row."""
        return self._cursor(self.rows[0])

    @property
    def last(self) -> str:
        """Cursor of its last row."""
        return self._cursor(self.rows[-1])

    def _cursor(self, row: RunRow) -> str:
        return f"{getattr(row, self.order.column)}.{row.id}"


@dataclass(frozen=True, slots=True)
class Matched:
    """The number of matching runs, at most ``COUNT_MAX``, and when the first of them was requested."""

    count: int
    more: bool
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Bar:
    """The runs that were asked for in one stretch of time, ``number`` widths after the chart's beginning."""

    number: int
    completed: int
    """Without a recovery."""
    recovered: int
    """Completed after a recovery."""
    bad: int
    """Failed, aborted or stopped."""
    cancelled: int
    unended: int


@dataclass(frozen=True, slots=True)
class News:
    """The runs that a page lacks, counted to a maximum, and its own rows that changed."""

    count: int
    changed: tuple[RunRow, ...]


def _rows(runs: QuerySet[Run]) -> QuerySet[Run, tuple[Any, ...]]:
    """The runs as ``RunRow`` takes them, each with the number of its children and its labels as text. Indexes answer
    both.
    """
    below = Run.objects.filter(parent_run_id=OuterRef("id")).order_by().values("parent_run_id")
    counted = Subquery(below.annotate(n=Count("id")).values("n"))
    return runs.values_list(*_COLUMNS, Coalesce(counted, 0), find_labels())


def fabric_ids(actor: Actor) -> Ids:
    """The workspace's fabrics: id by name, in the order of names."""
    found = Fabric.objects.filter(match_visible(actor, Fabric)).order_by("name")
    return dict(found.values_list("name", "id")[:FABRICS_MAX])


def _row(actor: Actor, values: tuple[Any, ...]) -> RunRow:
    """A row, with its title and its reason for who may read contents."""
    row = RunRow(*(*values[:-1], read_labels(values[-1])))
    reads = may_read(actor, row.fabric_name)
    return replace(row, title=title_for(row.title, reads=reads), reason=line_for(row.reason, reads=reads))


def rows_named(actor: Actor, workspace_id: str, ids: Sequence[str]) -> list[RunRow]:
    """Those of these runs that are in a workspace, in no order. ``actor``: who looks at them."""
    rows = Run.objects.filter(workspace_id=workspace_id, id__in=ids)
    return [_row(actor, row) for row in _rows(rows)] if ids else []


def runs_page(
    actor: Actor,
    query: Query,
    fabrics: Ids,
    *,
    order: Order = NEWEST,
    limit: int = 50,
    before: str | None = None,
    after: str | None = None,
) -> Page:
    """The matching runs in an order that serves the query, from its beginning on or next to a cursor.

    ``before``, ``after``: the cursor that they are nearest to in time, at its earlier or its later side.
    Refused invalid for a cursor that is none; raises TookTooLong.
    """
    rows, limit = _query_runs(actor, query, fabrics).filter(match_index(order, query)), max(1, min(limit, PAGE_MAX))
    # Read away from the cursor, so that the page next to it is found and not one at the list's end.
    way = replace(order, falling=bool(before)) if before or after else order
    if before:
        rows = rows.filter(order.match_beyond(before, "before"))
    elif after:
        rows = rows.filter(order.match_beyond(after, "after"))
    with time_limit(PAGE_LIMIT_S):
        found = [_row(actor, row) for row in _rows(way.sort(rows))[: limit + 1]]
    more, found = len(found) > limit, found[:limit]
    shown = tuple(found if way == order else reversed(found))
    cursor = bool(before or after)
    return Page(shown, order, newer=cursor if way.falling else more, older=more if way.falling else cursor)


def list_views(
    actor: Actor, query: Query, fabrics: Ids, *, order: Order = NEWEST, limit: int = 50, cursor: str | None = None
) -> tuple[list[RunView], str | None]:
    """The matching runs in an order, for programs, and the cursor of those that follow; None: none do. ``cursor``:
    that of the page before. Refused invalid for a cursor that is none; raises TookTooLong.
    """
    rows, limit = _query_runs(actor, query, fabrics).filter(match_index(order, query)), max(1, min(limit, PAGE_MAX))
    if cursor:
        rows = rows.filter(order.match_beyond(cursor, "before" if order.falling else "after"))
    columns = (*VIEW_COLUMNS, *({order.column} - set(VIEW_COLUMNS)))
    with time_limit(PAGE_LIMIT_S):
        found = list(order.sort(rows).values(*columns, **{LABELS: find_labels()})[: limit + 1])
    last = found[limit - 1] if len(found) > limit else None
    following = f"{last[order.column]}.{last['id']}" if last else None
    return [make_view(actor, row) for row in found[:limit]], following


def runs_matched(actor: Actor, query: Query, fabrics: Ids) -> Matched:
    """Return how many runs match. Raises TookTooLong."""
    newest = _query_runs(actor, query, fabrics).values("created_at")[: COUNT_MAX + 1]
    with time_limit(COUNT_LIMIT_S):
        found = newest.aggregate(count=Count("*"), oldest=Min("created_at"))
    return Matched(min(found["count"], COUNT_MAX), found["count"] > COUNT_MAX, found["oldest"])


def runs_bars(actor: Actor, query: Query, fabrics: Ids, *, since: int, width: int, bars: int) -> tuple[Bar, ...]:
    """The newest ``COUNT_MAX`` matching runs by stretches of ``width`` microseconds that begin at ``since``. Raises
    TookTooLong.

    ``bars``: how many stretches at most.
    """
    # The very question that was counted: what was quick to count is quick to draw. A bound at ``since`` would let a
    # planner read the table.
    newest = _query_runs(actor, query, fabrics).annotate(number=(F("created_at") - since) / width)
    newest = newest.values("number", "state", "recovered")[:COUNT_MAX]
    inner, params = newest.query.sql_with_params()
    with time_limit(COUNT_LIMIT_S), connection.cursor() as cursor:
        cursor.execute(_BARS.format(newest=inner), [*params, bars + 1])
        return tuple(Bar(*row) for row in cursor.fetchall())


def runs_counts(actor: Actor, queries: Sequence[Query], fabrics: Ids, *, most: int) -> tuple[int, ...]:
    """Return how many runs match each query, counted to ``most``, in one statement. Raises TookTooLong."""
    parts: list[str] = []
    params: list[Any] = []
    for query in queries:
        rows = _query_runs(actor, query, fabrics).order_by().values("id")[:most]
        try:
            part, more = rows.query.sql_with_params()
        except EmptyResultSet:  # Django sees that nothing can match.
            parts.append("0")
            continue
        parts.append(f"(SELECT count(*) FROM ({part}) AS counted)")  # noqa: S608 - Django wrote the part.
        params += more
    with time_limit(COUNT_LIMIT_S), connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", params)
        return tuple(cursor.fetchone())


def runs_news(
    actor: Actor, query: Query, fabrics: Ids, *, shown: Mapping[str, int], down_to: str | None, most: int
) -> News:
    """Return what changed since a page was made. ``shown``: the last seq of each of its runs. ``down_to``: its last
    cursor.

    A run is new when it matches, lies not below the page's last row and is not on it: one that was started, or one that
    has come to match. Refused invalid for a cursor that is none; raises TookTooLong.
    """
    rows = _query_runs(actor, query, fabrics)
    if down_to:
        rows = rows.filter(build_cursor_condition(down_to, "created_at", ids="lt"))
    with time_limit(COUNT_LIMIT_S):
        # The page's own rows are taken away here: a long NOT IN would hide the index from the planner.
        ids = rows.values_list("id", flat=True)[: most + len(shown)]
        count = sum(1 for run_id in ids if run_id not in shown)
        own = Run.objects.filter(match_visible(actor, Run), id__in=list(shown))
        moved = [_row(actor, row) for row in _rows(own)] if shown else []
    return News(min(count, most), tuple(row for row in moved if row.last_seq != shown[row.id]))


def _query_runs(actor: Actor, query: Query, fabrics: Ids) -> QuerySet[Run, Any]:
    rows = Run.objects.filter(build_reach_condition(actor, Run), condition(query, fabrics, actor.workspace_id))
    if any(term.field in OF_CONTENTS for term in query.terms):
        rows = rows.filter(read_by(actor, Run))  # A reader finds no run by words that they may not read.
    return rows.order_by("-created_at", "id")


def match_runs(actor: Actor, query: Query, fabrics: Ids) -> QuerySet[Run, Any]:
    """Return all matching runs as a question to the database, for callers that take more than a page."""
    return _query_runs(actor, query, fabrics)
