"""The overview: is anything wrong now. Each card asks for itself and fails alone."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from console.access import actor_of
from console.views.drill_marks import came_marks
from console.views.overview_words import ALWAYS, TILES, everything, headline, line, put, tile_address
from fabric.core.actor import Actor
from fabric.selectors.attention import DECIDED_DAYS, attention, review_queue
from fabric.selectors.errors import Refused
from fabric.selectors.overview import first_steps, spend, states, workers
from fabric.selectors.time_limit import TookTooLong, time_limit
from simulator.drills.selectors import State
from simulator.drills.standing import WRONG, Standing, drills_standing

log = logging.getLogger(__name__)

ANSWERED_S = 2.0
"""A card that takes longer has failed."""
SHARED_S = 0.9
"""So long one rendering serves everybody who looks at a workspace: a little less than the page's second."""

STANDS = 4
"""Fabrics whose cells are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Card:
    """A part of the page with a question of its own."""

    title: str
    ask: Callable[[Actor, int], Any]


CARDS: Mapping[str, Card] = {
    "steps": Card("First steps", lambda actor, now: first_steps(actor)),
    "states": Card("Runs by state", states),
    "attention": Card("Needs attention", attention),
    "spend": Card("Spend", spend),
    "reviews": Card("Reviews", review_queue),
    "workers": Card("Workers", workers),
    "drills": Card("Drills", lambda actor, now: drills_standing(actor)),
}
"""The cards by the name of their template."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a card has to say; ``problem`` is a sentence when it has nothing."""

    name: str
    title: str
    found: Any = None
    problem: str = ""

    @property
    def template(self) -> str:
        """Its template."""
        return f"overview/cards/{self.name}.html"


def answer(name: str, actor: Actor, now: int) -> Answer:
    """One card's answer. Whatever goes wrong in it stays in it."""
    card = CARDS[name]
    try:
        with time_limit(ANSWERED_S):
            return Answer(name, card.title, card.ask(actor, now))
    except TookTooLong:
        return Answer(name, card.title, problem=f"The database did not answer within {ANSWERED_S:g} s.")
    except Exception:
        # Anything at all: the other cards say whether something is wrong, and this one says that it does not know.
        log.exception("the overview's card %s failed", name)
        return Answer(name, card.title, problem="What it shows could not be read; the server's log says why.")


def board(actor: Actor, now: int) -> str:
    """All cards and the sentence above them, as HTML. The same for whoever looks at the workspace."""
    answers = {name: answer(name, actor, now) for name in CARDS}
    failed = [one.title for one in answers.values() if one.problem]
    head = headline(
        answers["attention"].found, answers["states"].found, failed, deviated=_deviated(answers["drills"].found)
    )
    shown = {"answers": answers, "headline": head, **_shown(answers)}
    return render_to_string("overview/board.html", shown)


def _shown(answers: Mapping[str, Answer]) -> dict[str, Any]:
    """What the templates need beside the answers themselves."""
    known, counted = answers["attention"].found if "attention" in answers else None, None
    if "states" in answers:
        counted = answers["states"].found
    tiles = counted.tiles.values() if counted else ()
    return {
        "groups": [
            (group, put(group), [line(item) for item in group.items], everything(group.kind))
            for group in (known.groups if known else ())
        ],
        "tiles": [
            (tile, *TILES[tile.tile], tile_address(tile.tile)) for tile in tiles if tile.count or tile.tile in ALWAYS
        ],
        "days": DECIDED_DAYS,
        **_stands(answers["drills"].found if "drills" in answers else None),
    }


def _deviated(found: Standing | None) -> int:
    return sum(one.counts.get(State.DEVIATED, 0) for one in found.wrong) if found else 0


def _stands(found: Standing | None) -> dict[str, Any]:
    wrong = found.wrong if found else ()
    return {
        "stands": [(one, came_marks({state: one.counts.get(state, 0) for state in WRONG})) for one in wrong[:STANDS]],
        "more_stands": max(0, len(wrong) - STANDS),
    }


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The page."""
    now = time.time_ns() // 1_000
    html = _boards.fresh(actor_of(request.user), now)
    return render(request, "overview/page.html", {"board": html, "now_ms": now // 1_000})


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes, for the page's script; whoever else comes here is led to the page."""
    if not request.headers.get("HX-Request"):
        return redirect("overview")
    now = time.time_ns() // 1_000
    return fresh_part(request, _boards.shared(actor_of(request.user), now), now)


def fresh_part(request: HttpRequest, html: str, now: int) -> HttpResponse:
    """The answer to a page that asks once a second: its part, or that it is the same. ``now``: microseconds since the epoch."""
    tag = f'"{hashlib.sha256(html.encode()).hexdigest()[:32]}"'
    same = request.headers.get("If-None-Match") == tag
    response = HttpResponseNotModified() if same else HttpResponse(html)
    for name, value in {"ETag": tag, "Now-Ms": str(now // 1_000), "Vary": "HX-Request, Cookie"}.items():
        response.headers[name] = value
    return response


@require_safe
def card(request: HttpRequest, card: str) -> HttpResponse:
    """One card again, where it had failed; without the script, the whole page."""
    actor = actor_of(request.user)
    if card not in CARDS:
        known = ", ".join(CARDS)
        raise Refused(f"the overview has no card {card[:40]!r}; it has: {known}", code="not_found", field="card")
    if not request.headers.get("HX-Request"):
        return redirect("overview")
    found = answer(card, actor, time.time_ns() // 1_000)
    return render(request, "overview/card.html", {"answer": found, **_shown({card: found})})


class _Boards:
    """The last rendering for each workspace and what is seen of it, and when it was made (a monotonic clock, seconds)."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[float, str]] = {}
        self._making = threading.Lock()

    def fresh(self, actor: Actor, now: int) -> str:
        """A new rendering: who opens the page sees what they have just done."""
        html = board(actor, now)
        self._made[_sees(actor)] = (time.monotonic(), html)
        return html

    def shared(self, actor: Actor, now: int) -> str:
        """A rendering that is at most ``SHARED_S`` old; of many who ask at once, one makes it."""
        with self._making:
            made_at, html = self._made.get(_sees(actor), (0.0, ""))
            if html and time.monotonic() - made_at < SHARED_S:
                return html
            return self.fresh(actor, now)


def _sees(actor: Actor) -> Hashable:
    return actor.workspace_id, actor.fabrics, actor.reach


_boards = _Boards()
