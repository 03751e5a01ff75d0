"""Serves the editor of a fabric: its parts, saving, undo and redo."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.editor.draft import Editing, editing
from console.editor.parts.catalogue import PARTS, part_of, remarks
from console.editor.trial import BUTTON, EXAMPLE, OPEN, SAMPLE, TryBox, box_of, open_path
from console.editor.unsaved_changes import (
    TEXT,
    Difference,
    Unsaved,
    number_in,
    text_in,
    tree_of,
    typed_in,
    unsaved_of,
)
from console.forms.controls.edits import ButtonProblem
from console.forms.controls.positions import moved
from console.forms.controls.rows import ROW
from console.forms.drafts.edits import changes_in
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor
from fabric.management.base import providers
from fabric.selectors.drafts.change_requests import last_request
from fabric.selectors.drafts.lookup import DraftView, draft_get, list_editors, steps_around
from fabric.selectors.errors import Refused
from fabric.services.actors import find_people
from fabric.services.drafts import changes as drafts
from fabric.services.drafts.editors import editor_beat, editor_gone
from fabric.services.drafts.merges import Choices
from fabric.services.fabrics.checks import LEVELS
from fabric.services.fabrics.yaml.edits import EditProblem
from fabric.services.installation import facts as here
from fabric.services.installation.facts import InstallationFacts

CHOICE = "c."
"""Prefix of a form field with the side chosen for a path."""
KEEP, LEAVE = "keep", "leave"
"""The answers of a stale page's author: save what stands in the fields, or leave it out."""
PART_PARAMETERS = ("cell", "simulate", "stage", "open", "find", "changed", BUTTON)
"""Parameters that control how a part is shown."""
ASKED_MAX = 120


def installation_for(actor: Actor, fabric: str = "") -> InstallationFacts:
    """Return the facts about this installation that publication checks, for a workspace and a fabric."""
    return here.installation(
        providers(), people=find_people(actor.workspace_id, fabric), workspace_id=actor.workspace_id
    )


@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest, name: str) -> HttpResponse:
    """Show one's own draft of a fabric, in its parts; POST saves the changes.

    409: the draft was changed since the page was loaded. The page shows both values, and nothing is lost.
    """
    actor = find_actor(request.user)
    if request.method == "POST":
        return _answer_save(request, actor, name)
    found = draft_get(actor, name)
    return _page(request, actor, _read_editing(request, actor, found))


@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Open the draft of a published fabric; create it if there is none."""
    found = drafts.draft_of_fabric(actor=find_actor(request.user), name=name)
    return redirect("fabric-draft", name=found.name)


@require_POST
def beat(request: HttpRequest, name: str) -> HttpResponse:
    """Record that an editor is open, and return who else has it open. ``gone``: the editor is closing."""
    actor, page = find_actor(request.user), request.POST.get("page", "")
    if request.POST.get("gone"):
        editor_gone(actor=actor, fabric=name, page=page)
        return HttpResponse(status=204)
    part = PARTS.get(request.POST.get("part", ""))
    others = editor_beat(actor=actor, fabric=name, part=part.label if part else "", page=page)
    return render(request, "drafts/here.html", {"others": others})


@require_POST
def undo(request: HttpRequest, name: str) -> HttpResponse:
    """Undo the last change."""
    return _answer_step(request, name, back=True)


@require_POST
def redo(request: HttpRequest, name: str) -> HttpResponse:
    """Redo the change that was undone."""
    return _answer_step(request, name, back=False)


@require_POST
def discard(request: HttpRequest, name: str) -> HttpResponse:
    """Delete the draft."""
    actor = find_actor(request.user)
    seen = drafts.draft_own(actor=actor, name=name)
    drafts.draft_discard(actor=actor, name=seen.name, step=number_in(request.POST, "step"))
    messages.success(request, f"Your draft of {name} was discarded. The published version is unchanged.")
    return redirect("fabrics")


def _answer_step(request: HttpRequest, name: str, *, back: bool) -> HttpResponse:
    actor, act = find_actor(request.user), drafts.draft_undo if back else drafts.draft_redo
    seen = drafts.draft_own(actor=actor, name=name)
    try:
        act(actor=actor, name=seen.name, step=number_in(request.POST, "step"), page=request.POST.get("page", "")[:40])
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return _render_refusal(request, actor, name, refusal)
    return _answer(request, actor, name, whole=True)


# -- saving ------------------------------------------------------------------------------------------------------------


def _answer_save(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    sent, button = request.POST, request.POST.get("do", "")
    if button == LEAVE:
        return _answer(request, actor, name, whole=True)
    try:
        _save(actor, name, sent, button)
    except ButtonProblem as problem:
        return _render_unsaved(request, actor, name, Refused(str(problem), code="invalid", field="do"))
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large", "unavailable"):
            raise
        return _render_unsaved(request, actor, name, refusal)
    return _answer(request, actor, name, whole=bool(button))


def _save(actor: Actor, name: str, sent: QueryDict, button: str) -> None:
    step, page = number_in(sent, "step"), sent.get("page", "")[:40]
    over = number_in(sent, "over") if button == KEEP else None
    shown = drafts.draft_shown(actor=actor, name=name, step=step)
    if TEXT in sent:
        text = text_in(sent)
        # A browser drops one line end at the beginning and keeps its own out, so that the shown text returns unchanged.
        if text != shown.replace("\r\n", "\n"):
            drafts.draft_replace(actor=actor, name=name, step=step if over is None else over, text=text, page=page)
        return
    # If the draft changes while an answer is on its way, the page shows another form than the present one.
    at, known = drafts.draft_known(actor=actor, name=name, step=step if over is None else over, page=page)
    tree, since = tree_of(shown), tree_of(known)
    if tree is None or since is None:
        message = "the draft's text is no YAML just now: mend it in the YAML part, or undo the last change"
        raise Refused(message, code="conflict", field="text")
    try:
        found = changes_in(tree, sent, "" if button == KEEP else button, since)
    except EditProblem as problem:
        raise Refused(str(problem), code="invalid", field="path") from None
    if found.refused:
        raise Refused("; ".join(found.refused), code="invalid", problems=found.refused, field="rows")
    gone = [path for path in changes_in(tree, sent).paths if moved(tree, since, path) is None] if button == KEEP else []
    if gone:
        message = f"{gone[0]} is not in the draft any more: copy what you typed, and discard yours"
        raise Refused(message, code="invalid", field=gone[0])
    if found.edits:
        drafts.draft_change(
            actor=actor, name=name, step=at, edits=found.edits, what=found.what, page=page, place=found.place
        )


def choices_in(sent: QueryDict) -> Choices:
    """Return the chosen side of each conflicting path in the form."""
    return {key[len(CHOICE) :]: "theirs" if sent[key] == "theirs" else "mine" for key in sent if key.startswith(CHOICE)}


# -- answers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartMessage:
    """The refusal that stands above the part."""

    sentences: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    """The fields whose values differ from those that were saved meanwhile."""
    over: int | None = None
    """The step of the values saved meanwhile, which the author may save over; None: the page is not stale."""
    typed: tuple[tuple[str, str], ...] = ()
    """The fields that were sent, with their texts, if the page cannot show them in fields."""


def _answer(request: HttpRequest, actor: Actor, name: str, *, whole: bool) -> HttpResponse:
    """Return the page's parts to its script, else the page. ``whole``: redraw all fields, because they may have
    changed.
    """
    found = draft_get(actor, name)
    seen = _read_editing(request, actor, found)
    if not _partly(request) and seen.trial is None:
        asked = {"part": _part(request), **{key: request.POST[key] for key in PART_PARAMETERS if request.POST.get(key)}}
        return HttpResponseRedirect(f"{reverse('fabric-draft', args=[name])}?{urlencode(asked)}")
    said, status = _failed_trial(seen.trial) if request.POST.get(BUTTON) else (None, 200)
    response = _page(request, actor, seen, said, status)
    if whole:
        response.headers["HX-Reswap"] = "innerHTML"
    return response


def _failed_trial(box: TryBox | None) -> tuple[PartMessage | None, int]:
    """Return the message and status for a trial that failed and has no box for its error."""
    if box is None or box.refused is None:
        return None, 200
    above = not box.boxes or box.refused.code == "not_found"
    return PartMessage((sentence(box.problem),)) if above else None, errors.STATUS[box.refused.code]


def _render_refusal(request: HttpRequest, actor: Actor, name: str, refusal: Refused) -> HttpResponse:
    seen = _read_editing(request, actor, draft_get(actor, name))
    return _page(request, actor, seen, PartMessage(tuple(map(sentence, refusal.problems))), errors.STATUS[refusal.code])


def _render_unsaved(request: HttpRequest, actor: Actor, name: str, refusal: Refused) -> HttpResponse:
    """Show the page as its author left it, under the refusal.

    A stale page keeps the step that it showed, so that no unseen value is overwritten.
    """
    found, sent = draft_get(actor, name), request.POST
    text = _find_shown_text(actor, name, number_in(sent, "step"))
    stale = text is not None and (isinstance(refusal, drafts.PageStale) or sent.get("do") == KEEP)
    held = Unsaved() if text is None else unsaved_of(sent, text, found.text, stale=stale)
    drawn = replace(found, text=text, step=number_in(sent, "step")) if stale and text is not None else found
    seen = replace(_read_editing(request, actor, drawn), own=held.tree, own_text=held.text)
    lost = held.tree is None and held.text is None
    said = PartMessage(
        tuple(map(sentence, refusal.problems)),
        held.differences,
        found.step if stale else None,
        typed_in(sent) if lost or not seen.readable else (),
    )
    return _page(request, actor, seen, said, errors.STATUS[refusal.code])


def _find_shown_text(actor: Actor, name: str, step: int) -> str | None:
    """Return the text that a page showed; None: it is not kept any more."""
    try:
        return drafts.draft_shown(actor=actor, name=name, step=step)
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return None


def _read_editing(request: HttpRequest, actor: Actor, found: DraftView) -> Editing:
    asked = {key: (request.POST.get(key) or request.GET.get(key) or "")[:ASKED_MAX] for key in PART_PARAMETERS}
    seen = editing(found, installation_for(actor, found.name), request.POST.get("page", "")[:40], asked)
    tried = {
        key: request.POST[key] for key in request.POST if key in (OPEN, BUTTON) or key.startswith((SAMPLE, EXAMPLE))
    }
    seen = replace(seen, sent_cells={key: request.POST[key] for key in request.POST if key.startswith(ROW)})
    path = open_path(tried, asked[BUTTON], request.POST.get("do", ""))[:ASKED_MAX]
    if not (path and seen.readable):
        return seen
    return replace(seen, trial=box_of(actor, seen.tree, path, tried))


def _partly(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))


def _part(request: HttpRequest) -> str:
    asked = request.POST.get("part") or request.GET.get("part") or next(iter(PARTS))
    if asked not in PARTS:
        known = ", ".join(PARTS)
        raise Refused(f"the editor has no part {asked[:40]!r}; it has: {known}", code="not_found", field="part")
    return asked


def _page(
    request: HttpRequest, actor: Actor, seen: Editing, said: PartMessage | None = None, status: int = 200
) -> HttpResponse:
    part = PARTS[_part(request)]
    if not seen.readable:
        part = PARTS["yaml"]
    template = "drafts/editor.html" if _partly(request) else "drafts/page.html"
    around = part_context(actor, seen)
    if said is not None and said.over is not None:  # Both would draw the fields anew.
        around |= {"undoing": None, "redoing": None}
    return render(request, template, {**around, **part.build(seen), "part": part, "said": said}, status=status)


def part_context(actor: Actor, seen: Editing) -> dict[str, Any]:
    """Return the context that every part's page shares."""
    found = remarks(seen.checked)
    undoing, redoing = steps_around(seen.draft)
    counts = {part.name: 0 for part in PARTS.values()}
    for one in seen.checked.errors:
        counts[part_of(one.path).name] += 1
    return {
        "editing": seen,
        "draft": seen.draft,
        "parts": [(one, counts[one.name]) for one in PARTS.values()],
        "remarks": found,
        "tally": [(level, sum(one.finding.level == level for one in found)) for level in LEVELS],
        "undoing": undoing,
        "redoing": redoing,
        "saved_ms": max(0, time.time_ns() // 1_000_000 - int(seen.draft.changed_at.timestamp() * 1_000)),
        "others": list_editors(actor, seen.draft.name),
        "asked": last_request(actor, seen.draft),
    }
