"""Shows the history of decisions with its filter, in figures and one by one; exports it as a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_POST, require_safe

from console.pages.lists.grammar import ROWS, Grammar, ListField, ListRequest, list_page
from console.site.access.actors import find_actor
from console.site.downloads import list_response
from console.site.sentences import sentence
from console.templatetags.marks import FAILURES, ITEMS, TIERS
from fabric.core.people.actor import Actor
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.reviews.decisions.figures import (
    ENOUGH,
    FIGURES_MAX,
    DecisionFigures,
    TauPosition,
    decision_figures,
    overdue_count,
    tau_judged,
)
from fabric.selectors.reviews.decisions.history import VERBS, DecidedPage, DecidedReview, HistoryFilter, decided_page
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.services.reviews.decisions import decisions_export, may_export_all

# -- filter -----------------------------------------------------------------------------------------------------------

VERB_WORDS: Mapping[str, str] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "sent back",
    "decline": "declined",
    "withdrawn": "withdrawn",
}
"""Words of each verb. Total over ``VERBS``, by test."""
HISTORY = Grammar(
    route="reviews-history",
    makes=HistoryFilter,
    usual="30d",
    fields=(
        ListField("fabric", "fabric"),
        ListField("item", "kind", tuple((name, words) for name, words in ITEMS.items() if name != "follow_up")),
        ListField("verb", "answer", tuple((verb, VERB_WORDS[verb]) for verb in VERBS)),
        ListField("tier", "tier", tuple(TIERS.items()), place="more"),
        ListField("failure", "failure", tuple(FAILURES.items()), place="more"),
        ListField(
            "who", "decided by", (("people", "people"), ("system", "the system: no one answered in time")), place="more"
        ),
        ListField("by", "person", hint="a user's name", place="more"),
    ),
)

# -- views ------------------------------------------------------------------------------------------------------------

TONES = {
    TauPosition.UNASKED: "neutral",
    TauPosition.UNKNOWN: "neutral",
    TauPosition.HIGH: "warn",
    TauPosition.LOW: "warn",
    TauPosition.RIGHT: "neutral",
}
"""Tone of each judgement about tau; total over ``TauPosition``. None is ok: nothing here proves that tau is right."""
PARTS = (
    ("approved", "approved", "neutral"),
    ("objections", "edited, declined or rejected", "human"),
    ("responded", "sent back", "info"),
)
"""Parts of the bar of decisions: field, word, tone."""
BELOW = 10
"""Largest number of drawn bands; each is a tenth below tau."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar, in percent of its width."""

    word: str
    tone: str
    count: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class FigureLine:
    """A line of figures."""

    of: DecisionFigures

    @property
    def parts(self) -> list[BarPart]:
        """Return the decisions of people as parts of a bar."""
        found, x = [], 0.0
        for field, word, tone in PARTS:
            count = getattr(self.of, field)
            if count:
                width = 100 * count / self.of.people
                found.append(BarPart(word, tone, count, round(x, 2), round(width, 2)))
                x += width
        return found

    @property
    def distance_below(self) -> str:
        """Return how far a band lies below tau, in words."""
        band = int(self.of.name)
        return "not below the needed score" if band < 0 else f"{band / 10:g} to {(band + 1) / 10:g} below"


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision as a row of the page."""

    one: DecidedReview

    @property
    def outcome(self) -> str:
        """Return the outcome in words."""
        return "expired" if self.one.expired else VERB_WORDS.get(self.one.verb, self.one.verb)

    @property
    def tone(self) -> str:
        """Return the tone of the badge: acts of the system stand out."""
        return "warn" if self.one.expired or self.one.late else "neutral"


@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """Show the decisions of a period, in figures and one by one, the newest first. 422, 503: as every list."""
    actor, all_too = find_actor(request.user), may_export_all(find_actor(request.user))

    def build_side(asked: ListRequest[HistoryFilter], page: DecidedPage, after: str) -> dict[str, Any]:
        figures = {} if after else _figures(actor, asked.read_filter(), time.time_ns() // 1_000)
        longer = asked.choice_address("all") if asked.choice != "all" else ""
        files = asked if all_too else asked.with_value("by", actor.name)
        return {"rows": [DecisionRow(one) for one in page.rows], "longer": longer, "files": files, **figures}

    return list_page(
        request,
        HISTORY,
        "reviews/history/page.html",
        page_of=lambda asked, after: decided_page(actor, asked.read_filter(), limit=ROWS, after=after),
        beside=build_side,
        shown={"all": all_too},
        names={"fabric": sorted(fabric_ids(actor))},
    )


def _figures(actor: Actor, wanted: HistoryFilter, now: int) -> dict[str, Any]:
    """Return the figures above the rows, or the reason why they are missing."""
    try:
        found, overdue = decision_figures(actor, wanted, now=now), overdue_count(actor, wanted, now=now)
    except (TookTooLong, DatabaseError) as refusal:
        slow = str(refusal) if isinstance(refusal, TookTooLong) else "the figures could not be made"
        return {"figures_missing": slow}
    judged = tau_judged(found.bands)
    return {
        "figures": found,
        "whole": FigureLine(found.whole),
        "overdue": overdue,
        "places": [FigureLine(one) for one in found.places],
        "reasons": [FigureLine(one) for one in found.reasons if one.people],
        "bands": [FigureLine(one) for one in found.bands if one.people][: BELOW + 1],
        "people": [FigureLine(one) for one in found.people],
        "mine": next((one for one in found.people if one.name == actor.name), None),
        "tau": sentence(judged.sentence),
        "tau_tone": TONES[judged.sits],
        "enough": ENOUGH,
        "figures_max": FIGURES_MAX,
    }


@require_POST
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Stream the decisions of a period as a file, and record the export in the audit stream.

    403: others' decisions. 422: an unknown form or word.
    """
    wanted, form = HISTORY.read(request.POST).read_filter(), request.POST.get("form", "csv")
    return list_response(decisions_export(actor=find_actor(request.user), wanted=wanted, form=form))
