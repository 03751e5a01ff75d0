"""The history of decisions: who decided what and how long it took, in figures and one by one; and as a file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.exporting import list_response
from console.forms import sentence
from console.views.list_grammar import Asked
from console.views.list_page import ROWS, list_page
from console.views.review_history_filter import HISTORY, VERB_WORDS
from fabric.core.actor import Actor
from fabric.selectors.decision_figures import FIGURES_MAX, Figures, decision_figures, overdue_count
from fabric.selectors.decision_history import Decided, DecidedPage, HistoryFilter, decided_page
from fabric.selectors.decision_tau import ENOUGH, Sits, tau_judged
from fabric.selectors.runs_list import fabric_ids
from fabric.selectors.time_limit import TookTooLong
from fabric.services.decision_export import decisions_export, may_export_all

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
    """The decisions of a period, in figures and one by one, the newest first. 422, 503: as every list."""
    actor, all_too = actor_of(request.user), may_export_all(actor_of(request.user))

    def beside(asked: Asked[HistoryFilter], page: DecidedPage, after: str) -> dict[str, Any]:
        figures = {} if after else _figures(actor, asked.wanted(), time.time_ns() // 1_000)
        longer = asked.chosen("all") if asked.choice != "all" else ""
        files = asked if all_too else asked.with_value("by", actor.name)
        return {"rows": [Row(one) for one in page.rows], "longer": longer, "files": files, **figures}

    return list_page(
        request,
        HISTORY,
        "reviews/history.html",
        page_of=lambda asked, after: decided_page(actor, asked.wanted(), limit=ROWS, after=after),
        beside=beside,
        shown={"all": all_too},
        names={"fabric": sorted(fabric_ids(actor))},
    )


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
    """The decisions of a period as a file, streamed; the audit stream records it. 403: others' decisions; 422: an unknown form or word."""
    wanted, form = HISTORY.read(request.POST).wanted(), request.POST.get("form", "csv")
    return list_response(decisions_export(actor=actor_of(request.user), wanted=wanted, form=form))
