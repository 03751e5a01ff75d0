"""The start page: pick a fabric, say what is wanted, attach files, start."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import StartForm, new_start_key, sentence
from console.views import errors
from fabric import wiring
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, fabrics_list, revision_spec
from fabric.services.runs import run_start


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """The form; a POST starts the run and goes to its page, or gives back what was typed with what is wrong beside it."""
    actor = actor_of(request.user)
    # What runs without a model comes first: it is where a newcomer begins.
    fabrics = sorted(fabrics_list(actor), key=lambda fabric: needs_model(fabric.revision_id))
    if request.method != "POST":
        return _page(request, _offered(request, fabrics))
    form = StartForm(fabrics, request.POST, request.FILES)
    if form.is_valid():
        try:
            return _gone(request, reverse("run", args=[_started(actor, form.cleaned_data)]))
        except Refused as refusal:
            if refusal.code == "unavailable":
                return _page(request, form, 503, notice=sentence(refusal.message))
            _show(form, refusal)
            return _page(request, form, errors.STATUS[refusal.code])
    return _page(request, form, 422)


@lru_cache(maxsize=256)
def needs_model(revision_id: str) -> bool:
    """Whether a revision asks a model endpoint; scripted agents do not. A revision never changes."""
    return any(model.provider != "scripted" for model in revision_spec(revision_id).models)


def _started(actor: Actor, asked: dict[str, Any]) -> str:
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=actor,
        fabric=asked["fabric"],
        text=asked["text"],
        documents=asked["documents"],
        tier=asked["tier"] or None,
        start_key=asked["start_key"],
    )
    return started.run_id


def _show(form: StartForm, refusal: Refused) -> None:
    """Put a service's refusal beside the field it names."""
    if refusal.field == "start_key":
        # The browser's Back button brought an old form back, and it was changed.
        form.data = {**form.data.dict(), "start_key": new_start_key()}  # type: ignore[attr-defined]
        form.add_error(
            None, "This form has started a run already, with another request. Press Start again for a second run."
        )
        return
    form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))


def _offered(request: HttpRequest, fabrics: list[FabricView]) -> StartForm:
    """An empty form, with a fabric picked and its example filled in where the address says so."""
    named = {fabric.name: fabric for fabric in fabrics}
    picked = named.get(request.GET.get("fabric", ""), fabrics[0] if fabrics else None)
    initial = {"fabric": picked.name if picked else "", "start_key": new_start_key(), "tier": ""}
    if picked and request.GET.get("example"):
        initial["text"] = picked.example
    return StartForm(fabrics, initial=initial)


def _page(request: HttpRequest, form: StartForm, status: int = 200, notice: str = "") -> HttpResponse:
    template = "start/form.html" if request.headers.get("HX-Request") else "start/page.html"
    shown = {
        "form": form,
        "fabrics": [(fabric, needs_model(fabric.revision_id)) for fabric in form.fabrics.values()],
        "notice": notice,
        "had_files": bool(form.files),
    }
    response = render(request, template, shown, status=status)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


def _gone(request: HttpRequest, address: str) -> HttpResponse:
    """Go on to another page, by the script or without it."""
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
