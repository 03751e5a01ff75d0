"""Before live drills are asked for: what they do to this installation, how long they may take, and when each of them is ended."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.access import actor_of
from console.forms import sentence
from console.templatetags.marks import FAILURES, TIERS
from console.views import errors
from console.views.drill_asking import AskForm, cells_of
from fabric.core.taxonomy import FailureType
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, revision_get
from fabric.selectors.standing import workers_alive_count
from fabric.selectors.words import dollars, duration
from simulator.drills.covers import Cell
from simulator.drills.lever import lever_of
from simulator.drills.live_asking import CAP_S, CAP_S_MAX, CAP_S_MIN, RUNS, How, may_ask_live
from simulator.drills.models import LIVE
from simulator.drills.services import cells_meant

NAMED = 3
"""So many cells are named one by one."""


def confirm(request: HttpRequest, form: AskForm, problem: str = "", status: int = 200) -> HttpResponse:
    """The page that says what live drills do, with the form that asks for them. ``form``: what was picked, and the caps as they were given."""
    actor, given = actor_of(request.user), form.data
    name, picked = given.get("fabric", ""), given.get("cells", "")
    number = int(given["number"]) if str(given.get("number", "")).isdecimal() else None
    page = revision_get(actor, name, number)
    cells: tuple[Cell, ...] = ()
    try:
        cells = cells_meant(actor, page, cells_of(picked), LIVE)
    except Refused as refusal:
        problem, status = sentence(refusal.message), errors.STATUS[refusal.code]
    shown = {
        "page": page,
        "form": form,
        "picked": picked,
        "cells": len(cells),
        "told": told(cells),
        "tiers": ", ".join(TIERS[tier] for tier in dict.fromkeys(tier for _, tier in cells)),
        "runs": RUNS * len(cells),
        "longest": duration(float(CAP_S * len(cells))),
        "cap_s": CAP_S,
        "least_s": CAP_S_MIN,
        "most_s": CAP_S_MAX,
        "cap": cap_words(page, cells),
        "may": may_ask_live(actor),
        "workers": workers_alive_count(),
        "lever": lever_of(actor),
        "problem": problem,
        "back": f"{reverse('drills')}?{urlencode({'fabric': name, 'mode': LIVE})}",
    }
    return render(request, "drills/live_ask.html", shown, status=status)


def told(cells: tuple[Cell, ...]) -> str:
    """Which cells, by name where they are few."""
    if len(cells) > NAMED:
        rows = len({failure for failure, _ in cells})
        return f"{len(cells)} cells of {rows} failure type{'s' if rows != 1 else ''}"
    return "; ".join(f"{FAILURES[failure]} × {TIERS[tier]}" for failure, tier in cells)


def cap_words(page: RevisionPage, cells: tuple[Cell, ...]) -> str:
    """What each drill may cost by its meter where nobody names a cap."""
    how = How(LIVE, page.spec.policy.budget.run_usd_micros)
    others = [failure for failure, _ in cells if failure is not FailureType.COST_OVERRUN]
    overrun = dollars(how.cap_of(FailureType.COST_OVERRUN) or 0)
    if not others:
        return overrun
    usual = dollars(how.cap_of(others[0]) or 0)
    return f"{usual}, of a cost overrun {overrun}" if len(others) < len(cells) else usual
