"""The editor of a fabric: its parts, what is saved of them, undo and redo."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.access import actor_of
from console.configure.editing import Editing, editing
from console.configure.fields import FIELD, SHOWN
from console.configure.parts import PARTS, part_of, remarks
from console.configure.sent import ButtonProblem, changes_in
from console.configure.trial import BUTTON, EXAMPLE, OPEN, SAMPLE, TryBox, box_of, open_path
from console.forms import sentence
from console.views import errors
from fabric.core.actor import Actor
from fabric.management.base import providers
from fabric.selectors.change_requests import last_request
from fabric.selectors.drafts import DraftView, draft_get, editors_of, steps_around
from fabric.selectors.errors import Refused
from fabric.services import drafts, here
from fabric.services.checking import LEVELS
from fabric.services.draft_merging import Choices, DraftConflict
from fabric.services.editors import editor_beat, editor_gone
from fabric.services.publication import Installation
from fabric.services.workspaces import people_of
from fabric.services.yaml_edit import EditProblem
from fabric.services.yaml_tree import YamlProblem, read_yaml

TEXT = "text"
"""The field of the whole text, in the part that shows it."""
CHOICE = "c."
"""Before a path: which of two is to stand there."""
CHOOSE, LEAVE = "choose", "leave"
"""What becomes of what could not be saved: it is saved with the choices made, or left out."""
KEPT = "kept"
"""The field of what could not be saved before."""
NUMBER_MAX = 2**31 - 1
ASKED = ("cell", "simulate", "open", BUTTON)
"""What an address or a form may say of how a part is shown."""
ASKED_MAX = 120


def installation_for(actor: Actor) -> Installation:
    """What publication knows of this installation, for an actor's workspace."""
    return here.installation(providers(), people=people_of(actor.workspace_id))


@require_http_methods(["GET", "HEAD", "POST"])
def draft(request: HttpRequest, name: str) -> HttpResponse:
    """One's own draft of a fabric, in its parts; POST saves what was changed. 409: somebody changed the same meanwhile, with both; nothing is lost."""
    actor = actor_of(request.user)
    if request.method == "POST":
        return _saved(request, actor, name)
    found = draft_get(actor, name)
    return _page(request, actor, _editing(request, actor, found))


@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """A draft of a published fabric, or the one that there is."""
    found = drafts.draft_of_fabric(actor=actor_of(request.user), name=name)
    return redirect("fabric-draft", name=found.name)


@require_POST
def beat(request: HttpRequest, name: str) -> HttpResponse:
    """The sign of life of an open editor: who else has it open. ``gone``: it is being closed."""
    actor = actor_of(request.user)
    if request.POST.get("gone"):
        editor_gone(actor=actor, fabric=name)
        return HttpResponse(status=204)
    part = PARTS.get(request.POST.get("part", ""))
    others = editor_beat(actor=actor, fabric=name, part=part.label if part else "")
    return render(request, "fabrics/edit/here.html", {"others": others})


@require_POST
def undo(request: HttpRequest, name: str) -> HttpResponse:
    """Goes back before the last change."""
    return _stepped(request, name, back=True)


@require_POST
def redo(request: HttpRequest, name: str) -> HttpResponse:
    """Brings back what was undone."""
    return _stepped(request, name, back=False)


@require_POST
def discard(request: HttpRequest, name: str) -> HttpResponse:
    """Throws the draft away."""
    actor = actor_of(request.user)
    seen = drafts.draft_own(actor=actor, name=name)
    drafts.draft_discard(actor=actor, name=seen.name, step=number_in(request.POST, "step"))
    messages.success(request, f"Your draft of {name} was discarded. What is published is as it was.")
    return redirect("fabrics")


def _stepped(request: HttpRequest, name: str, *, back: bool) -> HttpResponse:
    actor, act = actor_of(request.user), drafts.draft_undo if back else drafts.draft_redo
    seen = drafts.draft_own(actor=actor, name=name)
    try:
        act(actor=actor, name=seen.name, step=number_in(request.POST, "step"))
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return _refused(request, actor, name, refusal, None)
    return _answer(request, actor, name, whole=True)


# -- saving ------------------------------------------------------------------------------------------------------------


def _saved(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    sent: QueryDict = request.POST
    button, page, kept = sent.get("do", ""), sent.get("page", ""), kept_in(sent)
    if button == LEAVE:
        return _answer(request, actor, name, whole=True)
    if kept is not None:
        sent = kept if button == CHOOSE else unsettled_left(sent, kept)
    pending = sent
    try:
        _save(actor, name, pending, page=page, choices=choices_in(request.POST))
        if kept is not None and button != CHOOSE:  # What could not be saved before is offered again.
            pending = kept
            _save(actor, name, kept, page=page)
    except ButtonProblem as problem:
        return _refused(request, actor, name, Refused(str(problem), code="invalid", field="do"), None)
    except DraftConflict as conflict:
        return _asked(request, actor, name, conflict, pending)
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large", "unavailable"):
            raise
        return _refused(request, actor, name, refusal, pending)
    return _answer(request, actor, name, whole=bool(button) or kept is not None)


def _save(actor: Actor, name: str, sent: QueryDict, *, page: str, choices: Choices | None = None) -> None:
    step, page = number_in(sent, "step"), page[:40]
    if TEXT in sent:
        text = str(sent[TEXT]).replace("\r\n", "\n")
        shown = drafts.draft_shown(actor=actor, name=name, step=step)
        # A browser takes one line end off the beginning and keeps none of its own: what was shown comes back as it was.
        if text != shown.replace("\r\n", "\n"):
            drafts.draft_replace(actor=actor, name=name, step=step, text=text, page=page, choices=choices)
        return
    try:
        tree = read_yaml(drafts.draft_shown(actor=actor, name=name, step=step)).value
    except YamlProblem:
        message = "the draft's text is no YAML just now: mend it in the YAML part, or undo the last change"
        raise Refused(message, code="conflict", field="text") from None
    try:
        found = changes_in(tree, sent, sent.get("do", ""))
    except EditProblem as problem:
        raise Refused(str(problem), code="invalid", field="path") from None
    if found.edits:
        drafts.draft_change(
            actor=actor, name=name, step=step, edits=found.edits, what=found.what, page=page, place=found.place, choices=choices
        )  # fmt: skip


def choices_in(sent: QueryDict) -> Choices:
    """Which of two is to stand, by path, as a form says it."""
    return {key[len(CHOICE) :]: "theirs" if sent[key] == "theirs" else "mine" for key in sent if key.startswith(CHOICE)}


def number_in(sent: QueryDict, key: str) -> int:
    """A number that a form hands on as it was given. Raises Refused invalid."""
    text = sent.get(key, "")
    if not (len(text) < 12 and text.isascii() and text.isdecimal() and int(text) <= NUMBER_MAX):
        message = "the form was damaged on its way: load the page again, and make the change once more"
        raise Refused(message, code="invalid", field=key)
    return int(text)


def unsettled_left(sent: QueryDict, kept: QueryDict) -> QueryDict:
    """What was sent without what the page had kept anyway: a field in which it still stands has not been settled by who typed in another one."""
    found = sent.copy()
    if TEXT in kept and found.get(TEXT) == kept[TEXT]:
        del found[TEXT]
    for path in {key[2:] for key in kept if key.startswith((FIELD, SHOWN))}:
        if found.getlist(FIELD + path) == kept.getlist(FIELD + path):
            for key in (FIELD + path, SHOWN + path):
                found.pop(key, None)
    return found


def kept_in(sent: QueryDict) -> QueryDict | None:
    """What was sent before and could not be saved, as the page hands it on; None: nothing. Raises Refused invalid."""
    if KEPT not in sent:
        return None
    try:
        pairs = json.loads(str(sent[KEPT]))
        found = QueryDict(mutable=True)
        for key, value in pairs:
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError
            found.appendlist(key, value)
    except (ValueError, TypeError, RecursionError):
        message = "the form was damaged on its way: load the page again, and make the change once more"
        raise Refused(message, code="invalid", field=KEPT) from None
    return found


# -- answers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """What is said above the part: a refusal, or two that changed the same."""

    sentences: tuple[str, ...] = ()
    conflict: DraftConflict | None = None
    kept: tuple[tuple[str, str], ...] = ()
    """What was sent and is not saved, names and texts: it is sent again with the choice, and with whatever is typed meanwhile."""

    @property
    def kept_json(self) -> str:
        """The same as one field of a form."""
        return json.dumps(self.kept, ensure_ascii=False)

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Of it what somebody wrote, for who would rather copy it."""
        shown = ((key.removeprefix("f."), text) for key, text in self.kept if key == TEXT or key.startswith("f."))
        return () if self.conflict else tuple((key, text) for key, text in shown if text)


def _answer(request: HttpRequest, actor: Actor, name: str, *, whole: bool) -> HttpResponse:
    """After a change: the page's parts for a script, else the page again. ``whole``: fields may be others than before, so they are drawn anew."""
    found = draft_get(actor, name)
    seen = _editing(request, actor, found)
    if not _partly(request) and seen.trial is None:
        asked = {"part": _part(request), **{key: request.POST[key] for key in ASKED if request.POST.get(key)}}
        return HttpResponseRedirect(f"{reverse('fabric-draft', args=[name])}?{urlencode(asked)}")
    said, status = _untried(seen.trial) if request.POST.get(BUTTON) else (None, 200)
    response = _page(request, actor, seen, said, status)
    if whole:
        response.headers["HX-Reswap"] = "innerHTML"
    return response


def _untried(box: TryBox | None) -> tuple[Said | None, int]:
    """What is said of a check that was to be tried and could not be, above the part where no box has room for it; and the status."""
    if box is None or box.refused is None:
        return None, 200
    above = not box.boxes or box.refused.code == "not_found"
    return Said((sentence(box.problem),)) if above else None, errors.STATUS[box.refused.code]


def _refused(
    request: HttpRequest, actor: Actor, name: str, refusal: Refused, pending: QueryDict | None
) -> HttpResponse:
    kept = _unsaved(pending) if pending is not None else ()
    said = Said(tuple(sentence(one) for one in refusal.problems), kept=kept)
    return _again(request, actor, name, said, errors.STATUS[refusal.code])


def _asked(request: HttpRequest, actor: Actor, name: str, conflict: DraftConflict, pending: QueryDict) -> HttpResponse:
    return _again(request, actor, name, Said((sentence(conflict.message),), conflict, _unsaved(pending)), 409)


def _again(request: HttpRequest, actor: Actor, name: str, said: Said, status: int) -> HttpResponse:
    found = draft_get(actor, name)
    seen = _editing(request, actor, found)
    return _page(request, actor, seen, said, status)


def _editing(request: HttpRequest, actor: Actor, found: DraftView) -> Editing:
    asked = {key: (request.POST.get(key) or request.GET.get(key) or "")[:ASKED_MAX] for key in ASKED}
    seen = editing(found, installation_for(actor), request.POST.get("page", "")[:40], asked)
    tried = {
        key: request.POST[key] for key in request.POST if key in (OPEN, BUTTON) or key.startswith((SAMPLE, EXAMPLE))
    }
    path = open_path(tried, asked[BUTTON], request.POST.get("do", ""))[:ASKED_MAX]
    if not (path and seen.readable):
        return seen
    return replace(seen, trial=box_of(actor, seen.tree, path, tried))


def _unsaved(sent: QueryDict) -> tuple[tuple[str, str], ...]:
    """What was sent of the draft: what a choice is sent again with."""
    kept = [key for key in sent if key in ("step", "do", TEXT) or key.startswith((FIELD, SHOWN))]
    return tuple((key, one) for key in kept for one in sent.getlist(key))


def _partly(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))


def _part(request: HttpRequest) -> str:
    asked = request.POST.get("part") or request.GET.get("part") or next(iter(PARTS))
    if asked not in PARTS:
        known = ", ".join(PARTS)
        raise Refused(f"the editor has no part {asked[:40]!r}; it has: {known}", code="not_found", field="part")
    return asked


def _page(
    request: HttpRequest, actor: Actor, seen: Editing, said: Said | None = None, status: int = 200
) -> HttpResponse:
    part = PARTS[_part(request)]
    if not seen.readable:
        part = PARTS["yaml"]
    template = "fabrics/edit/editor.html" if _partly(request) else "fabrics/edit/page.html"
    return render(
        request, template, {**shown(actor, seen), **part.build(seen), "part": part, "said": said}, status=status
    )


def shown(actor: Actor, seen: Editing) -> dict[str, Any]:
    """What every part's page has around it."""
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
        "others": editors_of(actor, seen.draft.name),
        "asked": last_request(actor, seen.draft),
    }
