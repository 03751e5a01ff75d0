"""The history of decisions: who decided what and how long it took, in figures and one by one; and as a file."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import sentence
from console.templatetags.figures import moment
from console.views.review_history_filter import (
    FIELDS,
    OFFERED,
    PERIODS,
    VERB_WORDS,
    address,
    chips,
    filter_of,
    period_of,
)
from fabric.core.actor import Actor
from fabric.selectors.decision_export import FORMS, DecisionLines
from fabric.selectors.decision_figures import FIGURES_MAX, Figures, decision_figures, overdue_count
from fabric.selectors.decision_history import Decided, HistoryFilter, decided_page
from fabric.selectors.decision_tau import ENOUGH, Sits, tau_judged
from fabric.selectors.runs_list import fabric_ids
from fabric.selectors.time_limit import TookTooLong
from fabric.services.decision_export import decisions_export, may_export_all

ROWS = 50
TONES = {Sits.UNASKED: "neutral", Sits.UNKNOWN: "neutral", Sits.HIGH: "warn", Sits.LOW: "warn", Sits.RIGHT: "neutral"}
"""Of what is said of tau; total over ``Sits``. None is ok: nothing here proves that tau sits right."""
PARTS = (
    ("approved", "approved", "neutral"),
    ("against", "edited, declined or rejected", "human"),
    ("responded", "sent back", "info"),
)
"""What people decided, as the parts of a bar: field, word, tone."""
BELOW = 10
"""Bands of a tenth below tau that are drawn, at most."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar, in percent of its width."""

    word: str
    tone: str
    count: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of figures as it is shown."""

    of: Figures

    @property
    def parts(self) -> list[Part]:
        """What people decided, as parts of a bar."""
        found, x = [], 0.0
        for field, word, tone in PARTS:
            count = getattr(self.of, field)
            if count:
                width = 100 * count / self.of.people
                found.append(Part(word, tone, count, round(x, 2), round(width, 2)))
                x += width
        return found

    @property
    def below(self) -> str:
        """Of a band: how far below tau."""
        band = int(self.of.name)
        return "not below tau" if band < 0 else f"{band / 10:g} to {(band + 1) / 10:g} below"


@dataclass(frozen=True, slots=True)
class Row:
    """A decision as it is shown."""

    one: Decided

    @property
    def said(self) -> str:
        """What it came to."""
        return "expired" if self.one.expired else VERB_WORDS.get(self.one.verb, self.one.verb)

    @property
    def tone(self) -> str:
        """Of the badge: what the system did by itself stands out."""
        return "warn" if self.one.expired or self.one.late else "neutral"


@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """The decisions of a period, in figures and one by one, the newest first. 503: the list itself took too long."""
    actor, now = actor_of(request.user), time.time_ns() // 1_000
    wanted, period, base = (
        filter_of(request.GET.dict(), now=now),
        period_of(request.GET.dict()),
        reverse("reviews-history"),
    )
    after = request.GET.get("after", "")
    shown: dict[str, Any] = {
        "wanted": wanted,
        "period": period,
        "period_words": PERIODS[period][0],
        "offered": OFFERED,
        "fabrics": sorted(fabric_ids(actor)),
        "chips": chips(base, period, wanted),
        "clear": address(base, period, HistoryFilter()),
        "first": address(base, period, wanted),
        "longer": address(base, "all", wanted) if period != "all" else "",
        "after": after,
        "fields": [(name, getattr(wanted, name)) for name in FIELDS if name != "by"],
        "all": may_export_all(actor),
        "me": actor.name,
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
    }
    try:
        page = decided_page(actor, wanted, limit=ROWS, after=after)
    except TookTooLong as refusal:
        return render(request, "reviews/history.html", shown | {"slow": str(refusal)}, status=503)
    shown["rows"] = [Row(one) for one in page.rows]
    shown["more"] = address(base, period, wanted, after=page.next) if page.next else ""
    return render(request, "reviews/history.html", shown | ({} if after else _figures(actor, wanted, now)))


def _figures(actor: Actor, wanted: HistoryFilter, now: int) -> dict[str, Any]:
    """What stands above the rows; it may be missing, and then says so."""
    try:
        found, overdue = decision_figures(actor, wanted, now=now), overdue_count(actor, wanted, now=now)
    except (TookTooLong, DatabaseError) as refusal:
        slow = str(refusal) if isinstance(refusal, TookTooLong) else "the figures could not be made"
        return {"figures_missing": slow}
    judged = tau_judged(found.bands)
    return {
        "figures": found,
        "whole": Line(found.whole),
        "overdue": overdue,
        "places": [Line(one) for one in found.places],
        "reasons": [Line(one) for one in found.reasons if one.people],
        "bands": [Line(one) for one in found.bands if one.people][: BELOW + 1],
        "people": [Line(one) for one in found.people],
        "mine": next((one for one in found.people if one.name == actor.name), None),
        "tau": sentence(judged.sentence),
        "tau_tone": TONES[judged.sits],
        "enough": ENOUGH,
        "figures_max": FIGURES_MAX,
    }


@require_POST
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The decisions of a period as a file, streamed; the audit stream tells of it. 403: others' decisions; 422: no such form."""
    given = {name: request.POST.get(name, "") for name in (*FIELDS, "decided")}
    form = request.POST.get("form", "csv")
    wanted = filter_of(given, now=time.time_ns() // 1_000)
    return streamed(
        decisions_export(actor=actor_of(request.user), wanted=wanted, form=form),
        form,
    )


def streamed(lines: DecisionLines, form: str) -> StreamingHttpResponse:
    """The response that gives an export a page at a time."""
    response = StreamingHttpResponse(_pages(lines), content_type=FORMS[form])
    response.headers["Content-Disposition"] = f'attachment; filename="decisions.{form}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _pages(lines: DecisionLines) -> AsyncIterator[bytes]:
    """One page at a time: the server asks for the next when the last has gone out."""
    while page := await sync_to_async(lines.next_page)():
        yield page
