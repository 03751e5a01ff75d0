"""The start page: pick a fabric, say what is wanted, attach files, start."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import StartForm, new_start_key, sentence
from console.views import errors
from console.views.start_offer import PRIORITIES, needs_model, offer_of
from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.inputs import INBOX, RunRequested
from fabric.models import Inbox
from fabric.runtime.ports import Document
from fabric.selectors.contents import UNREAD
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, fabrics_list
from fabric.selectors.runs import run_events, run_get
from fabric.selectors.workspace_policies import standing_policy
from fabric.services.runs import run_start


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """The form; a POST starts the run and goes to its page, or gives back what was typed with what is wrong beside it."""
    actor = actor_of(request.user)
    # What runs without a model comes first: it is where a newcomer begins.
    fabrics = sorted(fabrics_list(actor), key=needs_model)
    if request.method != "POST":
        return _page(request, _offered(request, actor, fabrics))
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


def _started(actor: Actor, asked: dict[str, Any]) -> str:
    started = run_start(
        store=wiring.store(),
        nudge=wiring.nudge(),
        now=wiring.clock().now,
        actor=actor,
        fabric=asked["fabric"],
        text=asked["text"],
        documents=(*_carried(actor, asked["documents_of"]), *asked["documents"]),
        tier=asked["tier"] or None,
        priority=asked["priority"] or None,
        session_key=asked["session_key"],
        start_key=asked["start_key"],
    )
    return started.run_id


def _carried(actor: Actor, run_id: str) -> tuple[Document, ...]:
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
        form.data = {**form.data.dict(), "start_key": new_start_key()}  # type: ignore[attr-defined]
        form.add_error(
            None, "This form has started a run already, with another request. Press Start again for a second run."
        )
        return
    form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))


def _offered(request: HttpRequest, actor: Actor, fabrics: list[FabricView]) -> StartForm:
    """An empty form; filled in where the address names a fabric, its example, or an earlier run. Refused not_found for an unknown run."""
    named = {fabric.name: fabric for fabric in fabrics}
    like = request.GET.get("from", "")
    if like:
        return StartForm(fabrics, initial={**_like(actor, like), "start_key": new_start_key()})
    picked = named.get(request.GET.get("fabric", ""), fabrics[0] if fabrics else None)
    initial = {"fabric": picked.name if picked else "", "start_key": new_start_key(), "tier": ""}
    if picked and request.GET.get("example"):
        initial["text"] = picked.example
    return StartForm(fabrics, initial=initial)


def _like(actor: Actor, run_id: str) -> dict[str, str]:
    """What an earlier run was asked, as the form's fields."""
    run = run_get(actor, run_id)
    return {
        "fabric": run.fabric_name,
        "text": "" if run.erased or not run.reads else _text_of(actor, run.id) or run.title,
        "tier": run.tier,
        "priority": run.priority,
        "session_key": run.session_key,
        "documents_of": run.id if run.documents and run.reads and not run.erased else "",
        "like": run.id,
    }


def _text_of(actor: Actor, run_id: str) -> str:
    """The request of a run: its first event has it, and before that its first input. Empty once it was erased."""
    first = run_events(actor, run_id, limit=1)
    if first:
        content = first[0].content
        return str(content.get("text", "")) if isinstance(content, dict) else ""
    waiting = Inbox.objects.filter(run_id=run_id, input_id__startswith="start:").values_list("body", flat=True).first()
    asked = INBOX.validate_json(bytes(waiting)) if waiting is not None else None
    return str(asked.request.get("text", "")) if isinstance(asked, RunRequested) else ""


def _page(request: HttpRequest, form: StartForm, status: int = 200, notice: str = "") -> HttpResponse:
    template = "start/form.html" if request.headers.get("HX-Request") else "start/page.html"
    workspace = actor_of(request.user).workspace_id
    number = standing_policy(workspace).number
    offers = [offer_of(fabric, workspace, number) for fabric in form.fabrics.values()]
    carried_of, carried = _earlier(request, form)
    shown = {
        "form": form,
        "offers": offers,
        "tiers": _tiers(offers),
        "priorities": PRIORITIES.items(),
        "carried": carried,
        "carried_of": carried_of,
        "carries": bool(form["documents_of"].value()),
        "like": form.initial.get("like", ""),
        "notice": notice,
        "had_files": bool(form.files),
    }
    response = render(request, template, shown, status=status)
    response.headers["Vary"] = "HX-Request, Cookie"
    return response


def _tiers(offers: list[Any]) -> list[Any]:
    """The tiers that any of the fabrics allows, once each."""
    return list({line.tier: line for offer in offers for line in offer.tiers}.values())


def _earlier(request: HttpRequest, form: StartForm) -> tuple[str, tuple[str, ...]]:
    """The earlier run whose documents the form offers to take along, and their names; nothing of a run that cannot be seen."""
    run_id = str(form["documents_of"].value() or form.data.get("documents_from", ""))
    if not run_id:
        return "", ()
    try:
        return run_id, run_get(actor_of(request.user), run_id).documents
    except Refused:
        return "", ()


def _gone(request: HttpRequest, address: str) -> HttpResponse:
    """Go on to another page, by the script or without it."""
    if request.headers.get("HX-Request"):
        return HttpResponse(headers={"HX-Redirect": address})
    return HttpResponseRedirect(address)
