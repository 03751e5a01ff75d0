"""Shows one scenario: its disturbances, parameters, targets and results, and the form that plays it.

The impact of a live scenario on this installation is described before it begins, and it is checked that it may be live.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.pages.drills.live_impact import WHERE, HowForm, LiveImpact, impact_page
from console.pages.drills.remembered import pick_fabric, remember_fabric
from console.pages.scenarios.words import (
    ORIGINS,
    PORT_WORDS,
    TierCell,
    address,
    enters_words,
    parameter_fields,
    problems_by_field,
    read_text,
    tier_cells,
    tolerance_words,
)
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.fragments import fresh_part
from console.site.sentences import sentence
from console.words.drills import drill_mark
from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import Tier
from fabric.core.values.words import dollars, duration
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import FabricView, fabrics_list, revision_get
from fabric.selectors.overview.frame_counts import workers_alive_count
from simulator.drills import tasks
from simulator.drills.library.requests import can_be_live, fits, scenario_ask, tiers_meant
from simulator.drills.library.selectors import ScenarioView, Shown, scenario_get, scenarios_shown
from simulator.drills.library.services import NAME_MAX, free_name, may_change
from simulator.drills.live.conditions import START, DrillMode, may_ask_live
from simulator.drills.models.tables import LIVE, MODES, VIRTUAL
from simulator.drills.selectors.drills import drills_recent
from simulator.drills.services.drill_stop import find_drill_stop
from simulator.drills.services.drills import SEED_MAX, may_stop
from simulator.faults import catalogue
from simulator.faults.catalogue import STRUCK
from simulator.scenarios.spec.probes import PROBES
from simulator.scenarios.spec.recorded import RECORDED
from simulator.scenarios.spec.scenario import Scalar, Scenario, SteadyProbe, parse_overrides
from simulator.scenarios.spec.words import as_written, describe_reach, disturbances_words, recorded_words
from simulator.texts.toml import BYTES_MAX

EVERY_TIER = "all"
"""Value of ``tier`` that picks all tiers of the scenario."""
RECENT = 20
"""Number of listed drills."""


class AskForm(HowForm):
    """Form that plays a scenario in tiers of a fabric.

    ``given``: parameters as JSON, when a drill is repeated. ``sure``: the person confirmed the impact of playing it
    live.
    """

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
        """Return the parameters."""
        try:
            found = json.loads(self.cleaned_data["given"] or "{}")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise forms.ValidationError("The form was damaged on its way: load the page again.")
        return found


@require_safe
def scenario(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Show the scenario. ``fabric``: the fabric in which to play it."""
    actor = find_actor(request.user)
    return _page(request, actor, scenario_get(actor, scenario_name), {"fabric": request.GET.get("fabric", "")})


@require_safe
def live(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Return the part of the page that changes while the scenario plays; without a script, redirect to the page."""
    actor = find_actor(request.user)
    seen, wanted = scenario_get(actor, scenario_name), request.GET.get("fabric", "")
    if not request.headers.get("HX-Request"):
        return redirect(address(seen.name, wanted))
    fabric = pick_fabric(request, actor, wanted)
    return fresh_part(request, _drills(actor, seen, fabric), time.time_ns() // 1_000)


@require_POST
def ask(request: HttpRequest, scenario_name: str) -> HttpResponse:
    """Start drills of the scenario; ``do=dry`` shows its targets, and a live request shows its impact first.

    409: it waits already. 422: a field does not fit.
    """
    actor, data = find_actor(request.user), request.POST.copy()
    seen = scenario_get(actor, scenario_name)
    if data.getlist("tier") == [EVERY_TIER] and seen.scenario is not None:
        data.setlist("tier", list(map(str, seen.scenario.tiers)))
    form = AskForm(data)
    sent: dict[str, Any] = {
        "fabric": request.POST.get("fabric", "")[:NAME_MAX],
        "tiers": data.getlist("tier"),
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
            told = "Nothing was started: check the form."
            return confirm(request, actor, seen, form, parameters, told, 422)
        if form.live and not given["sure"]:
            return confirm(request, actor, seen, form, parameters)
        return _start_drills(request, actor, seen, form, parameters)
    except catalogue.FaultRefused as error:
        fields, rest = problems_by_field(seen.scenario, error.problems)
        return _page(request, actor, seen, sent, wrong={f"p-{key}": told for key, told in fields.items()} | {"": rest}, status=422)  # fmt: skip
    except Refused as refusal:
        return _page(request, actor, seen, sent, wrong={"": list(refusal.problems)}, status=errors.STATUS[refusal.code])


def _start_drills(
    request: HttpRequest, actor: Actor, seen: ScenarioView, form: AskForm, parameters: Mapping[str, Scalar]
) -> HttpResponse:
    """Start the drills. Raises Refused."""
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
            return confirm(request, actor, seen, form, parameters, said, status)
        raise
    if len(asked.drills) == 1:
        return redirect("drill", drill_id=asked.drills[0])
    left = f" {asked.left_out} that waits already is left out." if asked.left_out else ""
    messages.success(request, f"{len(asked.drills)} tiers are drilled {WHERE[how['mode']]}.{left}")
    return redirect(f"{address(seen.name, given['fabric'])}#h-drills")


def render_refusal(
    request: HttpRequest, actor: Actor, seen: ScenarioView, problems: list[str], status: int
) -> HttpResponse:
    """Return the page of a scenario, with the reasons of a refusal."""
    return _page(request, actor, seen, {}, wrong={"": problems}, status=status)


def _parameters(one: Scenario, sent: Mapping[str, str]) -> dict[str, Scalar]:
    """Return the parameters that differ from the scenario's own.

    Raises ``catalogue.FaultRefused`` for a wrong type, or a value out of range.
    """
    other = [
        f"{key}={value.strip()}"
        for key, value in sent.items()
        if value.strip() != read_text(one.parameters.get(key, ""))
    ]
    found = parse_overrides(one, other)
    one.disturbances(found)
    return found


def _dry(actor: Actor, one: Scenario, given: Mapping[str, Any], parameters: Mapping[str, Scalar]) -> list[Any]:
    """Return the disturbances of a dry run, tier by tier. Raises ``catalogue.FaultRefused`` and Refused."""
    from simulator.scenarios.play.previews import preview  # It loads the engine and its world.

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
    fabric = pick_fabric(request, actor, sent.get("fabric", "") if status == 200 else "")
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
        "drill_stop": find_drill_stop(actor),
        "live": sent.get("mode") == LIVE,
        "not_live": not_live(actor, seen.scenario) if seen.scenario else [],
        **(_scenario_context(seen.scenario, sent, wrong or {}) if seen.scenario else {}),
    }
    page = render(request, "scenarios/page.html", shown, status=status)
    return remember_fabric(request, page, fabric) if sent.get("fabric") and status == 200 else page


def _scenario_context(one: Scenario, sent: Mapping[str, Any], wrong: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the context of a scenario that can be parsed."""
    wrong_fields = {key[2:]: problems for key, problems in wrong.items() if key.startswith("p-")}
    picked = sent.get("tiers", list(map(str, one.tiers)))
    return {
        "one": one,
        "enters": enters_words(one),
        "strikes": [
            *((words, RECORDED, "captured run") for words in recorded_words(one)),
            *(
                (as_written(each, one, ("disturbance", n)), each.fault, PORT_WORDS[STRUCK[each.fault].port])
                for n, each in enumerate(one.disturbance)
            ),
        ],
        "fields": parameter_fields(one, sent.get("parameters", {}), wrong_fields),
        "picks": [(tier, tier in one.tiers, str(tier) in picked) for tier in Tier],
        "seed": sent.get("seed", "") or str(one.seed),
        "touched": describe_reach(one),
        "can_live": not one.only_virtual(),
        "expected": _probe_rows(one.expect),
        "steady": _probe_rows(one.steady_state.probes),
        "abort": _abort(one),
    }


def _probe_rows(probes: Iterable[SteadyProbe]) -> list[tuple[str, str, str, str]]:
    """Return each probe's name, its meaning, and its tolerance in words and as written."""
    return [(each.probe, PROBES[each.probe], *tolerance_words(each.tolerance)) for each in probes]


def _abort(one: Scenario) -> list[str]:
    """Return its abort conditions in words."""
    conditions = []
    if one.abort.cost_usd_micros is not None:
        conditions.append(f"once a run has cost {dollars(one.abort.cost_usd_micros)}")
    if one.abort.virtual_s is not None:
        conditions.append(f"once a run has taken {duration(one.abort.virtual_s)} of its clock")
    return conditions


def _drills(actor: Actor, seen: ScenarioView, fabric: FabricView | None) -> str:
    """Return the part that changes: verdicts for each tier, and the newest drills."""
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
    return render_to_string("scenarios/drills.html", shown)


def _tiers(
    seen: ScenarioView, fabric: FabricView, by_mode: Mapping[str, tuple[Shown, Shown]]
) -> list[tuple[Tier, list[TierCell]]]:
    """Return the results of each tier by mode. Live columns appear if it can be live, or was."""
    lived = any(by_mode[LIVE]) or (seen.scenario is not None and not seen.scenario.only_virtual())
    cells = [tier_cells(seen, fabric.revision_id, *by_mode[mode], mode) for mode in MODES if lived or mode != LIVE]
    return [
        (tier, [one for one in of_tier if one.mark] or list(of_tier[:1]))
        for tier, of_tier in zip(Tier, zip(*cells, strict=True), strict=True)
    ]


def not_live(actor: Actor, one: Scenario) -> list[str]:
    """Return the reasons why the scenario cannot be played live now, a sentence each; empty if it can."""
    if problems := one.only_virtual():
        return list(dict.fromkeys(f"{each.sentence}." for each in problems))  # It begins with the fault's name.
    if not may_ask_live(actor):
        return ["Live drills use workers, so only owners and operators may start them."]
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
    """Return the page that describes the impact of a live scenario, with the form that starts it.

    ``form``: its target and the caps that were sent. Raises Refused for an invalid fabric, tier, parameter or fault.
    """
    one, given = seen.readable(), form.cleaned_data
    page = revision_get(actor, given["fabric"], given["number"])
    fits(page, one, parameters)
    can_be_live(one)
    tiers = tiers_meant(one, [Tier(tier) for tier in given["tier"]])
    count = f"{len(tiers)} tier{'s' if len(tiers) != 1 else ''}"
    cap = DrillMode(LIVE, page.spec.policy.budget.run_usd_micros).cap_of(one.failure) or 0
    blast = LiveImpact(
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
        sent=_hidden_fields(given, tiers, parameters),
        back=address(seen.name, page.fabric.name),
        back_words="Back to the scenario",
        crumb=seen.name,
        command=f"scenario run {seen.name} {page.fabric.name} --live --here",
    )
    return impact_page(request, actor, form, blast, problem, status)


def _hidden_fields(
    given: Mapping[str, Any], tiers: tuple[Tier, ...], parameters: Mapping[str, Scalar]
) -> tuple[tuple[str, str], ...]:
    """Return the hidden fields of the form, besides the caps and the reason. They repeat the request and confirm it."""
    numbers = [(key, str(given[key])) for key in ("number", "seed") if given[key] is not None]
    named = [("fabric", given["fabric"]), *(("tier", str(tier)) for tier in tiers), *numbers]
    return ("mode", LIVE), ("sure", "1"), *named, ("given", json.dumps(dict(parameters)))
