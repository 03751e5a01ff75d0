"""Writes figures of runs on a terminal and as JSON: the page Dashboards as a command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from fabric.core.people.actor import Actor
from fabric.core.values.units import JSON, US
from fabric.core.values.words import dollars, duration, instant_exact
from fabric.selectors.dashboards.asked import DashboardAsked, read_asked
from fabric.selectors.dashboards.dashboard import RUNS_MAX, find_dashboard
from fabric.selectors.dashboards.figures import OUTCOMES, REVIEWS, Dashboard, Figures
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.grammar import Problem, parse
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.selectors.visible_text import visible_line

HEADS = ("runs", "ok", "bad", "live", "spent", "per success", "p50", "p95", "p99")
WIDTHS = (8, 8, 6, 6, 11, 11, 8, 8, 8)
NUMBERS = ("runs", *OUTCOMES, "succeeded", "cost_usd_micros", "unconfirmed_usd_micros", "timed", "p50_us", "p95_us", "p99_us")  # fmt: skip


@dataclass(frozen=True, slots=True)
class StatsAsked:
    """A query, a range, the width of its stretches, and what groups the runs, as they were typed."""

    line: str
    span: str
    width: str
    by: str
    zone: tzinfo


def find_stats(actor: Actor, given: StatsAsked) -> tuple[DashboardAsked, Dashboard]:
    """Return the figures. Raises Refused for what is not understood, or takes too long."""
    fabrics, now = fabric_ids(actor), time.time_ns() // 1_000
    query = parse(given.line, now=now, fabrics=tuple(fabrics), zone=given.zone)
    if isinstance(query, Problem):
        raise Refused(query.sentence, code="invalid", field="query")
    asked = read_asked(given.span, given.width, given.by, now=now, zone=given.zone)
    try:
        return asked, find_dashboard(actor, query, fabrics, asked)
    except TookTooLong as error:
        raise Refused(f"{error}: take a shorter range, or narrow the query down", code="unavailable", field="query") from None  # fmt: skip


def stats_lines(asked: DashboardAsked, found: Dashboard) -> Iterator[str]:
    """Yield a line for all runs, for each group and for each stretch of time with runs."""
    names = [visible_line(group.name) for group in found.groups]
    times = [(instant_exact(one.since), one.figures) for one in found.times if one.figures.runs]
    width = max((len(name) for name in ("all", asked.grouping, *names, *(name for name, _ in times))), default=0)
    yield _write_line("", HEADS, width)
    yield _write_line("all", _write_figures(found.whole), width)
    yield _write_line(f"{asked.grouping}:", (), width)
    for name, group in zip(names, found.groups, strict=True):
        yield _write_line(name, _write_figures(group.figures), width)
    yield _write_line(f"{asked.width}:", (), width)
    for name, figures in times:
        yield _write_line(name, _write_figures(figures), width)
    yield from _write_notes(found)


def _write_notes(found: Dashboard) -> Iterator[str]:
    whole = found.whole
    if whole.fired:
        yield f"fired: {', '.join(f'{name} {count}' for name, count in whole.fired.items())}"
    reviews = [f"{getattr(whole.reviews, name)} {name.replace('_', ' ')}" for name in REVIEWS]
    yield f"reviews: {', '.join(reviews)}"
    if whole.unconfirmed_usd_micros:
        yield f"{dollars(whole.unconfirmed_usd_micros)} of the cost is not confirmed"
    if found.cut and found.oldest_at is not None:
        yield f"only the newest {RUNS_MAX:,} runs are counted, from {instant_exact(found.oldest_at)} on"


def _write_line(name: str, cells: tuple[str, ...], width: int) -> str:
    numbers = (f"{cell:>{size}}" for cell, size in zip(cells, WIDTHS, strict=False))
    return f"{name:<{width}}  {'  '.join(numbers)}".rstrip()


def _write_figures(figures: Figures) -> tuple[str, ...]:
    each = "none" if figures.per_success is None else dollars(figures.per_success)
    times = (figures.p50_us, figures.p95_us, figures.p99_us)
    return (
        *(f"{count:,}" for count in (figures.runs, figures.succeeded, figures.bad, figures.unended)),
        dollars(figures.cost_usd_micros),
        each,
        *("none" if one is None else duration(one / US) for one in times),
    )


def stats_json(asked: DashboardAsked, found: Dashboard) -> dict[str, JSON]:
    """Return the figures as JSON. Instants are microseconds since the epoch, UTC."""
    return {
        "query": found.query,
        "by": asked.grouping,
        "bucket": asked.width.value,
        "whole": _figures_json(found.whole),
        "groups": [
            {"name": one.name, "query": one.query, "other": one.other, "figures": _figures_json(one.figures)}
            for one in found.groups
        ],
        "times": [
            {"since": one.since, "until": one.until, "query": one.query, "figures": _figures_json(one.figures)}
            for one in found.times
        ],
        "cut": found.cut,
        "oldest_at": found.oldest_at,
    }


def _figures_json(figures: Figures) -> dict[str, JSON]:
    return {
        **{name: getattr(figures, name) for name in NUMBERS},
        "cost_per_success_usd_micros": figures.per_success,
        "fired": dict(figures.fired),
        "reviews": {name: getattr(figures.reviews, name) for name in REVIEWS},
    }
