"""What fabrics remember: a part of a fabric's page, and each key by itself, to be deleted by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.exporting import memories_response
from console.forms import ReasonForm, sentence
from console.views import errors
from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.core.spec_memories import KEY_CHARS, MemorySpec
from fabric.selectors.contents import may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, fabric_get
from fabric.selectors.memories import KEYS_SHOWN, Remembered, memories_of, memory_rows
from fabric.selectors.memory_history import Became, History, memory_history
from fabric.services.memories import may_change, memory_delete, memory_write
from fabric.services.reveals import memory_reveal

VERSION_MAX = 2**63 - 1
GLANCE_CHARS = 200
BECAME: Mapping[Became, tuple[str, str]] = {
    Became.STANDS: ("stands", "ok"),
    Became.REPLACED: ("replaced", "neutral"),
    Became.TAKEN_BACK: ("taken back", "warn"),
    Became.EXPIRED: ("expired", "neutral"),
    Became.DELETION: ("deleted", "danger"),
}
"""What is said of an entry, and in which tone; total by test."""


class ActForm(ReasonForm):
    """What somebody does to a key, and why."""

    status = 422
    """What the page is answered with where it was refused."""


class DeleteForm(ActForm):
    """Which version of a key somebody deletes, and why."""

    key = forms.CharField(max_length=KEY_CHARS)
    version = forms.IntegerField(min_value=1, max_value=VERSION_MAX)


class WriteForm(ActForm):
    """What somebody writes under a key, over which version, and why."""

    key = forms.CharField(max_length=KEY_CHARS)
    version = forms.IntegerField(min_value=0, max_value=VERSION_MAX)
    value = forms.CharField(strip=False, required=False)

    def clean_value(self) -> Any:
        """The JSON that was typed."""
        text: str = self.cleaned_data["value"]
        if not text.strip():
            raise forms.ValidationError("Give a value as JSON; a text needs its quotes.")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is no JSON ({error}); a text needs its quotes.") from None


def tab(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    """The part of a fabric's page: its memories as the published revision declares them, whichever version is looked at."""
    found = memories_of(actor, page.fabric.name)
    shown = [(one, [(entry, glance(entry)) for entry in one.entries]) for one in found]
    return {"memories": shown, "most": KEYS_SHOWN, "may": may_change(actor), "reads": may_read(actor, page.fabric.name)}


def glance(entry: Remembered) -> str:
    """A value on one line."""
    text = entry.value if isinstance(entry.value, str) else json.dumps(entry.value, ensure_ascii=False)
    return text if len(text) <= GLANCE_CHARS else f"{text[:GLANCE_CHARS]}…"


@require_http_methods(["GET", "HEAD", "POST"])
def memory(request: HttpRequest, name: str, memory: str) -> HttpResponse:
    """What stands under one key, in full, and what was ever written there; a POST deletes it, or writes. Without a key: all are a part of the fabric's page.

    422: a reason is missing, or the value does not fit; 409: it changed since the page was shown; 403: that is for operators.
    """
    actor, status = actor_of(request.user), 200
    deleting, writing = DeleteForm(), WriteForm()
    if request.method == "POST":
        act = "write" if request.POST.get("act") == "write" else "delete"
        form: ActForm = WriteForm(request.POST) if act == "write" else DeleteForm(request.POST)
        if done := _done(actor, name, memory, form, act):
            messages.success(request, done)
            return redirect(f"{reverse('fabric', args=[name])}?tab=memory")
        if isinstance(form, WriteForm):
            writing = form
        elif isinstance(form, DeleteForm):
            deleting = form
        status = form.status
    key = (request.POST if request.method == "POST" else request.GET).get("key", "")
    declared = memory_rows(actor, name, memory)[1]
    if not key and request.method != "POST":
        return redirect(f"{reverse('fabric', args=[name])}?tab=memory")
    found = _history(actor, name, memory, key, missing=writing.is_bound)
    return _page(request, name, declared, key, found, deleting, writing, status)


def _page(
    request: HttpRequest,
    name: str,
    declared: MemorySpec,
    key: str,
    found: History | None,
    deleting: DeleteForm,
    writing: WriteForm,
    status: int = 200,
) -> HttpResponse:
    actor = actor_of(request.user)
    shown = {
        "fabric": fabric_get(actor, name),
        "memory": declared,
        "may_reveal": actor.may(Right.REVEAL),
        "key": key,
        "found": found,
        "one": found and found.standing,
        "value": json.dumps(found.standing.value, ensure_ascii=False, indent=2) if found and found.standing else "",
        "entries": [(one, glance(one), BECAME[one.became]) for one in found.entries] if found else (),
        "may": may_change(actor),
        "form": deleting,
        "refused": next((one for one in (deleting, writing) if one.is_bound), None),
        "writing": writing,
        "version": found.standing.version if found and found.standing else 0,
    }
    return render(request, "fabrics/memory.html", shown, status=status)


def _done(actor: Actor, name: str, memory: str, form: ActForm, act: str) -> str:
    """Does what a form asks for; what to say of it. Empty: it was refused, and the form says why. Refused not_found."""
    if not form.is_valid():
        return ""
    given = form.cleaned_data
    try:
        if act == "write":
            memory_write(actor=actor, fabric=name, memory=memory, **given)
            return f"{given['key']} is written: the runs from now on read it."
        memory_delete(actor=actor, fabric=name, memory=memory, **given)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        form.add_error(refusal.field if refusal.field in ("reason", "value") else None, sentence(refusal.message))
        form.status = errors.STATUS[refusal.code]
        return ""
    return f"{given['key']} is deleted: no run reads it any more."


def _history(actor: Actor, name: str, memory: str, key: str, *, missing: bool) -> History | None:
    """What was written under a key. ``missing``: whether there may be nothing, as where somebody writes the first value."""
    try:
        return memory_history(actor, name, memory, key)
    except Refused as refusal:
        if missing and refusal.field == "key":
            return None
        raise


@require_http_methods(["POST"])
def reveal(request: HttpRequest, name: str, memory: str) -> HttpResponse:
    """The page of a key, one version of it with what is withheld, told to the audit stream. 403: that is for others; 409: nothing is withheld."""
    actor, key, version = actor_of(request.user), request.POST.get("key", ""), request.POST.get("version", "")
    declared = memory_rows(actor, name, memory)[1]
    number = int(version) if version.isascii() and version.isdecimal() and len(version) < 19 else 0
    found = memory_reveal(actor=actor, fabric=name, memory=memory, key=key, version=number)
    return _page(request, name, declared, key, found, DeleteForm(), WriteForm())


@require_http_methods(["POST"])
def export(request: HttpRequest, name: str, memory: str) -> FileResponse:
    """The memory's ledger as a file of lines of JSON."""
    return memories_response(actor_of(request.user), name, memory)
