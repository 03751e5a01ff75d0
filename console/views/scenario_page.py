"""One scenario: what it disturbs, in words; its parameters; what it would strike, and what it was seen to show; having it played."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import sentence
from console.views import errors, scenario_live
from console.views.drill_asking import WHERE, HowForm
from console.views.drill_words import drill_mark
from console.views.drills import fabric_named
from console.views.overview import fresh_part
from console.views.scenario_words import (
    ORIGINS,
    PORT_WORDS,
    TierCell,
    address,
    enters_words,
    parameter_fields,
    problems_by_field,
    text_of,
    tier_cells,
    tolerance_words,
)
from fabric.core.actor import Actor
from fabric.core.taxonomy import Tier
from fabric.core.words import dollars, duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, fabrics_list, revision_get
from fabric.selectors.standing import workers_alive_count
from simulator.drills import tasks
from simulator.drills.lever import lever_of
from simulator.drills.models import LIVE, MODES, VIRTUAL
from simulator.drills.selectors import drills_recent
from simulator.drills.services import SEED_MAX, may_stop
from simulator.library.asking import scenario_ask
from simulator.library.selectors import ScenarioView, Shown, scenario_get, scenarios_shown
from simulator.library.services import NAME_MAX, free_name, may_change
from simulator.library.words import as_written, touched
from simulator.scenarios import catalogue
from simulator.scenarios.catalogue import FAULTS
from simulator.scenarios.probes import PROBES
from simulator.scenarios.scenario import Scalar, Scenario, overridden
from simulator.scenarios.toml_reading import BYTES_MAX

JSON = Any
RECENT = 20
"""Drills of a scenario that are listed."""


class AskForm(HowForm):
    """In which fabric and tiers a scenario is played, and how. ``given``: parameters as JSON, of a drill that is run again. ``sure``: it was said what playing it live does."""

    fabric = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Pick a fabric."})
    number = forms.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    tier = forms.MultipleChoiceField(
        choices=[(str(tier), str(tier)) for tier in Tier],
        error_messages={"required": "Pick at least one tier.", "invalid_choice": "There is no such tier."},
    )
    seed = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=SEED_MAX,
        error_messages={"invalid": "Give the seed as a whole number, or none.", "min_value": "A seed is 0 or more."},
    )
    given = forms.CharField(required=False, max_length=BYTES_MAX)
    do = forms.ChoiceField(required=False, choices=[("run", "run"), ("dry", "dry")])
    sure = forms.CharField(required=False, max_length=1)

    def clean_given(self) -> dict[str, Scalar]:
        """The parameters."""
        try:
            found = json.loads(self.cleaned_data["given"] or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise forms.ValidationError("The form was damaged on its way: load the page again.")
        return found


@require_safe
def scenario(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """The page. ``fabric``: in which it is played."""
    actor = actor_of(request.user)
    return _page(request, actor, scenario_get(actor, scenario_name), {"fabric": request.GET.get("fabric", "")})


@require_safe
def live(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """The part of the page that changes while it is played; whoever else comes here is led to the page."""
    actor = actor_of(request.user)
    seen, wanted = scenario_get(actor, scenario_name), request.GET.get("fabric", "")
    if not request.headers.get("HX-Request"):
        return redirect(address(seen.name, wanted))
    fabric = fabric_named(actor, wanted)
    return fresh_part(request, _drills(actor, seen, fabric), time.time_ns() // 1_000)


@require_POST
def ask(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Asks for drills of it, or (``do=dry``) says what would be struck, or (live) what that does first. 409: it waits already; 422: something does not fit."""
    actor, form = actor_of(request.user), AskForm(request.POST)
    seen = scenario_get(actor, scenario_name)
    sent: dict[str, Any] = {
        "fabric": request.POST.get("fabric", "")[:NAME_MAX],
        "tiers": request.POST.getlist("tier"),
        "seed": request.POST.get("seed", "")[:20],
        "parameters": {key[2:]: request.POST[key] for key in request.POST if key.startswith("p-")},
        "mode": LIVE if form.live else VIRTUAL,
    }
    whole = form.is_valid() or (form.live and not form.errors.keys() - {"cap_s", "cap_usd", "reason"})
    if not whole or seen.scenario is None:
        said = {field: [str(one) for one in problems] for field, problems in form.errors.items()}
        return _page(request, actor, seen, sent, wrong=said, status=422)
    given = form.cleaned_data
    try:
        parameters = _parameters(seen.scenario, sent["parameters"]) | given["given"]
        if given["do"] == "dry":
            found = _dry(actor, seen.scenario, given, parameters)
            return _page(request, actor, seen, sent, dry=found)
        if form.errors:
            told = "Nothing was asked for: look at what was given."
            return scenario_live.confirm(request, actor, seen, form, parameters, told, 422)
        if form.live and not given["sure"]:
            return scenario_live.confirm(request, actor, seen, form, parameters)
        return _asked(request, actor, seen, form, parameters)
    except catalogue.Refused as error:
        fields, rest = problems_by_field(seen.scenario, error.problems)
        return _page(request, actor, seen, sent, wrong={f"p-{key}": told for key, told in fields.items()} | {"": rest}, status=422)  # fmt: skip
    except Refused as refusal:
        return _page(request, actor, seen, sent, wrong={"": list(refusal.problems)}, status=errors.STATUS[refusal.code])


def _asked(
    request: HttpRequest, actor: Actor, seen: ScenarioView, form: AskForm, parameters: Mapping[str, Scalar]
) -> HttpResponse:
    """Asks for them. Raises Refused."""
    given, how = form.cleaned_data, form.how()
    tiers = [Tier(one) for one in given["tier"]]
    try:
        asked = scenario_ask(
            actor=actor, fabric=given["fabric"], scenario=seen.name, tiers=tiers, parameters=parameters,
            seed=given["seed"], number=given["number"], wake=tasks.wake, **how,
        )  # fmt: skip
    except Refused as refusal:
        if form.live and refusal.code in ("forbidden", "unavailable"):
            said, status = sentence(refusal.message), errors.STATUS[refusal.code]
            return scenario_live.confirm(request, actor, seen, form, parameters, said, status)
        raise
    if len(asked.drills) == 1:
        return redirect("drill", drill_id=asked.drills[0])
    left = f" {asked.left_out} that waits already is left out." if asked.left_out else ""
    messages.success(request, f"{len(asked.drills)} tiers are drilled {WHERE[how['mode']]}.{left}")
    return redirect(f"{address(seen.name, given['fabric'])}#h-drills")


def said_on_page(
    request: HttpRequest, actor: Actor, seen: ScenarioView, problems: list[str], status: int
) -> HttpResponse:
    """The page of a scenario, with why something was not done to it."""
    return _page(request, actor, seen, {}, wrong={"": problems}, status=status)


def _parameters(one: Scenario, sent: Mapping[str, str]) -> dict[str, Scalar]:
    """What is another than the scenario's own. Raises ``catalogue.Refused`` for what is of another type, or out of range."""
    other = [
        f"{key}={value.strip()}" for key, value in sent.items() if value.strip() != text_of(one.parameters.get(key, ""))
    ]
    found = overridden(one, other)
    one.disturbances(found)
    return found


def _dry(actor: Actor, one: Scenario, given: Mapping[str, Any], parameters: Mapping[str, Scalar]) -> list[Any]:
    """What would be struck, tier by tier. Raises ``catalogue.Refused`` and Refused."""
    from simulator.library.previews import preview  # It loads the engine and its world.

    page = revision_get(actor, given["fabric"], given["number"])
    wanted = [tier for tier in one.tiers if str(tier) in given["tier"]]
    return [preview(page.spec, one, tier, seed=given["seed"], overrides=parameters) for tier in wanted]


def _page(
    request: HttpRequest,
    actor: Actor,
    seen: ScenarioView,
    sent: Mapping[str, Any],
    *,
    wrong: Mapping[str, list[str]] | None = None,
    dry: list[Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    fabric = fabric_named(actor, sent.get("fabric", "") if status == 200 else "")
    if status != 200:
        fabric = next((one for one in fabrics_list(actor) if one.name == sent.get("fabric")), fabric)
    shown = {
        "view": seen,
        "fabric": fabric,
        "offered": fabrics_list(actor),
        "origin": ORIGINS[seen.origin],
        "may": may_change(actor, seen),
        "copy": free_name(actor, seen.name),
        "board": _drills(actor, seen, fabric),
        "now_ms": time.time_ns() // 1_000_000,
        "wrong": wrong or {},
        "problems": [sentence(one) for one in (wrong or {}).get("", []) + (wrong or {}).get("given", [])],
        "dry": dry,
        "lever": lever_of(actor),
        "live": sent.get("mode") == LIVE,
        "not_live": scenario_live.not_live(actor, seen.scenario) if seen.scenario else [],
        **(_known(seen.scenario, sent, wrong or {}) if seen.scenario else {}),
    }
    return render(request, "drills/scenario.html", shown, status=status)


def _known(one: Scenario, sent: Mapping[str, Any], wrong: Mapping[str, list[str]]) -> dict[str, Any]:
    """What the page shows of a scenario that can be read."""
    wrong_fields = {key[2:]: problems for key, problems in wrong.items() if key.startswith("p-")}
    picked = sent.get("tiers", list(map(str, one.tiers)))
    return {
        "one": one,
        "enters": enters_words(one),
        "strikes": [
            (as_written(each, one, ("disturbance", n)), each.fault, PORT_WORDS[FAULTS[each.fault].port])
            for n, each in enumerate(one.disturbance)
        ],
        "fields": parameter_fields(one, sent.get("parameters", {}), wrong_fields),
        "picks": [(tier, tier in one.tiers, str(tier) in picked) for tier in Tier],
        "seed": sent.get("seed", "") or str(one.seed),
        "touched": touched(one),
        "can_live": not one.only_virtual(),
        "steady": [
            (each.probe, PROBES[each.probe], *tolerance_words(each.tolerance)) for each in one.steady_state.probes
        ],
        "abort": _abort(one),
    }


def _abort(one: Scenario) -> list[str]:
    """Its abort conditions in words."""
    conditions = []
    if one.abort.cost_usd_micros is not None:
        conditions.append(f"once a run has cost {dollars(one.abort.cost_usd_micros)}")
    if one.abort.virtual_s is not None:
        conditions.append(f"once a run has taken {duration(one.abort.virtual_s)} of its clock")
    return conditions


def _drills(actor: Actor, seen: ScenarioView, fabric: FabricView | None) -> str:
    """The part that changes: verdicts for each tier, and the newest drills."""
    by_mode = {mode: scenarios_shown(actor, fabric.name, seen.name, mode) for mode in MODES} if fabric else {}
    waiting = [one for _, open_now in by_mode.values() for one in open_now.values()]
    recent, more = drills_recent(actor, scenario=seen.name, limit=RECENT)
    shown = {
        "view": seen,
        "fabric": fabric,
        "tiers": _tiers(seen, fabric, by_mode) if fabric else [],
        "recent": [(one, drill_mark(one)) for one in recent],
        "more": more,
        "open": bool(waiting),
        "stops": list(dict.fromkeys(one.batch for one in waiting if may_stop(actor, one.asked_by))),
        "workers": workers_alive_count(),
    }
    return render_to_string("drills/scenario_drills.html", shown)


def _tiers(
    seen: ScenarioView, fabric: FabricView, by_mode: Mapping[str, tuple[Shown, Shown]]
) -> list[tuple[Tier, list[TierCell]]]:
    """What each tier was shown to do, by drills of each mode; by live ones where it can be live, or was."""
    lived = any(by_mode[LIVE]) or (seen.scenario is not None and not seen.scenario.only_virtual())
    cells = [tier_cells(seen, fabric.revision_id, *by_mode[mode], mode) for mode in MODES if lived or mode != LIVE]
    return [
        (tier, [one for one in of_tier if one.mark] or list(of_tier[:1]))
        for tier, of_tier in zip(Tier, zip(*cells, strict=True), strict=True)
    ]
