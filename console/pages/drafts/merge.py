"""Merges newly published changes into a draft, with a choice for each conflict."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from console.editor.unsaved_changes import number_in
from console.pages.drafts.views import choices_in
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.differences import spec_changes
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.drafts.merges import DraftConflict
from fabric.services.drafts.publication import draft_bring_in, draft_incoming, moved_words


@require_http_methods(["GET", "HEAD", "POST"])
def merge(request: HttpRequest, name: str) -> HttpResponse:
    """Show the changes published since the draft began; POST merges them with the choices made.

    409: a choice is missing, or the draft or the fabric changed meanwhile.
    """
    actor = find_actor(request.user)
    if request.method != "POST":
        return _page(request, actor, name)
    try:
        step, base = number_in(request.POST, "step"), number_in(request.POST, "base")
        draft = draft_bring_in(actor=actor, name=name, step=step, base=base, choices=choices_in(request.POST))
    except DraftConflict as conflict:
        count = len(conflict.conflicts)
        said = f"Say of {count} place{'' if count == 1 else 's'} which side to keep. Nothing was changed."
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
        return render(request, "drafts/nothing_to_merge.html", nothing, status=status if said else 200)
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
    return render(request, "drafts/merge.html", shown, status=status)
