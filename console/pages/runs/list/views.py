"""Shows the list of runs: one query line that everything follows from, kept in the address.

Runs of drills are rows of the same form, each under its drill and verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from console.pages.runs.list.chart import Chart, build_chart
from console.pages.runs.list.orders import WORDS, build_headings
from console.pages.runs.list.rows import RunListLine, lines
from console.pages.runs.list.saved import TABS_MAX, build_column_boxes, find_shown_view, list_shown_columns
from console.site.access.actors import find_actor
from console.site.downloads import list_response
from console.site.requests.time_zone import find_zone
from console.site.sentences import sentence
from console.templatetags.figures import moment
from console.words.drills import DrillMark, cell_words, drill_mark
from console.words.run_jobs import ACTION_WORDS
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.units import US
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabrics_list
from fabric.selectors.list_file import FORMS
from fabric.selectors.runs.query.filters import Ids, slow_terms
from fabric.selectors.runs.query.grammar import FIELDS, OF_CONTENTS, TEXT, Problem, Query, Term, parse, quote_term
from fabric.selectors.runs.query.list_pages import (
    Matched,
    Page,
    RunRow,
    fabric_ids,
    runs_counts,
    runs_matched,
    runs_news,
    runs_page,
)
from fabric.selectors.runs.query.orders import NEWEST, Order, keep_order, read_order
from fabric.selectors.runs.query.run_lines import RUNS_MAX, RunLines
from fabric.selectors.runs.query.values import Bounds, Kind
from fabric.selectors.runs.saved_views import RunsView, list_saved_views
from fabric.services.runs.saved_views import may_share
from simulator.drills.runs.names import PART_WORDS
from simulator.drills.selectors.drill_views import DrillView
from simulator.drills.selectors.runs import PAGE, DrillRuns, drills_with_runs

PAGE_RUNS = 50
TAB_COUNT_MAX = 1_000
NEWS_MAX = 100
MENDS_MAX = 5
"""A line with more mistakes gets no guess."""
NEWS_LIMIT_ROWS = 200
"""A page has no more rows than so many to ask about."""

TABS = (
    ("All", "", ""),
    ("Running", "state:running", ""),
    ("Waiting", "state:waiting", "human"),
    ("Failed today", "state:failed,aborted ended:today", "danger"),
    ("Recovered", "state:completed recovered:yes", "warn"),
)
"""Word, query and tone of each view; the first shows no count."""

OPERATORS = (("is", "", "is"), ("not", "-", "is not"), ("more", ">", "is more than"), ("less", "<", "is less than"))
"""Options of the form for one more filter: value, sign, words."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A ready-made view."""

    word: str
    query: str
    tone: str
    count: str
    current: bool
    sort: str = ""
    title: str = ""
    """Its sharer in words; empty: it is ready-made, or the reader's own."""

    @property
    def href(self) -> str:
        """Its address."""
        return address(self.query, sort=self.sort)


@dataclass(frozen=True, slots=True)
class Chip:
    """One term, and the address of the list without it."""

    term: Term
    without: str

    @property
    def name(self) -> str:
        """Name of the term's field."""
        return "title" if self.term.field == TEXT else self.term.field

    @property
    def value(self) -> str:
        """The value that the term filters by, in words."""
        written = self.term.written
        if self.term.field == "started" and written.startswith("-") and ".." not in written:
            written = f"last {written[1:]}"
        elif self.term.field in OF_CONTENTS:
            written = f"has {written}"
        elif isinstance(self.term.value, tuple):
            written = " or ".join(self.term.value).replace("_", " ")
        return f"not {written}" if self.term.negated else written


def address(query: str, **more: str) -> str:
    """Return the address of the list with a query."""
    asked = {"q": query, **more}
    kept = {name: value for name, value in asked.items() if value}
    return reverse("runs") + (f"?{urlencode(kept)}" if kept else "")


def order_address(query: Query, order: Order, **more: str) -> str:
    """Return the address of the list with a query in an order."""
    return address(query.text, sort="" if order == NEWEST else order.name, **more)


def _export_address(query: Query, order: Order, form: str) -> str:
    asked = {"q": query.text, "sort": "" if order == NEWEST else order.name, "form": form}
    return f"{reverse('runs-export')}?{urlencode({name: value for name, value in asked.items() if value})}"


def _without(query: Query, term: Term, order: Order) -> str:
    """Return the address without a term, in the order of the page where it still serves."""
    left = Query(query.drop_term(term), tuple(other for other in query.terms if other is not term))
    return order_address(left, keep_order(order.name, left))


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The runs that match ``q``, a page at a time. A line that is not understood leaves the last good one's runs where
    they are.
    """
    if "field" in request.GET or "state" in request.GET:
        return HttpResponseRedirect(_add_filter(request))
    actor, now, zone = find_actor(request.user), time.time_ns() // 1_000, find_zone(request)
    fabrics = fabric_ids(actor)
    asked = parse(request.GET.get("q", ""), now=now, fabrics=tuple(fabrics), zone=zone)
    if isinstance(asked, Query) and "last" in request.GET:
        return HttpResponseRedirect(order_address(asked, keep_order(request.GET.get("sort", ""), asked)))
    query, problem = (_last_good(request, now, fabrics), asked) if isinstance(asked, Problem) else (asked, None)
    order = (keep_order if problem else read_order)(request.GET.get("sort", ""), query)
    saved = list_saved_views(actor)
    here = find_shown_view(saved, query, order)
    columns = list_shown_columns(actor, here)
    shown: dict[str, Any] = {
        "query": query,
        "problem": problem,
        "mended": _mend_query(problem, now, fabrics, zone) if problem else None,
        "typed": problem.text if problem else query.text,
        "chips": [Chip(term, _without(query, term, order)) for term in query.terms],
        "sort": "" if order == NEWEST else order.name,
        "tabs": [*_tabs(actor, query, now, fabrics, zone), *_list_saved_tabs(actor, saved, here)],
        "saved": here,
        "views": len(saved),
        "columns": columns,
        "column_boxes": build_column_boxes(columns),
        "may_share": may_share(actor),
        "fields": _vocabulary("runs/list/fields.html"),
        "words": _vocabulary("runs/list/words.html"),
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
        "refresh": order_address(query, order),
        "zone": str(zone),
        "dated": any(FIELDS[term.field].kind is Kind.INSTANT for term in query.terms),
        "exports": [(form, _export_address(query, order, form)) for form in FORMS],
        "export_max": RUNS_MAX,
    }
    try:
        page = _page(request, actor, query, fabrics, order)
    except TookTooLong as refusal:
        return render(
            request, "runs/list/page.html", shown | {"too_long": _too_long(query, str(refusal), now)}, status=503
        )
    shown |= _build_side_parts(actor, query, fabrics, now, page) | _rows(page, query, now)
    shown |= {"picks": actor.may_somewhere(Right.CONTROL), "actions": tuple(ACTION_WORDS.items())}
    return render(request, "runs/list/page.html", shown, status=422 if problem else 200)


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """Return news for an open list, which asks every two seconds: missing runs, and rows that changed."""
    actor, now, zone = find_actor(request.user), time.time_ns() // 1_000, find_zone(request)
    fabrics = fabric_ids(actor)
    query = parse(request.GET.get("q", ""), now=now, fabrics=tuple(fabrics), zone=zone)
    if isinstance(query, Problem):
        return HttpResponse(sentence(query.message), status=422, content_type="text/plain; charset=utf-8")
    down_to = request.GET.get("down", "")
    try:
        found = runs_news(
            actor, query, fabrics, shown=_read_seen(request.GET.get("seen", "")), down_to=down_to or None, most=NEWS_MAX
        )
    except TookTooLong as refusal:
        return HttpResponse(sentence(str(refusal)), status=503, content_type="text/plain; charset=utf-8")
    counts_new = request.GET.get("new", "yes") == "yes"
    order = keep_order(request.GET.get("sort", ""), query)
    shown = {
        "columns": list_shown_columns(actor, find_shown_view(list_saved_views(actor), query, order)),
        "count": found.count if counts_new else 0,
        "more": found.count >= NEWS_MAX,
        "lines": _lines(found.changed, query, order, now),
        "now_ms": now // 1_000,
    }
    return render(request, "runs/list/news.html", shown)


@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Stream the runs that ``q`` finds as ``form``. 422: a line, order or form that is none. 503: it took too long."""
    actor, now, zone = find_actor(request.user), time.time_ns() // 1_000, find_zone(request)
    fabrics = fabric_ids(actor)
    query = parse(request.GET.get("q", ""), now=now, fabrics=tuple(fabrics), zone=zone)
    if isinstance(query, Problem):
        raise Refused(query.sentence, code="invalid", field="q")
    order = read_order(request.GET.get("sort", ""), query)
    lines_of = RunLines(actor, query, fabrics, order, form=request.GET.get("form", "csv"))
    try:
        return list_response(lines_of, first=lines_of.next_page())
    except TookTooLong as refusal:
        message = f"{refusal}; narrow the query down, such as by started:-1d"
        raise Refused(message, code="unavailable", field="q") from None


def _last_good(request: HttpRequest, now: int, fabrics: Ids) -> Query:
    last = parse(request.GET.get("last", ""), now=now, fabrics=tuple(fabrics), zone=find_zone(request))
    return last if isinstance(last, Query) else Query()


def _mend_query(problem: Problem, now: int, fabrics: Ids, zone: tzinfo) -> Query | None:
    """The line as it was probably meant: guess after guess until it is understood, or none."""
    line: Problem | Query = problem
    for _ in range(MENDS_MAX):
        if isinstance(line, Query) or not line.instead:
            break
        line = parse(line.instead, now=now, fabrics=tuple(fabrics), zone=zone)
    return line if isinstance(line, Query) else None


def _page(request: HttpRequest, actor: Actor, query: Query, fabrics: Ids, order: Order) -> Page:
    before, after = request.GET.get("before", ""), request.GET.get("after", "")
    page = runs_page(actor, query, fabrics, order=order, limit=PAGE_RUNS, before=before or None, after=after or None)
    upwards = after and not before if order.falling else before
    if upwards and not (page.newer if order.falling else page.older):
        # The first page is always a whole one, so that it is the same whichever way one comes to it.
        return runs_page(actor, query, fabrics, order=order, limit=PAGE_RUNS)
    return page


def _rows(page: Page, query: Query, now: int) -> dict[str, Any]:
    order, words = page.order, WORDS[page.order.name]
    above, below = (page.newer, page.older) if order.falling else (page.older, page.newer)
    up, down = ("after", "before") if order.falling else ("before", "after")
    return {
        "lines": _lines(page.rows, query, order, now),
        "headings": build_headings(order, query, lambda other: order_address(query, other)),
        "order": words,
        "newest": not above and order == NEWEST,
        "above": order_address(query, order, **{up: page.first}) if page.rows and above else "",
        "below": order_address(query, order, **{down: page.last}) if page.rows and below else "",
        "first": order_address(query, order) if above else "",
        "down": page.last if page.rows and below and order == NEWEST else "",
    }


def _lines(rows: Iterable[RunRow], query: Query, order: Order, now: int) -> list[RunListLine]:
    sort = "" if order == NEWEST else order.name
    return lines(rows, now, order.word, lambda field, value: address(query.add_term(field, value), sort=sort))


def _build_side_parts(actor: Actor, query: Query, fabrics: Ids, now: int, page: Page) -> dict[str, Any]:
    """Return the parts around the rows. A part that cannot be had says so."""
    matched: Matched | None = None
    chart: Chart | None = None
    try:
        matched = runs_matched(actor, query, fabrics)
        if matched.oldest is not None:
            chart = build_chart(actor, query, fabrics, matched=matched, now=now)
    except (TookTooLong, DatabaseError):
        pass
    return {"matched": matched, "chart": chart, "on_page": len(page.rows)}


def _tabs(actor: Actor, query: Query, now: int, fabrics: Ids, zone: tzinfo) -> list[Tab]:
    views = [parse(text, now=now, zone=zone) for _, text, _ in TABS]
    queries = [view for view in views if isinstance(view, Query)]
    counts: tuple[int | None, ...] = (None,) * len(queries)
    try:
        counts = (None, *runs_counts(actor, queries[1:], fabrics, most=TAB_COUNT_MAX + 1))
    except (TookTooLong, DatabaseError):
        pass
    return [
        Tab(word, text, tone if count else "", _cap_count(count), query.text == text)
        for (word, text, tone), count in zip(TABS, counts, strict=True)
    ]


def _list_saved_tabs(actor: Actor, saved: list[RunsView], here: RunsView | None) -> list[Tab]:
    """Return the first saved views as tabs, without a count, and the shown one where it is none of them."""
    first = saved[:TABS_MAX]
    picked = [*first, here] if here and here not in first else first
    return [Tab(view.name, view.query, "", "", view is here, view.sort, _name_sharer(actor, view)) for view in picked]


def _name_sharer(actor: Actor, view: RunsView) -> str:
    return "" if view.owner == actor.name else f"Shared by {view.owner}"


def _cap_count(count: int | None) -> str:
    if count is None:
        return ""
    return f"{TAB_COUNT_MAX:,}+" if count > TAB_COUNT_MAX else f"{count:,}"


@lru_cache(maxsize=8)
def _vocabulary(template: str) -> SafeString:
    """Return the help for the query line. All pages have equal help, so it is made once."""
    return render_to_string(template, {"fields": tuple(FIELDS.items()), "operators": OPERATORS})


NARROWER: tuple[tuple[int, str, str], ...] = (
    (86_400 * US, "started:-1d", "last day's"),
    (3_600 * US, "started:-1h", "last hour's"),
)
"""Terms that make a slow query quick: remaining time in microseconds, term, words. The widest first."""


def _too_long(query: Query, refusal: str, now: int) -> dict[str, Any]:
    """Return the filter that takes too long, and one that would help by leaving less time."""
    written = [query.text[term.start : term.end] for term in slow_terms(query)]
    dated = [term for term in query.terms if term.field == "started"]
    asked = [now - term.value.low for term in dated if isinstance(term.value, Bounds) and term.value.low is not None]
    length = min(asked, default=None)
    for less, helps, words in NARROWER:
        if length is None or less < length:
            kept = [query.text[term.start : term.end] for term in query.terms if term not in dated]
            step = f"{'Use' if dated else 'Add'} {helps}"
            narrowed = address(" ".join([*kept, helps]))
            return _slow(refusal, written) | {"helps": helps, "span": words, "step": step, "narrowed": narrowed}
    return _slow(refusal, written)


def _slow(refusal: str, written: list[str]) -> dict[str, Any]:
    return {"refusal": sentence(refusal), "terms": written}


def _add_filter(request: HttpRequest) -> str:
    """The list's address with the filter that the form names, or that an older link did with ``state``."""
    given = request.GET
    query = given.get("q", "").strip()
    field, value = given.get("field", ""), given.get("value", "")
    if "field" not in given:
        field, value = "state", given.get("state", "")
    sign = {name: sign for name, sign, _ in OPERATORS}.get(given.get("operator", ""), "")
    if not value.strip():
        return address(query, last=given.get("last", ""), sort=given.get("sort", ""))
    compared = sign if sign in "<>" else ""
    term = quote_term(field or TEXT, compared + value, negated=sign == "-")
    return address(f"{query} {term}".strip(), last=query, sort=given.get("sort", ""))


def _read_seen(text: str) -> dict[str, int]:
    """``id.seq,id.seq`` of a page's rows; what is anything else is passed over."""
    seen: dict[str, int] = {}
    for part in text.split(",")[:NEWS_LIMIT_ROWS]:
        run_id, _, seq = part.partition(".")
        if len(run_id) == 36 and seq.isascii() and seq.isdecimal() and len(seq) < 10:
            seen[run_id] = int(seq)
    return seen


@dataclass(frozen=True, slots=True)
class Group:
    """A drill and its runs as rows."""

    drill: DrillView
    title: str
    mark: DrillMark
    rows: tuple[tuple[str, RunListLine], ...]
    """``(part in a word, row)``."""


@require_safe
def drill_runs(request: HttpRequest) -> HttpResponse:
    """The newest drills whose runs are kept; of one fabric where it is named, else of all. Refused not_found for a name
    that is none.
    """
    actor, now = find_actor(request.user), time.time_ns() // 1_000
    name, offered = request.GET.get("fabric", ""), fabrics_list(actor)
    if name and name not in {one.name for one in offered}:
        raise Refused(f"no fabric is named {name[:80]!r}; choose one of the list", code="not_found", field="fabric")
    before = request.GET.get("before", "")
    found, more = drills_with_runs(actor, fabric=name, before=before, limit=PAGE)
    shown = {
        "groups": [_group(one, now) for one in found],
        "offered": offered,
        "fabric": name,
        "first": _address(name) if before else "",
        "older": _address(name, found[-1].drill.id) if more else "",
        "now_ms": now // 1_000,
    }
    return render(request, "runs/list/drills.html", shown)


def _address(name: str, before: str = "") -> str:
    asked = {key: value for key, value in (("fabric", name), ("before", before)) if value}
    return reverse("drills-runs") + (f"?{urlencode(asked)}" if asked else "")


def _group(one: DrillRuns, now: int) -> Group:
    rows = lines([run for _, run in one.runs], now)
    said = [PART_WORDS.get(part, part) for part, _ in one.runs]
    return Group(one.drill, cell_words(one.drill), drill_mark(one.drill), tuple(zip(said, rows, strict=True)))
