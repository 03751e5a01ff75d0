"""Serves the overview of present troubles. Each card reads its own data and fails alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from console.pages.overview.words import (
    ALWAYS,
    DEFAULT_RANGE,
    RANGES,
    TILES,
    BoardFacts,
    headline,
    link_to_all,
    tile_address,
    trouble_line,
    trouble_words,
)
from console.site.access.actors import find_actor
from console.site.fragments import SHARED_S, fresh_part
from console.words.drills import came_marks
from fabric.core.people.actor import Actor
from fabric.selectors.database_time import TookTooLong, time_limit
from fabric.selectors.errors import Refused
from fabric.selectors.overview.attention import DECIDED_DAYS, attention, review_queue
from fabric.selectors.overview.tiles import first_steps, spend, states, workers
from fabric.selectors.overview.waiting import WaitingForPerson, waiting_for
from simulator.drills.selectors.drill_views import State
from simulator.drills.selectors.standings import WRONG, WorkspaceStanding, drills_standing
from simulator.drills.services.drill_stop import find_drill_stop

log = logging.getLogger(__name__)
T = TypeVar("T")

ANSWERED_S = 2.0
"""Seconds after which a card has failed."""
STANDS = 4
"""Number of fabrics whose cells are named; further ones are counted."""


@dataclass(frozen=True, slots=True)
class OverviewCard:
    """A card of the page, which answers one question."""

    title: str
    ask: Callable[[Actor, int, int], Any]
    """Reads the answer for an actor, at an instant, over a range until then."""


CARDS: Mapping[str, OverviewCard] = {
    "steps": OverviewCard("First steps", lambda actor, _now, _span: first_steps(actor)),
    "states": OverviewCard("Runs by state", states),
    "attention": OverviewCard("Needs attention", lambda actor, now, _span: attention(actor, now)),
    "spend": OverviewCard("Spend", spend),
    "reviews": OverviewCard("Reviews", lambda actor, now, _span: review_queue(actor, now)),
    "workers": OverviewCard("Workers", lambda actor, now, _span: workers(actor, now)),
    "drills": OverviewCard("Drills", lambda actor, _now, _span: drills_standing(actor)),
}
"""The cards by the name of their template."""


@dataclass(frozen=True, slots=True)
class CardAnswer:
    """The answer of a card. ``problem``: a sentence if there is no answer."""

    name: str
    title: str
    found: Any = None
    problem: str = ""

    @property
    def template(self) -> str:
        """Return its template."""
        return f"overview/cards/{self.name}.html"


def card_answer(name: str, actor: Actor, now: int, last: str = DEFAULT_RANGE) -> CardAnswer:
    """Return one card's answer. An error inside a card stays inside it."""
    card = CARDS[name]
    try:
        with time_limit(ANSWERED_S):
            return CardAnswer(name, card.title, card.ask(actor, now, RANGES[last].us))
    except TookTooLong:
        return CardAnswer(name, card.title, problem=f"The database did not answer within {ANSWERED_S:g} s.")
    except Exception:
        # Anything at all: the other cards say whether something is wrong, and this one says that it does not know.
        log.exception("the overview's card %s failed", name)
        return CardAnswer(name, card.title, problem="This card could not load; see the server's log.")


def build_board(actor: Actor, now: int, last: str = DEFAULT_RANGE) -> tuple[BoardFacts, str]:
    """Return the facts for a headline, and all cards as HTML. Every viewer of the workspace sees this rendering."""
    answers = {name: card_answer(name, actor, now, last) for name in CARDS}
    facts = BoardFacts(
        attention=answers["attention"].found,
        states=answers["states"].found,
        failed=[one.title for one in answers.values() if one.problem],
        deviated=_count_deviated(answers["drills"].found),
        stopped=find_drill_stop(actor) is not None,
    )
    return facts, render_to_string("overview/board.html", {"answers": answers, **_board_context(answers, last)})


def _find_waiting(actor: Actor, now: int) -> WaitingForPerson | None:
    """Return what waits for this person; None: it could not be read."""
    try:
        with time_limit(ANSWERED_S):
            return waiting_for(actor)
    except Exception:
        # As with a card: the headline says that this is unknown.
        log.exception("the overview could not read what waits for its viewer")
        return None


def _render(board: tuple[BoardFacts, str], yours: WaitingForPerson | None, last: str) -> str:
    """Return the page's part that changes: one person's headline, and the shared cards."""
    facts, cards = board
    shown = {"headline": headline(facts, yours), "yours": yours, "ranges": RANGES, "last": last}
    head = render_to_string("overview/head.html", shown)
    return head + cards


def _board_context(answers: Mapping[str, CardAnswer], last: str = DEFAULT_RANGE) -> dict[str, Any]:
    """Return the context of the templates besides the answers."""
    known, counted = answers["attention"].found if "attention" in answers else None, None
    if "states" in answers:
        counted = answers["states"].found
    tiles = counted.tiles.values() if counted else ()
    return {
        "groups": [
            (group, trouble_words(group), [trouble_line(item) for item in group.items], link_to_all(group.kind))
            for group in (known.groups if known else ())
        ],
        "tiles": [
            (tile, *TILES[tile.tile], tile_address(tile.tile, last))
            for tile in tiles
            if tile.count or tile.tile in ALWAYS
        ],
        "last": last,
        "lasted": RANGES[last].words,
        "days": DECIDED_DAYS,
        "acknowledged": known.acknowledged if known else 0,
        **_stands(answers["drills"].found if "drills" in answers else None),
    }


def _count_deviated(found: WorkspaceStanding | None) -> int:
    return sum(one.counts.get(State.DEVIATED, 0) for one in found.wrong) if found else 0


def _stands(found: WorkspaceStanding | None) -> dict[str, Any]:
    wrong = found.wrong if found else ()
    return {
        "stands": [(one, came_marks({state: one.counts.get(state, 0) for state in WRONG})) for one in wrong[:STANDS]],
        "more_stands": max(0, len(wrong) - STANDS),
    }


def _find_range(request: HttpRequest) -> str:
    """Return the range that the address names. Raises Refused invalid for an unknown one."""
    last = request.GET.get("last", DEFAULT_RANGE)
    if last not in RANGES:
        raise Refused(f"there is no range {last[:40]!r}; there are: {', '.join(RANGES)}", code="invalid", field="last")
    return last


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Show the page."""
    now, last = time.time_ns() // 1_000, _find_range(request)
    actor = find_actor(request.user)
    html = _render(_boards[last].fresh(actor, now), _waiting.fresh(actor, now), last)
    return render(request, "overview/page.html", {"board": html, "now_ms": now // 1_000, "last": last})


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Return the changing part of the page to the page's script; without a script, redirect to the page."""
    if not request.headers.get("HX-Request"):
        return redirect("overview")
    now, last = time.time_ns() // 1_000, _find_range(request)
    actor = find_actor(request.user)
    return fresh_part(request, _render(_boards[last].recent(actor, now), _waiting.recent(actor, now), last), now)


@require_safe
def card(request: HttpRequest, card: str) -> HttpResponse:
    """Show a failed card again; without the script, the whole page."""
    actor = find_actor(request.user)
    if card not in CARDS:
        known = ", ".join(CARDS)
        raise Refused(f"the overview has no card {card[:40]!r}; it has: {known}", code="not_found", field="card")
    if not request.headers.get("HX-Request"):
        return redirect("overview")
    last = _find_range(request)
    found = card_answer(card, actor, time.time_ns() // 1_000, last)
    return render(request, "overview/cards/frame.html", {"answer": found, **_board_context({card: found}, last)})


class _Shared(Generic[T]):
    """The last answer for each viewer, or for all who see the same, and its time (monotonic clock, seconds)."""

    def __init__(self, make: Callable[[Actor, int], T], key: Callable[[Actor], Hashable]) -> None:
        self._make, self._key = make, key
        self._made: dict[Hashable, tuple[float, T]] = {}
        self._making = threading.Lock()

    def fresh(self, actor: Actor, now: int) -> T:
        """Return a new answer, so that a viewer sees their own act at once."""
        made = self._make(actor, now)
        self._made[self._key(actor)] = (time.monotonic(), made)
        return made

    def recent(self, actor: Actor, now: int) -> T:
        """Return an answer at most ``SHARED_S`` old. Of many requests at once, one makes it."""
        with self._making:
            made = self._made.get(self._key(actor))
            if made is not None and time.monotonic() - made[0] < SHARED_S:
                return made[1]
            return self.fresh(actor, now)


_boards = {
    last: _Shared(
        partial(build_board, last=last), lambda actor: (actor.workspace_id, actor.fabrics, actor.held or actor.roles)
    )
    for last in RANGES
}
_waiting = _Shared(_find_waiting, lambda actor: (actor.workspace_id, actor.name))
