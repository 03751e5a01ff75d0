"""Publishes a draft, or asks a second person. Shows its changes and effects, its drills, and its trial on past runs."""

from __future__ import annotations

import time
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.editor.draft import Editing, editing
from console.editor.parts.catalogue import remarks
from console.editor.unsaved_changes import NUMBER_MAX
from console.pages.drafts.change import build_board, build_change
from console.pages.drafts.views import installation_for
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.requests.time_zone import find_zone
from console.site.sentences import sentence
from fabric.composition import engine as wiring
from fabric.composition.models import provider_names
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.words import instant
from fabric.selectors.drafts.change_requests import ChangeView, last_request
from fabric.selectors.drafts.history_preview import history_preview
from fabric.selectors.drafts.lookup import DraftView, draft_get
from fabric.selectors.errors import Refused
from fabric.services.drafts.publication import draft_publish, draft_request, draft_schedule, moved_words
from fabric.services.drafts.scheduled import read_time
from fabric.services.fabrics.checks import LEVELS
from fabric.services.fabrics.revisions import MESSAGE_CHARS_MAX
from fabric.services.rights import right_wanted
from simulator.drills import tasks
from simulator.drills.services.drafts import draft_drills, drill_ask_spec

DAMAGED = "The form was damaged on its way, and nothing was published: look at it again."
LISTED = 50
"""Number of past decisions that are listed one by one."""


class PublishForm(forms.Form):
    """Form that publishes a draft. ``step``: the step of the draft that the page showed."""

    step = forms.IntegerField(min_value=0, max_value=NUMBER_MAX)
    act = forms.ChoiceField(choices=[("publish", ""), ("request", ""), ("schedule", "")])
    publish_at = forms.CharField(required=False, max_length=40)
    message = forms.CharField(required=False, max_length=MESSAGE_CHARS_MAX)


class DrillForm(forms.Form):
    """Form that picks the cells of the draft to drill."""

    step = forms.IntegerField(min_value=0, max_value=NUMBER_MAX)
    cells = forms.ChoiceField(choices=[("all", ""), ("stale", ""), ("changed", "")])


@require_http_methods(["GET", "HEAD", "POST"])
def publish(request: HttpRequest, name: str) -> HttpResponse:
    """Show the effect of publishing the draft; POST publishes it, or asks a second person.

    409: the draft changed, or another revision was published. 422: it cannot be published.
    """
    actor = find_actor(request.user)
    if request.method != "POST":
        return _page(request, actor, draft_get(actor, name))
    form = PublishForm(request.POST)
    if not form.is_valid():
        long = form.errors.get("message")
        kept = request.POST.get("message", "")
        return _page(request, actor, draft_get(actor, name), (str(long[0]) if long else DAMAGED,), 422, kept)
    given = form.cleaned_data
    try:
        if given["act"] == "request":
            draft_request(
                actor=actor, name=name, step=given["step"], message=given["message"], providers=provider_names()
            )
            messages.success(request, "A second person must approve. Nothing is published until then.")
            return redirect("fabric-draft-publish", name=name)
        if given["act"] == "schedule":
            at = read_time(given["publish_at"], find_zone(request))
            draft_schedule(
                actor=actor,
                name=name,
                step=given["step"],
                publish_at=at,
                message=given["message"],
                providers=provider_names(),
            )
            messages.success(request, f"It is published at {instant(at)}, unless it no longer passes then.")
            return redirect("fabric-draft-publish", name=name)
        done = draft_publish(
            actor=actor, name=name, step=given["step"], message=given["message"], providers=provider_names()
        )
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        said = tuple(sentence(one) for one in refusal.problems)
        typed = (given["message"], given["publish_at"])
        return _page(request, actor, draft_get(actor, name), said, errors.STATUS[refusal.code], *typed)
    messages.success(request, f"r{done.number} of {name} is published: new runs use it.")
    return redirect("fabric", name=name)


def _page(
    request: HttpRequest,
    actor: Actor,
    draft: DraftView,
    said: tuple[str, ...] = (),
    status: int = 200,
    message: str = "",
    publish_at: str = "",
) -> HttpResponse:
    seen = editing(draft, installation_for(actor, draft.name))
    found = remarks(seen.checked)
    spec = seen.spec if seen.spec is not None and seen.spec.name == draft.name else None
    change = build_change(actor, draft.name, spec, draft.text, sound=not seen.checked.errors) if spec else None
    asked = last_request(actor, draft)
    shown = {
        "draft": draft,
        "editing": seen,
        "change": change,
        "remarks": found,
        "tally": [(level, sum(one.finding.level == level for one in found)) for level in LEVELS],
        "editor": reverse("fabric-draft", args=[draft.name]),
        "asked": asked,
        "said": said,
        "moved": moved_words(actor, draft) if draft.moved else "",
        "why_not": _why_not(seen, change is not None and change.outlook.same, asked),
        "message": message,
        "publish_at": publish_at,
        "zone": str(find_zone(request)),
        **(_drills(actor, spec) if spec and not seen.checked.errors else {}),
    }
    return render(request, "drafts/publication/page.html", shown, status=status)


def _why_not(seen: Editing, same: bool, asked: ChangeView | None) -> str:
    """Return why the button is disabled, as a sentence; empty if it is enabled."""
    count = len(seen.checked.errors)
    if count:
        return f"{count} error{'' if count == 1 else 's'} keep{'s' if count == 1 else ''} it from being published."
    if seen.draft.moved:
        return "Merge the published version first."
    if same:
        return f"This is the content of r{seen.draft.published}, which is published: there is nothing to publish."
    if asked is not None and asked.waits and asked.publish_at is None and asked.text == seen.draft.text:
        return "The request waits for a second person."
    return ""


# -- parts that come later ---------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def drills(request: HttpRequest, name: str) -> HttpResponse:
    """Show the 24 cells of one's draft to the page's script; POST requests their drills.

    409: nothing to drill, or the draft changed. 422: the draft has errors.
    """
    actor, status, said = find_actor(request.user), 200, ""
    if request.method == "POST":  # Before it is looked whether they have a draft, which who may not drill has none of.
        right_wanted(actor, Right.RUN, "start drills")
    draft = draft_get(actor, name)
    spec = _sound(actor, draft)
    if request.method == "POST":
        form = DrillForm(request.POST)
        try:
            if not form.is_valid() or spec is None:
                damaged = "the draft has errors, so it cannot be drilled" if spec is None else DAMAGED
                raise Refused(damaged, code="invalid")
            if form.cleaned_data["step"] != draft.step:
                message = "the draft changed since this page was loaded: reload it"
                raise Refused(message, code="conflict", field="step")
            drill_ask_spec(actor=actor, spec=spec, cells=form.cleaned_data["cells"], wake=tasks.wake)
        except Refused as refusal:
            if refusal.code not in ("conflict", "invalid"):
                raise
            said, status = sentence(refusal.message), errors.STATUS[refusal.code]
    if not request.headers.get("HX-Request"):
        if said:
            return _page(request, actor, draft, (said,), status)
        return redirect(f"{reverse('fabric-draft-publish', args=[draft.name])}#draft-drills")
    shown: dict[str, Any] = {"draft": draft, "drills_said": said, **(_drills(actor, spec) if spec else {})}
    return render(request, "drafts/publication/drills.html", shown, status=status)


def _drills(actor: Actor, spec: FabricSpec) -> dict[str, Any]:
    return {"board": build_board(draft_drills(actor, spec)), "now_ms": time.time_ns() // 1_000_000}


@require_safe
def history(request: HttpRequest, name: str) -> HttpResponse:
    """Show the decisions that the draft would have made on the failures of the last runs.

    The page's script gets a card; ``?all=1`` and requests without a script get the whole page.
    """
    actor = find_actor(request.user)
    draft = draft_get(actor, name)
    spec, found, why = _sound(actor, draft), None, ""
    if draft.published is None:
        why = "The fabric was never published, so it has no runs."
    elif spec is None:
        why = "The draft has errors: mend them first."
    else:
        try:
            compiles = wiring.draft_compiler(actor.workspace_id)
            found = history_preview(actor, draft.name, spec, compiles, wiring.compile_under_policy)
        except (ValueError, KeyError, Refused) as error:
            why = sentence(str(error))
    part = bool(request.headers.get("HX-Request"))
    template = "drafts/publication/history.html" if part else "drafts/publication/history_page.html"
    listed = found.listed[:LISTED] if found else ()
    shown = {"draft": draft, "history": found, "why": why, "listed": listed, "whole": not part}
    return render(request, template, shown)


def _sound(actor: Actor, draft: DraftView) -> FabricSpec | None:
    """Return the draft's spec; None if errors prevent its publication."""
    found = editing(draft, installation_for(actor, draft.name))
    return None if found.checked.errors else found.spec
