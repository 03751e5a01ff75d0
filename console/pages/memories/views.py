"""Shows the memories of a fabric: a tab of its page, and each key, which can be deleted by hand."""

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

from console.forms.common import ReasonForm
from console.site.access.actors import find_actor
from console.site.downloads import memories_response
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.memories import KEY_CHARS, MemorySpec
from fabric.selectors.contents import may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import RevisionPage, fabric_get
from fabric.selectors.memories.lookup import (
    KEYS_SHOWN,
    EntryFate,
    KeyHistory,
    PresentEntry,
    list_fabric_memories,
    memory_history,
    memory_rows,
)
from fabric.services.memories.changes import may_change, memory_delete, memory_write
from fabric.services.reviews.reveals import memory_reveal

VERSION_MAX = 2**63 - 1
GLANCE_CHARS = 200
SAID_BESIDE = frozenset({"reason", "value"})
"""Fields that show their errors; the others are hidden, or filled in by the page."""
BECAME: Mapping[EntryFate, tuple[str, str]] = {
    EntryFate.STANDS: ("current", "ok"),
    EntryFate.REPLACED: ("replaced", "neutral"),
    EntryFate.TAKEN_BACK: ("taken back", "warn"),
    EntryFate.EXPIRED: ("expired", "neutral"),
    EntryFate.DELETION: ("deleted", "danger"),
}
"""Word and tone of each state of an entry; total by test."""


class ActForm(ReasonForm):
    """Form of an act on a key, with its reason."""

    status = 422
    """HTTP status of the page after a refusal."""

    @property
    def banner(self) -> str:
        """Return the error that no visible field shows; empty: there is none."""
        for error in self.non_field_errors():
            return str(error)
        unsaid = self.errors and not self.errors.keys() & SAID_BESIDE
        return "The form was incomplete. Nothing was changed: load the page again." if unsaid else ""


class DeleteForm(ActForm):
    """Form that deletes a version of a key, with a reason."""

    key = forms.CharField(max_length=KEY_CHARS)
    version = forms.IntegerField(min_value=1, max_value=VERSION_MAX)


class WriteForm(ActForm):
    """Form that writes a key over a version, with a reason."""

    key = forms.CharField(max_length=KEY_CHARS)
    version = forms.IntegerField(min_value=0, max_value=VERSION_MAX)
    value = forms.CharField(strip=False, required=False)

    def clean_value(self) -> Any:
        """Return the JSON that was typed."""
        text: str = self.cleaned_data["value"]
        if not text.strip():
            raise forms.ValidationError("Give a value as JSON; a text needs its quotes.")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is no JSON ({error}); a text needs its quotes.") from None


def tab(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    """Return the tab of a fabric's page: its memories as the published revision declares them, for any viewed
    revision.
    """
    found = list_fabric_memories(actor, page.fabric.name)
    shown = [(one, [(entry, glance(entry)) for entry in one.entries]) for one in found]
    return {"memories": shown, "most": KEYS_SHOWN, "may": may_change(actor), "reads": may_read(actor, page.fabric.name)}


def glance(entry: PresentEntry) -> str:
    """Return a value on one line."""
    text = entry.value if isinstance(entry.value, str) else json.dumps(entry.value, ensure_ascii=False)
    return text if len(text) <= GLANCE_CHARS else f"{text[:GLANCE_CHARS]}…"


@require_http_methods(["GET", "HEAD", "POST"])
def memory(request: HttpRequest, name: str, memory: str) -> HttpResponse:
    """Show one key in full and its history; POST deletes or writes it. Without a key: redirect to the fabric's page.

    403: only for operators. 409: it changed since the page was shown. 422: the reason is missing, or the value is
    invalid.
    """
    actor, status = find_actor(request.user), 200
    deleting, writing = DeleteForm(), WriteForm()
    if request.method == "POST":
        act = "write" if request.POST.get("act") == "write" else "delete"
        form: ActForm = WriteForm(request.POST) if act == "write" else DeleteForm(request.POST)
        if done := _do_act(actor, name, memory, form, act):
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
    found: KeyHistory | None,
    deleting: DeleteForm,
    writing: WriteForm,
    status: int = 200,
) -> HttpResponse:
    actor = find_actor(request.user)
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
        "banner": next((one.banner for one in (deleting, writing) if one.is_bound), ""),
        "writing": writing,
        "version": found.standing.version if found and found.standing else 0,
    }
    return render(request, "memories/page.html", shown, status=status)


def _do_act(actor: Actor, name: str, memory: str, form: ActForm, act: str) -> str:
    """Carry out the form's act, and return a message; empty after a refusal, which the form shows.

    Raises Refused not_found.
    """
    if not form.is_valid():
        return ""
    given = form.cleaned_data
    try:
        if act == "write":
            memory_write(actor=actor, fabric=name, memory=memory, **given)
            return f"{given['key']} is written. New runs read it."
        memory_delete(actor=actor, fabric=name, memory=memory, **given)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        beside = refusal.field in form.fields.keys() & SAID_BESIDE
        form.add_error(refusal.field if beside else None, sentence(refusal.message))
        form.status = errors.STATUS[refusal.code]
        return ""
    return f"{given['key']} is deleted. No run reads it any more."


def _history(actor: Actor, name: str, memory: str, key: str, *, missing: bool) -> KeyHistory | None:
    """Return the history of a key. ``missing``: allow a key without history, for a first value."""
    try:
        return memory_history(actor, name, memory, key)
    except Refused as refusal:
        if missing and refusal.field == "key":
            return None
        raise


@require_http_methods(["POST"])
def reveal(request: HttpRequest, name: str, memory: str) -> HttpResponse:
    """Show the withheld content of one version of a key, and record it in the audit stream.

    403: lacking right. 409: nothing is withheld.
    """
    actor, key, version = find_actor(request.user), request.POST.get("key", ""), request.POST.get("version", "")
    declared = memory_rows(actor, name, memory)[1]
    number = int(version) if version.isascii() and version.isdecimal() and len(version) < 19 else 0
    found = memory_reveal(actor=actor, fabric=name, memory=memory, key=key, version=number)
    return _page(request, name, declared, key, found, DeleteForm(), WriteForm())


@require_http_methods(["POST"])
def export(request: HttpRequest, name: str, memory: str) -> FileResponse:
    """Return the memory's ledger as a file of lines of JSON."""
    return memories_response(find_actor(request.user), name, memory)
