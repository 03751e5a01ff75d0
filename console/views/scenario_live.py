"""A scenario played live: whether it may be, and what it does to this installation, said before anything begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.views.drill_asking import HowForm
from console.views.drill_live import Blast, said
from console.views.scenario_words import address
from fabric.core.actor import Actor
from fabric.core.taxonomy import Tier
from fabric.core.words import dollars
from fabric.selectors.fabrics import revision_get
from fabric.selectors.standing import workers_alive_count
from simulator.drills.live_asking import START, How, may_ask_live
from simulator.drills.models import LIVE
from simulator.library.asking import can_be_live, fits, tiers_meant
from simulator.library.selectors import ScenarioView
from simulator.library.words import disturbances_words
from simulator.scenarios.scenario import Scalar, Scenario


def not_live(actor: Actor, one: Scenario) -> list[str]:
    """Why it cannot be asked for live here and now, a sentence each; empty: it can."""
    if problems := one.only_virtual():
        return list(dict.fromkeys(f"{each.sentence}." for each in problems))  # It begins with the fault's name.
    if not may_ask_live(actor):
        return ["Live drills take the time of workers: they are for the owner and operators."]
    if not workers_alive_count():
        return [f"No worker is alive, and a live drill needs one. Start one: {START}"]
    return []


def confirm(
    request: HttpRequest,
    actor: Actor,
    seen: ScenarioView,
    form: HowForm,
    parameters: Mapping[str, Scalar],
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """The page that says what playing it live does, with the form that asks for it. ``form``: where it is to be played, and the caps as they were given.

    Raises Refused for a fabric, tiers, parameters or faults that cannot be.
    """
    one, given = seen.readable(), form.cleaned_data
    page = revision_get(actor, given["fabric"], given["number"])
    fits(page, one, parameters)
    can_be_live(one)
    tiers = tiers_meant(one, [Tier(tier) for tier in given["tier"]])
    count = f"{len(tiers)} tier{'s' if len(tiers) != 1 else ''}"
    cap = How(LIVE, page.spec.policy.budget.run_usd_micros).cap_of(one.failure) or 0
    blast = Blast(
        page=page,
        noun="tier",
        count=len(tiers),
        heading=f"Play {seen.name} live in {count}?",
        begin=f"Play {count} live",
        told=seen.name,
        strikes=tuple(f"{words[:1].upper()}{words[1:]}." for words in disturbances_words(one, parameters)),
        tiers=tiers,
        cap=dollars(cap),
        action=reverse("scenario-ask", args=[seen.name]),
        sent=_sent(given, tiers, parameters),
        back=address(seen.name, page.fabric.name),
        back_words="Back to the scenario",
        crumb=seen.name,
        command=f"scenario run {seen.name} {page.fabric.name} --live --here",
    )
    return said(request, actor, form, blast, problem, status)


def _sent(
    given: Mapping[str, Any], tiers: tuple[Tier, ...], parameters: Mapping[str, Scalar]
) -> tuple[tuple[str, str], ...]:
    """What the form says beside the caps and the reason: the same once more, and that it was said what follows."""
    numbers = [(key, str(given[key])) for key in ("number", "seed") if given[key] is not None]
    named = [("fabric", given["fabric"]), *(("tier", str(tier)) for tier in tiers), *numbers]
    return ("mode", LIVE), ("sure", "1"), *named, ("given", json.dumps(dict(parameters)))
