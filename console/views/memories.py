"""What fabrics remember: a part of a fabric's page, and each key by itself, to be deleted by hand."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from console.access import actor_of
from console.forms import ReasonForm, sentence
from console.views import errors
from fabric.core.actor import Actor
from fabric.core.spec_memories import KEY_CHARS
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import RevisionPage, fabric_get
from fabric.selectors.memories import KEYS_SHOWN, Remembered, memories_of, memory_find, memory_rows
from fabric.services.memories import may_delete, memory_delete

VERSION_MAX = 2**63 - 1
GLANCE_CHARS = 200


class DeleteForm(ReasonForm):
    """Which version of a key somebody deletes, and why."""

    key = forms.CharField(max_length=KEY_CHARS)
    version = forms.IntegerField(min_value=1, max_value=VERSION_MAX)


def tab(actor: Actor, page: RevisionPage) -> dict[str, Any]:
    """The part of a fabric's page: its memories as the published revision declares them, whichever version is looked at."""
    found = memories_of(actor, page.fabric.name)
    shown = [(one, [(entry, glance(entry)) for entry in one.entries]) for one in found]
    return {"memories": shown, "most": KEYS_SHOWN}


def glance(entry: Remembered) -> str:
    """A value on one line."""
    text = entry.value if isinstance(entry.value, str) else json.dumps(entry.value, ensure_ascii=False)
    return text if len(text) <= GLANCE_CHARS else f"{text[:GLANCE_CHARS]}…"


@require_http_methods(["GET", "HEAD", "POST"])
def memory(request: HttpRequest, name: str, memory: str) -> HttpResponse:
    """What stands under one key, in full; a POST deletes it. Without a key: all of them are a part of the fabric's page.

    422: a reason is missing; 409: it changed since the page was shown; 403: that is for operators.
    """
    actor, status = actor_of(request.user), 200
    form = DeleteForm()
    key = request.GET.get("key", "")
    if request.method == "POST":
        form, status = DeleteForm(request.POST), 422
        key = request.POST.get("key", key)
        if form.is_valid():
            given = form.cleaned_data
            try:
                memory_delete(actor=actor, fabric=name, memory=memory, **given)
            except Refused as refusal:
                if refusal.code == "not_found":
                    raise
                form.add_error("reason" if refusal.field == "reason" else None, sentence(refusal.message))
                status = errors.STATUS[refusal.code]
            else:
                messages.success(request, f"{given['key']} is deleted: no run reads it any more.")
                return redirect(f"{reverse('fabric', args=[name])}?tab=memory")
    if not key and request.method != "POST":
        memory_rows(actor, name, memory)
        return redirect(f"{reverse('fabric', args=[name])}?tab=memory")
    entry = memory_find(actor, name, memory, key)
    shown = {
        "fabric": fabric_get(actor, name),
        "one": entry,
        "value": json.dumps(entry.value, ensure_ascii=False, indent=2),
        "may": may_delete(actor),
        "form": form,
        "wrong": form.is_bound and not (form["reason"].errors or form.non_field_errors()),
    }
    return render(request, "fabrics/memory.html", shown, status=status)
