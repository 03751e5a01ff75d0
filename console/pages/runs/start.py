"""Shows the start page: a person picks a fabric, writes the request, attaches files, and starts a run.

A fabric is described by its tiers with their deadlines, and the ceilings of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from pydantic import ValidationError

from console.forms.common import StartForm, new_start_key
from console.forms.labels import list_label_rows
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.templatetags.figures import span, thousands, usd
from fabric.adapters.documents.attachments import read_all
from fabric.composition import engine as wiring
from fabric.core.events.inputs import INBOX, RunRequested
from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.core.values.words import TIERS as TIER_WORDS
from fabric.models import Inbox
from fabric.providers.exchange.prices import OperatorModels, build_address
from fabric.runtime.ports.journal import Document
from fabric.selectors.contents import UNREAD
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import FabricView, fabrics_list, pick_first, revision_spec
from fabric.selectors.runs.lookup import find_last_fabric, run_events, run_get
from fabric.selectors.runs.stops import stops_standing
from fabric.selectors.workspaces.policies import spec_under, standing_policy
from fabric.services.fabrics.templates import list_example_files
from fabric.services.installation.facts import installation
from fabric.services.models.catalogue import HTTP
from fabric.services.runs.start import run_start


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """Show the form. A POST starts the run, or shows the typed values with the mistakes beside them."""
    actor = find_actor(request.user)
    used = find_last_fabric(actor)
    # The last used fabric comes first. A newcomer begins with one that runs without a model.
    fabrics = sorted(fabrics_list(actor), key=lambda fabric: (fabric.name != used, needs_model(fabric)))
    if request.method != "POST":
        return _page(request, _build_form(request, actor, fabrics, used))
    form = StartForm(fabrics, request.POST, request.FILES)
    if form.is_valid():
        try:
            return _redirect_to(request, reverse("run", args=[_start_run(actor, form.cleaned_data)]))
        except Refused as refusal:
            if refusal.code == "unavailable":
                return _page(request, form, 503, notice=sentence(refusal.message))
            _show(form, refusal)
            return _page(request, form, errors.STATUS[refusal.code])
    return _page(request, form, 422)


def _start_run(actor: Actor, asked: dict[str, Any]) -> str:
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        now=wiring.clock().now,
        actor=actor,
        fabric=asked["fabric"],
        text=asked["text"],
        documents=(
            *_find_documents(actor, asked["documents_of"]),
            *read_all(list_example_files(asked["example_of"]))[0],
            *asked["documents"],
        ),
        tier=asked["tier"] or None,
        priority=asked["priority"] or None,
        session_key=asked["session_key"],
        labels=asked["labels"],
        start_key=asked["start_key"],
    )
    return started.run_id


def _find_documents(actor: Actor, run_id: str) -> tuple[Document, ...]:
    """The documents of an earlier run. Refused not_found for a run that is not this workspace's."""
    if not run_id:
        return ()
    try:
        run = run_get(actor, run_id)
    except Refused as refusal:
        raise Refused(refusal.message, code=refusal.code, field="documents") from None
    if not run.reads:
        raise Refused(UNREAD, code="forbidden", field="documents")
    if run.erased:
        message = f"the documents of run {run_id} are no longer kept; attach them again"
        raise Refused(message, code="conflict", field="documents")
    return tuple(wiring.store().documents(run_id))


def _show(form: StartForm, refusal: Refused) -> None:
    """Put a service's refusal beside the field it names."""
    if refusal.field == "start_key" and refusal.code == "conflict":
        # The browser's Back button brought an old form back, and it was changed.
        form.data = form.data.copy()  # type: ignore[attr-defined]
        form.data["start_key"] = new_start_key()  # type: ignore[index]
        form.add_error(
            None, "This form has started a run already, with another request. Press Start again for a second run."
        )
        return
    form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))


def _build_form(request: HttpRequest, actor: Actor, fabrics: list[FabricView], used: str) -> StartForm:
    """An empty form; filled in where the address names a fabric, its example, or an earlier run. Refused not_found for
    an unknown run.
    """
    named = {fabric.name: fabric for fabric in fabrics}
    like = request.GET.get("from", "")
    if like:
        return StartForm(fabrics, initial={**_copy_request(actor, like), "start_key": new_start_key()})
    asked_for = request.GET.get("fabric", "")
    picked = named.get(asked_for) or named.get(used) or pick_first(fabrics)
    initial = {"fabric": picked.name if picked else "", "start_key": new_start_key(), "tier": ""}
    if picked and request.GET.get("example"):
        initial |= {"text": picked.example, "example_of": picked.name}
    return StartForm(fabrics, initial=initial)


def _copy_request(actor: Actor, run_id: str) -> dict[str, Any]:
    """Return the request of an earlier run, as the form's fields."""
    run = run_get(actor, run_id)
    return {
        "fabric": run.fabric_name,
        "text": "" if run.erased or not run.reads else _find_text(actor, run.id) or run.title,
        "tier": run.tier,
        "priority": run.priority,
        "session_key": run.session_key,
        "labels": run.labels,
        "documents_of": run.id if run.documents and run.reads and not run.erased else "",
        "like": run.id,
    }


def _find_text(actor: Actor, run_id: str) -> str:
    """The request of a run: its first event has it, and before that its first input. Empty once it was erased."""
    first = run_events(actor, run_id, limit=1)
    if first:
        content = first[0].content
        return str(content.get("text", "")) if isinstance(content, dict) else ""
    waiting = Inbox.objects.filter(run_id=run_id, input_id__startswith="start:").values_list("body", flat=True).first()
    asked = INBOX.validate_json(bytes(waiting)) if waiting is not None else None
    return str(asked.request.get("text", "")) if isinstance(asked, RunRequested) else ""


def _page(request: HttpRequest, form: StartForm, status: int = 200, notice: str = "") -> HttpResponse:
    template = "runs/start/form.html" if request.headers.get("HX-Request") else "runs/start/page.html"
    actor = find_actor(request.user)
    workspace = actor.workspace_id
    number = standing_policy(workspace).number
    operator = installation(workspace_id=workspace).operator
    offers = [build_offer(fabric, workspace, number, operator) for fabric in form.fabrics.values()]
    carried_of, carried = _earlier(request, form)
    shown = {
        "form": form,
        "offers": offers,
        "picked": next((one for one in offers if one.fabric.name == form["fabric"].value()), None),
        "settings_open": any(form[name].value() or form[name].errors for name in SETTINGS),
        "tiers": _tiers(offers),
        "priorities": PRIORITIES.items(),
        "label_rows": list_label_rows(form),
        "carried": carried,
        "carried_of": carried_of,
        "carries": bool(form["documents_of"].value()),
        **_offer_example(form),
        "like": form.initial.get("like", ""),
        "notice": notice,
        "stops": stops_standing(actor),
        "had_files": bool(form.files),
    }
    response = render(request, template, shown, status=status)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


def _tiers(offers: list[Any]) -> list[Any]:
    """The tiers that any of the fabrics allows, once each."""
    return list({line.tier: line for offer in offers for line in offer.tiers}.values())


def _earlier(request: HttpRequest, form: StartForm) -> tuple[str, tuple[str, ...]]:
    """Return the earlier run whose documents can be taken along, with their names. A hidden run gives none."""
    run_id = str(form["documents_of"].value() or form.data.get("documents_from", ""))
    if not run_id:
        return "", ()
    try:
        return run_id, run_get(find_actor(request.user), run_id).documents
    except Refused:
        return "", ()


def _offer_example(form: StartForm) -> dict[str, Any]:
    """Return the example's documents. A form that comes back offers those that were left out, too."""
    of = str(form["example_of"].value() or form.data.get("example_from", ""))
    return {"example_from": of, "example_files": [name for name, _ in list_example_files(of)]}


def _redirect_to(request: HttpRequest, address: str) -> HttpResponse:
    """Go on to another page, by the script or without it."""
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)


TIERS: Mapping[Tier, tuple[str, str]] = {
    Tier.INTERACTIVE: (
        TIER_WORDS[Tier.INTERACTIVE].capitalize(),
        "a person waits for the answer: short deadlines, gives up early",
    ),
    Tier.BATCH: (TIER_WORDS[Tier.BATCH].capitalize(), "no one waits: long deadlines, tries harder before it gives up"),
    Tier.HIGH_STAKES: (
        TIER_WORDS[Tier.HIGH_STAKES].capitalize(),
        "being wrong is worse than being late: asks a person sooner",
    ),
}
"""Each tier's name and what it is for."""

SETTINGS = ("tier", "priority", "session_key", "labels")
"""Fields of the folded settings."""

PRIORITIES: Mapping[str, str] = {
    "critical": "Critical: before everything else",
    "high": "High",
    "normal": "Normal",
    "low": "Low: when nothing else waits",
}
"""Meaning of each priority while workers are busy."""


@dataclass(frozen=True, slots=True)
class TierLine:
    """A tier of one fabric, in words."""

    tier: Tier
    title: str
    purpose: str
    default: bool
    call: str
    stage: str
    run: str
    person: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A fabric as the form offers it."""

    fabric: FabricView
    needs_model: bool
    unset_models: tuple[str, ...]
    """Models without an endpoint: their calls fail."""
    tiers: tuple[TierLine, ...]
    ceilings: tuple[tuple[str, str], ...]
    """Bounded quantity, and its bound."""

    @property
    def has_files(self) -> bool:
        """True for a sample whose example reads documents."""
        return bool(list_example_files(self.fabric.name))


def needs_model(fabric: FabricView) -> bool:
    """Returns True where a published fabric asks an endpoint."""
    spec = _spec(fabric.revision_id)
    return spec is None or any(model.provider != "scripted" for model in spec.models)


def build_offer(fabric: FabricView, workspace_id: str, policy_number: int, operator: OperatorModels) -> Offer:
    """The form's words about a published fabric under its workspace's policy.

    A fabric that this version cannot read has no tiers and no ceilings.
    """
    spec = _spec(fabric.revision_id)
    if spec is None:
        return Offer(fabric, True, (), (), ())
    lines = tuple(_line(spec, tier, default=tier == fabric.tier) for tier in fabric.tiers)
    under = {tier: spec_under(fabric.revision_id, workspace_id, policy_number, tier) for tier in fabric.tiers}
    unset = tuple(one.name for one in spec.models if one.provider in HTTP and not build_address(one, operator))
    return Offer(fabric, needs_model(fabric), unset, lines, (*_money(under), *_ceilings(under[fabric.tier])))


def _money(under: Mapping[Tier, FabricSpec]) -> Iterator[tuple[str, str]]:
    """Return the most that a run may spend, by tier where tiers differ."""
    caps = {tier: spec.policy.budget.run_usd_micros for tier, spec in under.items()}
    if len(set(caps.values())) == 1:
        yield "money", f"{usd(min(caps.values()))} a run"
        return
    for tier, cap in caps.items():
        yield "money", f"{usd(cap)} a run of tier {TIERS[tier][0].lower()}"


@lru_cache(maxsize=256)
def _spec(revision_id: str) -> FabricSpec | None:
    try:
        return revision_spec(revision_id)
    except ValidationError:
        return None


def _line(spec: FabricSpec, tier: Tier, *, default: bool) -> TierLine:
    deadlines = spec.policy.deadlines_of(tier)
    title, purpose = TIERS[tier]
    seconds = (deadlines.call_s, deadlines.stage_s, deadlines.run_s, spec.policy.due_s(tier))
    call, stage, run, person = (_span(one) for one in seconds)
    return TierLine(tier, title, purpose, default, call, stage, run, person)


def _span(seconds: float) -> str:
    return span(round(seconds * US)) if seconds >= 10 else f"{seconds:g} s"


def _ceilings(spec: FabricSpec) -> tuple[tuple[str, str], ...]:
    budget, limits = spec.policy.budget, spec.policy.limits
    found: list[tuple[str, str]] = []
    if budget.run_tokens is not None:
        found.append(("tokens", f"{thousands(budget.run_tokens)} a run"))
    for tokens, each in ((budget.stage_tokens, "a stage"), (budget.agent_tokens, "an agent")):
        if tokens is not None:
            found.append(("tokens", f"{thousands(tokens)} {each}"))
    for whose, caps in (("agent", budget.agents), ("stage", budget.stages)):
        for name, own in caps.items():
            if own.tokens is not None:
                found.append(("tokens", f"{thousands(own.tokens)} {whose} {name}"))
    found += [
        ("model turns", f"{limits.turns} a step"),
        *(
            ("model turns", f"{own.limits.turns} a step in stage {stage}")
            for stage, own in spec.policy.stages.items()
            if own.limits.turns is not None
        ),
        ("replans", f"{limits.replans_per_stage} a stage"),
        ("agents at once", str(limits.sub_agents_alive)),
    ]
    return tuple(found)
