"""The circuit breakers: which stop calls now, how near the others are to it; and each by itself, to be opened or reset by hand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_safe

from console.access import actor_of
from console.forms import ReasonForm, sentence
from console.templatetags.figures import nearness
from console.views import errors
from console.views.overview import fresh_part
from console.views.overview_words import Headline
from fabric.core.actor import Actor
from fabric.core.breaker.policy import KIND
from fabric.core.breaker.table import BreakerState
from fabric.selectors.breakers import BreakerView, Counted, breaker_find, breakers_of
from fabric.selectors.errors import Refused
from fabric.services.breakers import breaker_force_open, breaker_reset, may_move

ROWS_MAX = 200
"""Closed ones beyond so many are counted and not listed."""
GENERATION_MAX = 2**63 - 1


class MoveForm(ReasonForm):
    """What somebody does to a breaker, on which of its generations, and why."""

    act = forms.ChoiceField(choices=[("open", "open"), ("reset", "reset")])
    generation = forms.IntegerField(min_value=0, max_value=GENERATION_MAX)


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that a person can do to a breaker."""

    name: Literal["open", "reset"]
    title: str
    button: str
    icon: str
    tone: str
    follows: tuple[str, ...]
    states: frozenset[BreakerState]
    """In which it is possible."""
    service: Callable[..., BreakerView]
    done: str


MOVES: Mapping[str, Move] = {
    "reset": Move(
        "reset",
        "Reset it",
        "Reset the breaker",
        "recov",
        "primary",
        (
            "Calls pass again at once: in every worker within a second.",
            "Its trips are forgotten, and its signals are counted from nothing.",
        ),
        frozenset({BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.STOPPED}),
        breaker_reset,
        "The breaker is closed: calls pass again.",
    ),
    "open": Move(
        "open",
        "Open it by hand",
        "Open the breaker",
        "breaker",
        "danger",
        (
            "No call passes any more: in every worker within a second. What is on its way still comes back.",
            "Runs that meet it wait, use a fallback or stop, as their fabric's decision table says.",
            "It has no cooldown: it stays open until somebody resets it.",
        ),
        frozenset({BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN}),
        breaker_force_open,
        "The breaker is open until somebody resets it.",
    ),
}
"""By name; every state has one, by test."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A signal's count as it is shown."""

    counted: Counted

    @property
    def shown(self) -> str:
        """The count beside what it is judged by."""
        one = self.counted
        if one.signal.per_step:
            return "–"
        if one.signal.mode == "rate":
            return f"{one.count} of {one.calls}"
        return f"{one.count} / {one.signal.threshold:g}"

    @property
    def tone(self) -> str:
        """By how near it is, as on a run's page: where the next failure opens it, it is near however few it takes."""
        one = self.counted
        last = one.signal.mode != "rate" and 0 < one.count == one.signal.threshold - 1
        tone = nearness(one.share)
        return "warn" if last and tone == "neutral" else tone


def headline(found: Sequence[BreakerView]) -> Headline:
    """The page's answer."""
    if not found:
        return Headline("No fabric has a circuit breaker", "Calls go out whatever endpoints answer.", "neutral")
    trips = sum(one.trips for one in found)
    opened = (
        f"{trips:,} trip{'s' if trips != 1 else ''} in the last 24 hours."
        if trips
        else "None tripped in the last 24 hours."
    )
    lede = f"{len(found):,} circuit breaker{'s' if len(found) != 1 else ''} in this workspace. {opened}"
    by = Counter(one.standing.state for one in found)
    parts = [
        (by[state], word[by[state] != 1])
        for state, word in (
            (BreakerState.STOPPED, ("has stopped", "have stopped")),
            (BreakerState.OPEN, ("is open", "are open")),
            (BreakerState.HALF_OPEN, ("is half open", "are half open")),
        )
        if by[state]
    ]
    if not parts:
        return Headline("All closed: every call may go out", lede, "ok")
    said_first = f"{_number(parts[0][0])} breaker{'s' if parts[0][0] != 1 else ''} {parts[0][1]}"
    counts = [said_first, *(f"{_number(count)} {word}" for count, word in parts[1:])]
    said = f"{', '.join(counts[:-1])} and {counts[-1]}" if len(counts) > 1 else counts[0]
    stops = by[BreakerState.STOPPED] or by[BreakerState.OPEN]
    return Headline(said[:1].upper() + said[1:], lede, "danger" if stops else "warn")


def _number(count: int) -> str:
    return "one" if count == 1 else f"{count:,}"


def _board(actor: Actor, now: int) -> str:
    found = breakers_of(actor, now=now)
    listed = found[:ROWS_MAX]
    rows = [(one, Meter(one.nearest) if one.nearest else None) for one in listed]
    shown = {"rows": rows, "more": len(found) - len(listed), "headline": headline(found)}
    return render_to_string("breakers/board.html", shown)


@require_safe
def breakers(request: HttpRequest) -> HttpResponse:
    """All of them, those that stop calls first."""
    now = time.time_ns() // 1_000
    return render(request, "breakers/list.html", {"board": _board(actor_of(request.user), now), "now_ms": now // 1_000})


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes, for the page's script; whoever else comes here is led to the page."""
    if not request.headers.get("HX-Request"):
        return redirect("breakers")
    now = time.time_ns() // 1_000
    return fresh_part(request, _board(actor_of(request.user), now), now)


@require_http_methods(["GET", "HEAD", "POST"])
def breaker(request: HttpRequest, scope: str, digest: str) -> HttpResponse:
    """One of them: its policy, its counts, what became of it, and what can be done; a POST does it.

    422: a reason is missing; 409: it changed since the page was shown; 403: that is for operators.
    """
    actor, kind, status = actor_of(request.user), f"{KIND}:{digest}", 200
    form, acted = MoveForm(), ""
    if request.method == "POST":
        form = MoveForm(request.POST)
        acted = request.POST.get("act", "")
        status = 422
        if form.is_valid():
            given = form.cleaned_data
            move = MOVES[given["act"]]
            asked = {"scope": scope, "kind": kind, "generation": given["generation"], "reason": given["reason"]}
            try:
                move.service(actor=actor, **asked)
            except Refused as refusal:
                if refusal.code == "not_found":
                    raise
                form.add_error("reason" if refusal.field == "reason" else None, sentence(refusal.message))
                status = errors.STATUS[refusal.code]
            else:
                messages.success(request, move.done)
                return redirect("breaker", scope=scope, digest=digest)
    seen = breaker_find(actor, scope, kind)
    if seen is None:
        message = f"there is no circuit breaker {scope[:80]!r} here: its policy may have changed; /breakers lists all"
        raise Refused(message, code="not_found")
    return render(request, "breakers/one.html", _page(actor, seen, form, acted), status=status)


def _possible(move: Move, seen: BreakerView) -> bool:
    """Whether a move changes anything: one that is held open cannot be opened."""
    return seen.standing.state in move.states and not (move.name == "open" and seen.standing.held)


def _page(actor: Actor, seen: BreakerView, form: MoveForm, acted: str) -> dict[str, Any]:
    return {
        "one": seen,
        "digest": seen.kind.partition(":")[2],
        "meters": [Meter(counted) for counted in seen.signals],
        "moves": [move for move in MOVES.values() if _possible(move, seen)],
        "may": may_move(actor),
        "form": form,
        "acted": acted,
        "wrong": form.is_bound and not (form["reason"].errors or form.non_field_errors()),
        "now_ms": seen.now // 1_000,
    }
