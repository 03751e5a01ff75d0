"""Shows the circuit breakers: open ones, and how near the others are. Each can be opened or reset by hand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_safe

from console.forms.common import ReasonForm
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.fragments import fresh_part
from console.site.sentences import sentence
from console.templatetags.figures import nearness
from console.words.headlines import Headline
from fabric.core.breaker.table import BreakerState
from fabric.core.people.actor import Actor
from fabric.core.spec.policies.breakers import KIND
from fabric.selectors.errors import Refused
from fabric.selectors.models.breakers import BreakerView, SignalCount, breaker_find, list_breaker_views
from fabric.services.models.breakers import breaker_force_open, breaker_reset, may_move

ROWS_MAX = 200
"""Largest number of closed breakers listed; further ones are counted."""
GENERATION_MAX = 2**63 - 1


class MoveForm(ReasonForm):
    """Form that opens or resets a breaker of a known generation, with a reason."""

    act = forms.ChoiceField(choices=[("open", "open"), ("reset", "reset")])
    generation = forms.IntegerField(min_value=0, max_value=GENERATION_MAX)


@dataclass(frozen=True, slots=True)
class BreakerMove:
    """An act on a breaker."""

    name: Literal["open", "reset"]
    title: str
    button: str
    icon: str
    tone: str
    follows: tuple[str, ...]
    states: frozenset[BreakerState]
    """States in which it is possible."""
    service: Callable[..., BreakerView]
    done: str


MOVES: Mapping[str, BreakerMove] = {
    "reset": BreakerMove(
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
    "open": BreakerMove(
        "open",
        "Open it by hand",
        "Open the breaker",
        "breaker",
        "danger",
        (
            "No new call passes, in every worker within a second. Running calls still return.",
            "Affected runs wait, use a fallback or stop, by their decision table.",
            "It has no cooldown and stays open until a person resets it.",
        ),
        frozenset({BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN}),
        breaker_force_open,
        "The breaker is open until a person resets it.",
    ),
}
"""Acts by name; every state has one, by test."""


@dataclass(frozen=True, slots=True)
class Meter:
    """The count of a signal as the page shows it."""

    counted: SignalCount

    @property
    def count_words(self) -> str:
        """Return the count beside its threshold."""
        one = self.counted
        if one.signal.per_step:
            return "–"
        if one.signal.mode == "rate":
            return f"{one.count} of {one.calls}"
        return f"{one.count} / {one.signal.threshold:g}"

    @property
    def tone(self) -> str:
        """Return the tone of the count by its nearness to the threshold, as on a run's page.

        A breaker that the next failure opens is near, however low its threshold.
        """
        one = self.counted
        last = one.signal.mode != "rate" and 0 < one.count == one.signal.threshold - 1
        tone = nearness(one.share)
        return "warn" if last and tone == "neutral" else tone


READY = "ready"


def headline(found: Sequence[BreakerView]) -> Headline:
    """Return the page's headline."""
    if not found:
        return Headline("No fabric has a circuit breaker", "Calls go out even if endpoints fail.", "neutral")
    trips = sum(one.trips for one in found)
    opened = (
        f"{trips:,} trip{'s' if trips != 1 else ''} in the last 24 hours."
        if trips
        else "None tripped in the last 24 hours."
    )
    lede = f"{len(found):,} circuit breaker{'s' if len(found) != 1 else ''} in this workspace. {opened}"
    by = Counter(READY if one.ready else one.standing.state for one in found)
    parts = [
        (by[state], word[by[state] != 1])
        for state, word in (
            (BreakerState.STOPPED, ("has stopped", "have stopped")),
            (BreakerState.OPEN, ("is open", "are open")),
            (READY, ("is ready to probe", "are ready to probe")),
            (BreakerState.HALF_OPEN, ("is half open", "are half open")),
        )
        if by[state]
    ]
    if not parts:
        return Headline("All closed", lede, "ok")
    said_first = f"{_number(parts[0][0])} breaker{'s' if parts[0][0] != 1 else ''} {parts[0][1]}"
    counts = [said_first, *(f"{_number(count)} {word}" for count, word in parts[1:])]
    said = f"{', '.join(counts[:-1])} and {counts[-1]}" if len(counts) > 1 else counts[0]
    stops = by[BreakerState.STOPPED] or by[BreakerState.OPEN]
    return Headline(said[:1].upper() + said[1:], lede, "danger" if stops else "warn")


def _number(count: int) -> str:
    return "one" if count == 1 else f"{count:,}"


def _board(actor: Actor, now: int) -> str:
    found = list_breaker_views(actor, now=now)
    listed = found[:ROWS_MAX]
    rows = [(one, Meter(one.nearest) if one.nearest else None) for one in listed]
    shown = {"rows": rows, "more": len(found) - len(listed), "headline": headline(found)}
    return render_to_string("models/breakers/board.html", shown)


@require_safe
def breakers(request: HttpRequest) -> HttpResponse:
    """List all breakers, open ones first."""
    now = time.time_ns() // 1_000
    return render(
        request, "models/breakers/list.html", {"board": _board(find_actor(request.user), now), "now_ms": now // 1_000}
    )


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Return the changing part of the page to the page's script; without a script, redirect to the page."""
    if not request.headers.get("HX-Request"):
        return redirect("breakers")
    now = time.time_ns() // 1_000
    return fresh_part(request, _board(find_actor(request.user), now), now)


@require_http_methods(["GET", "HEAD", "POST"])
def breaker(request: HttpRequest, scope: str, digest: str) -> HttpResponse:
    """Show one breaker: policy, counts, history and possible acts; POST carries one out.

    403: only for operators. 409: it changed since the page was shown. 422: the reason is missing.
    """
    actor, kind, status = find_actor(request.user), f"{KIND}:{digest}", 200
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
    return render(request, "models/breakers/one.html", _page(actor, seen, form, acted), status=status)


def _possible(move: BreakerMove, seen: BreakerView) -> bool:
    """Return True if the move changes anything. A breaker that is kept open by hand cannot be opened."""
    return seen.standing.state in move.states and not (move.name == "open" and seen.standing.held)


KEEP_OPEN = "Keep it open"


def _page(actor: Actor, seen: BreakerView, form: MoveForm, acted: str) -> dict[str, Any]:
    closed = seen.standing.state is BreakerState.CLOSED
    return {
        "one": seen,
        "digest": seen.kind.partition(":")[2],
        "meters": [Meter(counted) for counted in seen.signals],
        "counts": closed,
        "moves": [
            replace(move, title=KEEP_OPEN, button=KEEP_OPEN) if move.name == "open" and not closed else move
            for move in MOVES.values()
            if _possible(move, seen)
        ],
        "may": may_move(actor),
        "form": form,
        "acted": acted,
        "wrong": form.is_bound and not (form["reason"].errors or form.non_field_errors()),
        "now_ms": seen.now // 1_000,
    }
