"""Shows figures of the runs that a query finds: outcomes, spending, latency, what fired, reviews in time.

Every figure is a link to its runs in the list of runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.pages.dashboards.charts import BarChart, BarPart, Series
from console.pages.runs.list.views import address
from console.site.access.actors import find_actor
from console.site.requests.time_zone import find_zone
from console.site.sentences import sentence
from console.templatetags.figures import moment, span, thousands, usd
from console.words.protections import MARKS
from fabric.selectors.dashboards.asked import DAYS, LABEL, USUAL_RANGE, DashboardAsked, Grouping, Width, read_asked
from fabric.selectors.dashboards.dashboard import RUNS_MAX, find_dashboard
from fabric.selectors.dashboards.figures import OUTCOMES, REVIEWS, Dashboard, Figures, Group
from fabric.selectors.dashboards.narrowing import narrow_line
from fabric.selectors.dashboards.statement import GROUPS_MAX
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.runs.query.grammar import Problem, Query, parse
from fabric.selectors.runs.query.list_pages import fabric_ids

SPANS: Mapping[str, str] = {
    "1d": "last 24 hours",
    "7d": "last 7 days",
    "30d": "last 30 days",
    "90d": "last 90 days",
    "365d": "last 365 days",
}
"""Words of each range. Total over ``DAYS``, by test."""
OUTCOME_WORDS: Mapping[str, tuple[str, str]] = {
    "completed": ("completed", "neutral"),
    "recovered": ("completed after recovery", "warn"),
    "bad": ("failed, aborted or stopped", "danger"),
    "cancelled": ("cancelled", "hollow"),
    "unended": ("not ended yet", "info"),
}
"""Words and tone of each outcome, as the chart of the list has them. Total over ``OUTCOMES``, by test."""
REVIEW_WORDS: Mapping[str, str] = {
    "in_time": "answered in time",
    "late": "answered late",
    "expired": "expired without an answer",
    "overdue": "open and overdue",
    "waiting": "open, not due yet",
}
"""Words of each outcome of a review. Total over ``REVIEWS``, by test."""
COLOURS = ("1", "2", "3", "4", "5", "6")
"""Colours of groups in a chart; groups beyond them share the last one."""
TIMES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Count:
    """A number with the address of its runs."""

    name: str
    count: int
    href: str
    icon: str = ""
    most: int = 0
    """Largest number beside it, which a bar compares it with."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group as a row of the table."""

    group: Group
    href: str
    outcomes: tuple[Count, ...]
    slowest: str
    """Address of its runs with a latency, the longest first."""
    fired: tuple[Count, ...]
    reviews: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class _Links:
    """Addresses of runs in the list."""

    query: Query
    asked: DashboardAsked

    def find(self, terms: Iterable[str] | None, *, sort: str = "", whole: bool = True) -> str:
        """Return the address of the runs that match further terms; empty: no line says it. ``whole``: of the range."""
        if terms is None:
            return ""
        own = [self.asked.term] if whole else []
        line = narrow_line(self.query, *own, *terms)
        return address(line, sort=sort) if line else ""


@require_safe
def dashboards(request: HttpRequest) -> HttpResponse:
    """Show the figures of the runs that ``q`` finds. 422: a line or a choice that is none. 503: it took too long."""
    actor, now, zone = find_actor(request.user), time.time_ns() // 1_000, find_zone(request)
    given = {name: request.GET.get(name, "") for name in ("q", "range", "bucket", "by", "key")}
    by = f"{LABEL}{given['key'].strip()}" if given["by"] == Grouping.LABEL else given["by"]
    fabrics = fabric_ids(actor)
    query = parse(given["q"], now=now, fabrics=tuple(fabrics), zone=zone)
    shown = _build_form(given, now, zone)
    if isinstance(query, Problem):
        return render(request, "dashboards/page.html", shown | {"problem": sentence(query.sentence)}, status=422)
    try:
        asked = read_asked(given["range"], given["bucket"], by, now=now, zone=zone)
    except Refused as refusal:
        return render(request, "dashboards/page.html", shown | {"problem": sentence(str(refusal))}, status=422)
    shown |= {"asked": asked, "said": SPANS[asked.span], "by": asked.by.value, "key": asked.key or given["key"]}
    try:
        found = find_dashboard(actor, query, fabrics, asked)
    except TookTooLong as refusal:
        return render(request, "dashboards/page.html", shown | {"slow": sentence(str(refusal))}, status=503)
    return render(request, "dashboards/page.html", shown | _build_parts(found, _Links(query, asked), zone))


def _build_form(given: Mapping[str, str], now: int, zone: tzinfo) -> dict[str, Any]:
    return {
        "typed": given["q"],
        "given": given,
        "spans": SPANS.items(),
        "span": given["range"] or USUAL_RANGE,
        "widths": tuple(Width),
        "groupings": tuple(Grouping),
        "by": given["by"],
        "key": given["key"],
        "zone": str(zone),
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
        "days_max": max(DAYS.values()),
        "runs_max": RUNS_MAX,
        "groups_max": GROUPS_MAX,
    }


def _build_parts(found: Dashboard, links: _Links, zone: tzinfo) -> dict[str, Any]:
    return {
        "found": found,
        "all_runs": links.find(()),
        "slowest": links.find(("-state:cancelled",), sort="-took"),
        "charts": list_charts(found, links, zone) if found.whole.runs else (),
        "counted": (
            ("Fired", _list_fired(found.whole, links, ()), "No protection fired."),
            ("Reviews", _list_reviews(found.whole, links, ()), "No review was asked for."),
        ),
        "lines": tuple(_build_line(group, links) for group in found.groups),
        "by_words": links.asked.grouping.replace(LABEL, "label "),
    }


def _build_line(group: Group, links: _Links) -> GroupLine:
    terms = group.terms
    return GroupLine(
        group,
        href=links.find(terms),
        outcomes=tuple(
            Count(OUTCOME_WORDS[name][0], getattr(group.figures, name), _also(links, terms, OUTCOMES[name]))
            for name in OUTCOMES
        ),
        slowest=_also(links, terms, ("-state:cancelled",), sort="-took"),
        fired=_list_fired(group.figures, links, terms)[:3],
        reviews=_list_reviews(group.figures, links, terms),
    )


def _also(links: _Links, terms: tuple[str, ...] | None, more: tuple[str, ...], sort: str = "") -> str:
    return "" if terms is None else links.find((*terms, *more), sort=sort)


def _list_fired(figures: Figures, links: _Links, terms: tuple[str, ...] | None) -> tuple[Count, ...]:
    most = max(figures.fired.values(), default=0)
    return tuple(
        Count(MARKS[name][1], count, _also(links, terms, (f"fired:{name}",)), MARKS[name][0], most)
        for name, count in figures.fired.items()
        if name in MARKS
    )


def _list_reviews(figures: Figures, links: _Links, terms: tuple[str, ...] | None) -> tuple[Count, ...]:
    found = ((name, getattr(figures.reviews, name)) for name in REVIEWS)
    most = max((getattr(figures.reviews, name) for name in REVIEWS), default=0)
    return tuple(
        Count(REVIEW_WORDS[name], count, _also(links, terms, (f"review:{name}",)), most=most)
        for name, count in found
        if count
    )


# -- charts -----------------------------------------------------------------------------------------------------------


def list_charts(found: Dashboard, links: _Links, zone: tzinfo) -> tuple[BarChart, ...]:
    """Return the charts of a dashboard: outcomes, spending by group, latency."""
    names = tuple(_name_stretch(one.since, links.asked.width, zone) for one in found.times)
    width = f"one {links.asked.width} a bar"
    return (
        BarChart("outcomes", "Outcomes", width, names, tuple(_list_outcomes(found, links)), thousands),
        BarChart("spend", "Spending", f"{width}, by {links.asked.grouping.replace(LABEL, 'label ')}", names, tuple(_list_costs(found, links)), usd),
        BarChart("latency", "Latency", f"{width}, from the request to the end", names, tuple(_list_latencies(found, links)), span),
    )  # fmt: skip


def _name_stretch(at: int, width: Width, zone: tzinfo) -> str:
    local = moment(at).astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M}" if width is Width.HOUR else f"{local:%Y-%m-%d}"


def _list_outcomes(found: Dashboard, links: _Links) -> Iterable[Series]:
    terms = [stretch.term for stretch in links.asked.stretches]
    for name, (words, tone) in OUTCOME_WORDS.items():
        counts = [getattr(one.figures, name) for one in found.times]
        yield Series(
            words,
            tone,
            tuple(
                BarPart(count, thousands(count), links.find((term, *OUTCOMES[name]), whole=False) if count else "")
                for count, term in zip(counts, terms, strict=True)
            ),
        )


def _list_costs(found: Dashboard, links: _Links) -> Iterable[Series]:
    own, rest = found.groups[: len(COLOURS)], found.groups[len(COLOURS) :]
    if rest:
        own, rest = own[:-1], (own[-1], *rest)
    for colour, group in zip(COLOURS, own, strict=False):
        yield Series(group.name, colour, _list_cost_parts(group.costs, links, group.terms))
    if rest:
        costs = tuple(sum(amounts) for amounts in zip(*(group.costs for group in rest), strict=True))
        yield Series(f"{len(rest)} more", COLOURS[-1], _list_cost_parts(costs, links, None))


def _list_cost_parts(costs: tuple[int, ...], links: _Links, terms: tuple[str, ...] | None) -> tuple[BarPart, ...]:
    return tuple(
        BarPart(cost, usd(cost), links.find((one.term, *terms), whole=False) if cost and terms is not None else "")
        for cost, one in zip(costs, links.asked.stretches, strict=True)
    )


def _list_latencies(found: Dashboard, links: _Links) -> Iterable[Series]:
    below = [0] * len(found.times)
    for number, name in enumerate(TIMES):
        values = [getattr(one.figures, f"{name}_us") for one in found.times]
        parts = tuple(
            BarPart(
                max(0, (value or 0) - low),
                span(value),
                links.find((one.term, "-state:cancelled"), sort="-took", whole=False) if value is not None else "",
            )
            for value, low, one in zip(values, below, links.asked.stretches, strict=True)
        )
        below = [value or 0 for value in values]
        yield Series(f"{'up to' if not number else 'to'} {name}", str(number + 1), parts)
