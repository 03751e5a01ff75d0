"""Bringing into a draft what was published since it began: what comes in, and what both changed, with a choice each."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.configure.unsaved import number_in
from console.forms import sentence
from console.views import errors
from console.views.fabric_edit import choices_in
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import revision_get
from fabric.selectors.revision_diff import spec_changes
from fabric.services.draft_merging import DraftConflict
from fabric.services.drafts_publishing import draft_bring_in, draft_incoming, moved_words


@require_http_methods(["GET", "HEAD", "POST"])
def merge(request: HttpRequest, name: str) -> HttpResponse:
    """What was published since one's draft began; POST brings it in, with the choices made. 409: a choice is missing, or either went on meanwhile."""
    actor = actor_of(request.user)
    if request.method != "POST":
        return _page(request, actor, name)
    try:
        step, base = number_in(request.POST, "step"), number_in(request.POST, "base")
        draft = draft_bring_in(actor=actor, name=name, step=step, base=base, choices=choices_in(request.POST))
    except DraftConflict as conflict:
        count = len(conflict.conflicts)
        said = f"Say of {count} place{'' if count == 1 else 's'} which is to stand. Nothing was changed."
        return _page(request, actor, name, said, 409)
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        return _page(request, actor, name, sentence(refusal.message), errors.STATUS[refusal.code])
    messages.success(request, f"r{base} is in your draft: it is a change of r{base} from now on.")
    return redirect("fabric-draft", name=draft.name)


def _page(request: HttpRequest, actor: Actor, name: str, said: str = "", status: int = 200) -> HttpResponse:
    try:
        draft, found = draft_incoming(actor=actor, name=name)
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        nothing = {"name": name, "said": said or sentence(refusal.message)}
        return render(request, "fabrics/change/nothing_to_merge.html", nothing, status=status if said else 200)
    published = revision_get(actor, name)
    base = revision_get(actor, name, draft.base) if draft.base is not None else None
    asked = {one.path for one in found.conflicts}
    coming = [one for one in (spec_changes(base.spec, published.spec) if base else ()) if one.path not in asked]
    chosen = choices_in(request.POST)
    shown = {
        "draft": draft,
        "published": published,
        "moved": moved_words(actor, draft),
        "conflicts": [(one, chosen.get(one.path, "")) for one in found.conflicts],
        "taken": found.taken,
        "coming": coming,
        "said": said,
    }
    return render(request, "fabrics/change/merge.html", shown, status=status)
