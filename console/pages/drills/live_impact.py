"""Requests drills: the forms with cells and mode, and the impact of live drills before they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.templatetags.marks import FAILURES, TIERS
from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import MICROS
from fabric.core.values.words import dollars, duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import RevisionPage, revision_get
from fabric.selectors.overview.frame_counts import workers_alive_count
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills.live.conditions import CAP_S, CAP_S_MAX, CAP_S_MIN, RUNS, DrillMode, may_ask_live
from simulator.drills.models.tables import LIVE, MODES, VIRTUAL
from simulator.drills.services.drill_stop import find_drill_stop
from simulator.drills.services.drills import SEED_MAX, DrillsAsked, Which, cells_meant
from simulator.scenarios.promises.digests import Cell

NAMED = 3
"""Largest number of cells that are named one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveImpact:
    """The impact of live drills, as the page describes it before they begin."""

    page: RevisionPage
    noun: str
    """Unit that is counted: ``cell`` or ``tier``."""
    count: int
    """Number of drills; 0 if none can be started."""
    heading: str
    begin: str
    """Label of the button."""
    told: str
    """Drills by name."""
    strikes: tuple[str, ...] = ()
    """Disturbances of a scenario, one sentence each."""
    tiers: tuple[Tier, ...]
    cap: str
    """Cap of each drill if the form names none, in words."""
    action: str
    """Address that the form posts to."""
    sent: tuple[tuple[str, str], ...]
    """Hidden fields of the form, besides the caps and the reason."""
    back: str
    back_words: str
    crumb: str
    command: str

    @property
    def tier_words(self) -> str:
        """Return the tiers."""
        return ", ".join(TIERS[tier] for tier in self.tiers)

    @property
    def runs(self) -> int:
        """Return the number of runs of all drills together."""
        return RUNS * self.count

    @property
    def longest(self) -> str:
        """Return the longest total duration if the form names no cap, in words."""
        return duration(float(CAP_S * self.count))


def impact_page(
    request: HttpRequest, actor: Actor, form: HowForm, blast: LiveImpact, problem: str, status: int
) -> HttpResponse:
    """Return the page that describes the impact of live drills, with the form that starts them.

    ``form``: the caps and the reason that were sent.
    """
    shown = {
        "of": blast,
        "form": form,
        "cap_s": CAP_S,
        "least_s": CAP_S_MIN,
        "most_s": CAP_S_MAX,
        "may": may_ask_live(actor),
        "workers": workers_alive_count(),
        "drill_stop": find_drill_stop(actor),
        "problem": problem,
    }
    return render(request, "drills/live_ask.html", shown, status=status)


def confirm(request: HttpRequest, form: AskForm, problem: str = "", status: int = 200) -> HttpResponse:
    """Return the page that describes the impact of live drills on cells. ``form``: the picked cells."""
    actor, given = find_actor(request.user), form.data
    name, picked = given.get("fabric", ""), given.get("cells", "")
    number = int(given["number"]) if str(given.get("number", "")).isdecimal() else None
    page = revision_get(actor, name, number)
    cells: tuple[Cell, ...] = ()
    try:
        cells = cells_meant(actor, page, list_cells(picked), LIVE)
    except Refused as refusal:
        problem, status = sentence(refusal.message), errors.STATUS[refusal.code]
    count = f"{len(cells)} cell{'s' if len(cells) != 1 else ''}"
    more = [(key, str(given[key])) for key in ("number", "seed") if given.get(key)]
    blast = LiveImpact(
        page=page,
        noun="cell",
        count=len(cells),
        heading=f"Drill {count} live?" if cells else "There is nothing to drill live",
        begin=f"Drill {count} live",
        told=name_cells(cells),
        tiers=tuple(dict.fromkeys(tier for _, tier in cells)),
        cap=cap_words(page, cells),
        action=reverse("drills-ask"),
        sent=(("mode", LIVE), ("fabric", page.fabric.name), ("cells", picked), *more),
        back=f"{reverse('drills-coverage')}?{urlencode({'fabric': name, 'mode': LIVE})}",
        back_words="Back to the coverage",
        crumb=f"{page.fabric.name}@r{page.number}, live",
        command=f"drill run {page.fabric.name} --live --here",
    )
    return impact_page(request, actor, form, blast, problem, status)


def name_cells(cells: tuple[Cell, ...]) -> str:
    """Return the cells by name where they are few, else their number."""
    if len(cells) > NAMED:
        rows = len({failure for failure, _ in cells})
        return f"{len(cells)} cells of {rows} failure type{'s' if rows != 1 else ''}"
    return "; ".join(f"{FAILURES[failure]} × {TIERS[tier]}" for failure, tier in cells)


def cap_words(page: RevisionPage, cells: tuple[Cell, ...]) -> str:
    """Return the cap of each drill, in words, if the form names none."""
    how = DrillMode(LIVE, page.spec.policy.budget.run_usd_micros)
    others = [failure for failure, _ in cells if failure is not FailureType.COST_OVERRUN]
    overrun = dollars(how.cap_of(FailureType.COST_OVERRUN) or 0)
    if not others:
        return overrun
    usual = dollars(how.cap_of(others[0]) or 0)
    return f"{usual}, of a cost overrun {overrun}" if len(others) < len(cells) else usual


WHICH: tuple[Which, ...] = ("all", "stale")
NAME_MAX = 100
CAP_S_WORDS = f"Give the time cap in whole seconds, {CAP_S_MIN} to {CAP_S_MAX:,}."
CAP_USD_WORDS = "Give the cost cap in dollars, above 0 and below 1,000,000, with six decimals at most."
WHERE = {VIRTUAL: "in simulated time", LIVE: "on this installation"}
"""Words for the place where drills of each mode run; total, by test."""


class HowForm(forms.Form):
    """Form with the mode of drills, and the caps of live ones."""

    mode = forms.ChoiceField(required=False, choices=[(mode, mode) for mode in MODES])
    cap_s = forms.IntegerField(
        required=False,
        min_value=CAP_S_MIN,
        max_value=CAP_S_MAX,
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), CAP_S_WORDS),
    )
    cap_usd = forms.DecimalField(
        required=False,
        min_value=Decimal("0.000001"),
        max_digits=12,
        decimal_places=6,
        error_messages=dict.fromkeys(
            ("invalid", "min_value", "max_digits", "max_decimal_places", "max_whole_digits"), CAP_USD_WORDS
        ),
    )
    reason = forms.CharField(
        required=False,
        max_length=REASON_CHARS_MAX,
        error_messages={"max_length": f"Make the reason shorter: at most {REASON_CHARS_MAX:,} characters are stored."},
    )

    @property
    def live(self) -> bool:
        """Return True if live drills are requested."""
        return self.data.get("mode") == LIVE

    def how(self) -> dict[str, Any]:
        """Return the arguments of ``drill_ask`` and ``scenario_ask`` for mode, caps and reason."""
        given = self.cleaned_data
        cap = given["cap_usd"]
        return {
            "mode": given["mode"] or VIRTUAL,
            "cap_s": given["cap_s"],
            "cap_usd_micros": None if cap is None else int(cap * MICROS),
            "reason": given["reason"],
        }


class AskForm(HowForm):
    """Form that requests drills of a fabric's cells.

    ``cells``: ``all``, ``stale``, a failure type for its row, or ``FAILURE:TIER``.
    """

    fabric = forms.CharField(max_length=NAME_MAX)
    cells = forms.CharField(max_length=NAME_MAX)
    number = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    seed = forms.IntegerField(required=False, min_value=0, max_value=SEED_MAX)


def list_cells(text: str) -> Sequence[Cell] | Which:
    """Return the cells that a form names. Raises Refused invalid."""
    for which in WHICH:
        if text == which:
            return which
    failure, _, tier = text.partition(":")
    if failure in set(FailureType) and (not tier or tier in set(Tier)):
        return [(FailureType(failure), Tier(one)) for one in ((tier,) if tier else Tier)]
    message = f"{text[:80]!r} is no cell: name all, stale, a failure type, or FAILURE:TIER"
    raise Refused(message, code="invalid", field="cells")


def describe_request(asked: DrillsAsked, mode: str) -> str:
    """Return a sentence or two about the requested drills."""
    count, left = len(asked.drills), asked.left_out
    rest = f" {left} that wait{'s' if left == 1 else ''} or run already left out." if left else ""
    return f"{'One cell is' if count == 1 else f'{count} cells are'} being drilled {WHERE[mode]}.{rest}"
