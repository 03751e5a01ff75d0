"""Before live drills are asked for: what they do to this installation, how long they may take, and when each of them is ended."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.access import actor_of
from console.forms import sentence
from console.templatetags.marks import FAILURES, TIERS
from console.views import errors
from console.views.drill_asking import AskForm, HowForm, cells_of
from fabric.core.actor import Actor
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.words import dollars, duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, revision_get
from fabric.selectors.standing import workers_alive_count
from simulator.drills.covers import Cell
from simulator.drills.lever import lever_of
from simulator.drills.live_asking import CAP_S, CAP_S_MAX, CAP_S_MIN, RUNS, How, may_ask_live
from simulator.drills.models import LIVE
from simulator.drills.services import cells_meant

NAMED = 3
"""So many cells are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blast:
    """What is asked for live, as it is said before it begins."""

    page: RevisionPage
    noun: str
    """What is counted: ``cell`` or ``tier``."""
    count: int
    """Drills; 0: there is nothing to ask for."""
    heading: str
    begin: str
    """What the button says."""
    told: str
    """Which drills, by name."""
    strikes: tuple[str, ...] = ()
    """What a scenario makes happen, a sentence each."""
    tiers: tuple[Tier, ...]
    cap: str
    """What each may cost where nobody names a cap."""
    action: str
    """Where the form goes."""
    sent: tuple[tuple[str, str], ...]
    """What the form says beside the caps and the reason."""
    back: str
    back_words: str
    crumb: str
    command: str

    @property
    def tier_words(self) -> str:
        """The tiers."""
        return ", ".join(TIERS[tier] for tier in self.tiers)

    @property
    def runs(self) -> int:
        """How many runs they take together."""
        return RUNS * self.count

    @property
    def longest(self) -> str:
        """How long they may take together where nobody names a cap."""
        return duration(float(CAP_S * self.count))


def said(request: HttpRequest, actor: Actor, form: HowForm, blast: Blast, problem: str, status: int) -> HttpResponse:
    """The page that says what live drills do, with the form that asks for them. ``form``: the caps and the reason as they were given."""
    shown = {
        "of": blast,
        "form": form,
        "cap_s": CAP_S,
        "least_s": CAP_S_MIN,
        "most_s": CAP_S_MAX,
        "may": may_ask_live(actor),
        "workers": workers_alive_count(),
        "lever": lever_of(actor),
        "problem": problem,
    }
    return render(request, "drills/live_ask.html", shown, status=status)


def confirm(request: HttpRequest, form: AskForm, problem: str = "", status: int = 200) -> HttpResponse:
    """The same for cells. ``form``: what was picked."""
    actor, given = actor_of(request.user), form.data
    name, picked = given.get("fabric", ""), given.get("cells", "")
    number = int(given["number"]) if str(given.get("number", "")).isdecimal() else None
    page = revision_get(actor, name, number)
    cells: tuple[Cell, ...] = ()
    try:
        cells = cells_meant(actor, page, cells_of(picked), LIVE)
    except Refused as refusal:
        problem, status = sentence(refusal.message), errors.STATUS[refusal.code]
    count = f"{len(cells)} cell{'s' if len(cells) != 1 else ''}"
    more = [(key, str(given[key])) for key in ("number", "seed") if given.get(key)]
    blast = Blast(
        page=page,
        noun="cell",
        count=len(cells),
        heading=f"Drill {count} live?" if cells else "There is nothing to drill live",
        begin=f"Drill {count} live",
        told=told(cells),
        tiers=tuple(dict.fromkeys(tier for _, tier in cells)),
        cap=cap_words(page, cells),
        action=reverse("drills-ask"),
        sent=(("mode", LIVE), ("fabric", page.fabric.name), ("cells", picked), *more),
        back=f"{reverse('drills')}?{urlencode({'fabric': name, 'mode': LIVE})}",
        back_words="Back to the coverage",
        crumb=f"{page.fabric.name}@r{page.number}, live",
        command=f"drill {page.fabric.name} --live --here",
    )
    return said(request, actor, form, blast, problem, status)


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
