"""The editor of a fabric: its parts, what is saved of them, undo and redo."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from console.access import actor_of
from console.configure.editing import Editing, editing
from console.configure.parts import PARTS, part_of, remarks
from console.configure.sent import ButtonProblem, changes_in
from console.configure.trial import BUTTON, EXAMPLE, OPEN, SAMPLE, TryBox, box_of, open_path
from console.configure.unsaved import (
    TEXT,
    drawn,
    fields_of,
    kept_in,
    kept_pairs,
    number_in,
    own_sides,
    parted,
    unsaved,
)
from console.forms import sentence
from console.views import errors
from fabric.core.actor import Actor
from fabric.core.three_way import Conflict
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

CHOICE = "c."
"""Before a path: which of two is to stand there."""
CHOOSE, LEAVE = "choose", "leave"
"""What becomes of what could not be saved: it is saved with the choices made, or left out."""
ASKED = ("cell", "simulate", "stage", "open", BUTTON)
"""What an address or a form may say of how a part is shown."""
ASKED_MAX = 120


def installation_for(actor: Actor, fabric: str = "") -> Installation:
    """What publication knows of this installation, for an actor's workspace, and for a fabric where its name is known."""
    return here.installation(providers(), people=people_of(actor.workspace_id, fabric), workspace_id=actor.workspace_id)


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
    actor, page = actor_of(request.user), request.POST.get("page", "")
    if request.POST.get("gone"):
        editor_gone(actor=actor, fabric=name, page=page)
        return HttpResponse(status=204)
    part = PARTS.get(request.POST.get("part", ""))
    others = editor_beat(actor=actor, fabric=name, part=part.label if part else "", page=page)
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
        act(actor=actor, name=seen.name, step=number_in(request.POST, "step"), page=request.POST.get("page", "")[:40])
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return _refused(request, actor, name, refusal)
    return _answer(request, actor, name, whole=True)


# -- saving ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """What could not be saved of what was sent, and why."""

    kept: list[QueryDict] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    def took(self, refusal: Refused, sent: QueryDict | None) -> None:
        """One that was refused; ``sent``: what the page is to keep of it."""
        self.refused.append(refusal)
        if isinstance(refusal, DraftConflict):
            self.conflicts += refusal.conflicts
        if sent is not None:
            self.kept.append(sent)


def _saved(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    sent, button, page = request.POST, request.POST.get("do", ""), request.POST.get("page", "")
    before = kept_in(sent)
    rest, kept = own_sides(sent, before, partial(_tree, actor, name)) if before else (sent.copy(), [])
    if button in (CHOOSE, LEAVE):
        rest["do"] = ""
    answer = (choices_in(sent), number_in(sent, "step")) if button == CHOOSE else None
    found = _Open()
    _try(found, actor, name, rest, page)
    for one in [] if button == LEAVE else kept:
        _try(found, actor, name, one, page, answer)
    if found.refused:
        return _asked(request, actor, name, found)
    return _answer(request, actor, name, whole=bool(button or before))


def _try(
    found: _Open, actor: Actor, name: str, sent: QueryDict, page: str, answer: tuple[Choices, int] | None = None
) -> None:
    """Saves what was sent. What others changed as well waits for an answer, everything else that was sent with it does not."""
    try:
        _save(actor, name, sent, page=page, answer=answer)
    except ButtonProblem as problem:
        found.took(Refused(str(problem), code="invalid", field="do"), None)
    except DraftConflict as conflict:
        tree = _tree(actor, name, number_in(sent, "step"))
        paths = changes_in(tree, sent).paths if TEXT not in sent else ()
        parts = parted(sent, paths, [one.path for one in conflict.conflicts], tree)
        if len(parts) == 1:
            found.took(conflict, unsaved(sent, paths))
            return
        for part in parts:
            _try(found, actor, name, part, page, answer)
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large", "unavailable"):
            raise
        found.took(refusal, unsaved(sent, fields_of(sent)))


def _tree(actor: Actor, name: str, step: int) -> Any:
    """What the draft said at a step; None: it is not kept any more, or was no YAML with fields in it."""
    try:
        found = read_yaml(drafts.draft_shown(actor=actor, name=name, step=step)).value
    except YamlProblem:
        return None
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        return None
    return found if isinstance(found, dict) else None


def _save(actor: Actor, name: str, sent: QueryDict, *, page: str, answer: tuple[Choices, int] | None = None) -> None:
    step, page = number_in(sent, "step"), page[:40]
    choices, answered = answer or (None, None)
    if TEXT in sent:
        text = str(sent[TEXT]).replace("\r\n", "\n")
        shown = drafts.draft_shown(actor=actor, name=name, step=step)
        # A browser takes one line end off the beginning and keeps none of its own: what was shown comes back as it was.
        if text != shown.replace("\r\n", "\n"):
            drafts.draft_replace(
                actor=actor, name=name, step=step, text=text, page=page, choices=choices, answered=answered
            )
        return
    try:
        shown = drafts.draft_shown(actor=actor, name=name, step=step)
        tree = read_yaml(shown).value
        # Of what is chosen while an answer is on its way the page shows another form than there is by then.
        step, known = drafts.draft_known(actor=actor, name=name, step=step, page=page)
        since = tree if known == shown else read_yaml(known).value
    except YamlProblem:
        message = "the draft's text is no YAML just now: mend it in the YAML part, or undo the last change"
        raise Refused(message, code="conflict", field="text") from None
    try:
        found = changes_in(tree, sent, sent.get("do", ""), since)
    except EditProblem as problem:
        raise Refused(str(problem), code="invalid", field="path") from None
    if found.edits:
        drafts.draft_change(
            actor=actor, name=name, step=step, edits=found.edits, what=found.what, page=page, place=found.place, choices=choices, answered=answered
        )  # fmt: skip


def choices_in(sent: QueryDict) -> Choices:
    """Which of two is to stand, by path, as a form says it."""
    return {key[len(CHOICE) :]: "theirs" if sent[key] == "theirs" else "mine" for key in sent if key.startswith(CHOICE)}


# -- answers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """What is said above the part: a refusal, or two that changed the same."""

    sentences: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    theirs: frozenset[str] = frozenset()
    """The paths of those where the other one is picked so far."""
    kept: tuple[tuple[tuple[str, str], ...], ...] = ()
    """What was sent and is not saved, names and texts of each: it is sent again with the choice, and with whatever is typed meanwhile."""

    @property
    def kept_json(self) -> tuple[str, ...]:
        """The same, each as one field of a form."""
        return tuple(json.dumps(one, ensure_ascii=False) for one in self.kept)

    @property
    def typed(self) -> tuple[tuple[str, str], ...]:
        """Of it what somebody wrote, for who would rather copy it."""
        pairs = (pair for one in self.kept for pair in one)
        shown = ((key.removeprefix("f."), text) for key, text in pairs if key == TEXT or key.startswith("f."))
        return () if self.conflicts else tuple((key, text) for key, text in shown if text)


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


def _refused(request: HttpRequest, actor: Actor, name: str, refusal: Refused) -> HttpResponse:
    found = _Open()
    found.took(refusal, None)
    return _asked(request, actor, name, found)


def _asked(request: HttpRequest, actor: Actor, name: str, found: _Open) -> HttpResponse:
    """The page again, with what could not be saved in its fields and the question about it above them."""
    sentences = tuple(sentence(one) for refusal in found.refused for one in refusal.problems)
    theirs = frozenset(path for path, side in choices_in(request.POST).items() if side == "theirs")
    kept = tuple(kept_pairs(one) for one in found.kept)
    said = Said(tuple(dict.fromkeys(sentences)), tuple(found.conflicts), theirs, kept)
    status = 409 if found.conflicts else errors.STATUS[found.refused[0].code]
    seen = _editing(request, actor, draft_get(actor, name))
    texts = [str(one[TEXT]).replace("\r\n", "\n") for one in found.kept if TEXT in one]
    own = drawn(seen.saved, found.kept, partial(_tree, actor, name)) if seen.readable else None
    return _page(request, actor, replace(seen, own=own, own_text=texts[-1] if texts else None), said, status)


def _editing(request: HttpRequest, actor: Actor, found: DraftView) -> Editing:
    asked = {key: (request.POST.get(key) or request.GET.get(key) or "")[:ASKED_MAX] for key in ASKED}
    seen = editing(found, installation_for(actor, found.name), request.POST.get("page", "")[:40], asked)
    tried = {
        key: request.POST[key] for key in request.POST if key in (OPEN, BUTTON) or key.startswith((SAMPLE, EXAMPLE))
    }
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
