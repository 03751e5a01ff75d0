"""Lists runs by the query line of the page Runs, and shows one, on a terminal and as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

from django.conf import settings

from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON
from fabric.core.values.words import cut, dollars, instant_exact, words
from fabric.management.output.colours import paint
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.selectors.runs.lookup import RunView, write_advice
from fabric.selectors.runs.query.grammar import Problem, Query, parse
from fabric.selectors.runs.query.list_pages import PAGE_MAX, Page, RunRow, fabric_ids, runs_page
from fabric.selectors.runs.query.orders import read_order
from fabric.selectors.runs.query.run_lines import RunLines
from fabric.selectors.visible_text import visible_line
from fabric.selectors.whole_ids import short_id

FIELDS = (
    *("id", "fabric_name", "revision_number", "tier", "state", "stage", "title", "reason", "created_by"),
    *("created_at", "ended_at", "cost_usd_micros", "tokens", "recovered", "truncated", "labels"),
)
"""Fields of a run in a list as JSON. Instants are microseconds since the epoch."""
STATE_WIDTH = 11


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """A query, its order, and where in the list to begin."""

    line: str
    sort: str
    limit: int
    after: str
    zone: tzinfo = UTC
    """Time zone of days and hours in the query."""


def find_runs(actor: Actor, asked: RunsAsked) -> Page:
    """Return the matching runs. Raises Refused for a line that is not understood, or that takes too long."""
    query, limit = _read(actor, asked), max(1, min(asked.limit, PAGE_MAX))
    order = read_order(asked.sort, query)
    side = "before" if order.falling else "after"
    cursor = {side: asked.after} if asked.after else {}
    try:
        return runs_page(actor, query, fabric_ids(actor), order=order, limit=limit, **cursor)
    except TookTooLong as error:
        raise Refused(f"{error}: narrow the query down", code="unavailable", field="query") from None


def has_more(page: Page) -> bool:
    """Return True if the list goes on below the page."""
    return page.older if page.order.falling else page.newer


def find_run_lines(actor: Actor, asked: RunsAsked, form: str) -> RunLines:
    """Return all matching runs as lines of a file. Raises Refused for a line that is not understood."""
    query = _read(actor, asked)
    return RunLines(actor, query, fabric_ids(actor), read_order(asked.sort, query), form=form)


def _read(actor: Actor, asked: RunsAsked) -> Query:
    names = tuple(one.name for one in fabrics_list(actor))
    query = parse(asked.line, now=time.time_ns() // 1_000, fabrics=names, zone=asked.zone)
    if isinstance(query, Problem):
        raise Refused(query.sentence, code="invalid", field="query")
    return query


def list_lines(page: Page, *, terminal: bool) -> Iterator[str]:
    """Yield a line a run. It has the end of its id, state, fabric, cost, start, and the title or the reason."""
    width = max((len(row.fabric_name) for row in page.rows), default=0)
    for row in page.rows:
        state = paint(f"{words(row.state):<{STATE_WIDTH}}", row.state, terminal=terminal)
        said = visible_line(row.reason if row.reason and row.reason != "finished" else row.title)
        cost = f"{dollars(row.cost_usd_micros):>9}"
        yield f"{short_id(row.id)}  {state}  {row.fabric_name:<{width}}  {cost}  {instant_exact(row.created_at)}  {cut(said)}"


def row_json(row: RunRow) -> dict[str, JSON]:
    """Return a run of a list as JSON."""
    return {name: getattr(row, name) for name in FIELDS} | {"labels": dict(row.labels)}


def page_address(run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}/runs/{run_id}"


def show_lines(run: RunView, *, terminal: bool) -> Iterator[str]:
    """Yield what is known of a run, a fact a line."""
    facts: dict[str, Any] = {
        "state": paint(words(run.state), run.state, terminal=terminal),
        "reason": visible_line(run.reason),
        "next step": write_advice(run),
        "fabric": f"{run.fabric_name}, revision {run.revision_number}, {words(run.tier)}",
        "request": visible_line(run.title),
        "started": f"{instant_exact(run.created_at)} by {run.created_by}",
        "ended": "" if run.ended_at is None else instant_exact(run.ended_at),
        "stage": words(run.stage),
        "labels": visible_line(", ".join(f"{key}={value}" for key, value in run.labels.items())),
        "cost": f"{dollars(run.cost_usd_micros)}, {run.tokens:,} tokens, {run.last_seq} events",
        "parent": run.parent_run_id or "",
        "page": page_address(run.id),
    }
    yield f"Run {run.id}"
    yield from (f"  {name:<10} {said}" for name, said in facts.items() if said)
