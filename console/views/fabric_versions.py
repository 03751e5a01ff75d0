"""Versions of a fabric: any two against each other, an older one published again, and changes that wait for a second person."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import actor_of
from console.configure.unsaved import NUMBER_MAX
from console.forms import sentence
from console.views import errors
from console.views.fabric_change import change_of
from console.views.fabric_edit import installation_for
from console.views.notification_rows import Row
from console.views.review_diff import text_diff
from fabric.core.actor import Actor
from fabric.model_ports import provider_names
from fabric.selectors.change_requests import ChangeView, change_request_get
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import revision_get
from fabric.selectors.notifications import notifications_of_change
from fabric.selectors.revision_diff import CHANGES_MAX, spec_changes
from fabric.selectors.revisions import fabric_revisions
from fabric.services.change_requests import (
    MESSAGE_CHARS_MAX,
    change_approve,
    change_reject,
    change_request_open,
    change_withdraw,
    why_not_agree,
)
from fabric.services.checking import checked
from fabric.services.fabric_text import exported
from fabric.services.fabrics import fabric_revert
from fabric.services.notification_sending import may_resend

DAMAGED = "The form was damaged on its way, and nothing was changed: look at it again."
DIGITS = 9


class RevertForm(forms.Form):
    """Which version is to be the published one again. ``expect``: the one that the page showed as published."""

    number = forms.IntegerField(min_value=1, max_value=NUMBER_MAX)
    expect = forms.IntegerField(min_value=0, max_value=NUMBER_MAX)
    act = forms.ChoiceField(choices=[("revert", ""), ("request", "")])


class DecideForm(forms.Form):
    """What somebody makes of a change request. ``digest``: of the content that the page showed."""

    act = forms.ChoiceField(choices=[("approve", ""), ("reject", ""), ("withdraw", "")])
    digest = forms.CharField(required=False, max_length=128)
    reason = forms.CharField(required=False, max_length=MESSAGE_CHARS_MAX)


@require_POST
def revert(request: HttpRequest, name: str) -> HttpResponse:
    """Publishes an older version again, or asks a second person to. 409: another was published meanwhile; 422: today's rules refuse it."""
    actor, form = actor_of(request.user), RevertForm(request.POST)
    if not form.is_valid():
        shown = {"name": revision_get(actor, name).fabric.name, "said": [DAMAGED], "back": _versions(name)}
        return render(request, "fabrics/change/not_reverted.html", shown, status=422)
    number, expect = form.cleaned_data["number"], form.cleaned_data["expect"]
    try:
        if form.cleaned_data["act"] == "request":
            page = revision_get(actor, name, number)
            asked = change_request_open(
                actor=actor,
                source=exported(page),
                origin=f"{name}@{number}",
                message=f"r{number} again",
                providers=provider_names(),
                expect=expect,
            )
            messages.success(request, "Somebody else has to agree now. Nothing is published until then.")
            return redirect("fabric-request", name=name, change_id=asked.id)
        done = fabric_revert(actor=actor, name=name, number=number, providers=provider_names(), expect=expect)
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        said = [sentence(one) for one in refusal.problems]
        more = {"number": number, "alone": refusal.field == "request", "expect": expect}
        shown = {"name": name, "said": said, "back": _versions(name), **more}
        return render(request, "fabrics/change/not_reverted.html", shown, status=errors.STATUS[refusal.code])
    messages.success(request, f"r{done.number} of {name} is published again: new runs pin it.")
    return redirect(_versions(name))


def _versions(name: str) -> str:
    return f"{reverse('fabric', args=[name])}?tab=versions"


@require_safe
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """Two versions against each other, by path and as text: ``?before=3&after=5``; without them the published one against the one before it."""
    actor = actor_of(request.user)
    view, revisions = fabric_revisions(actor, name)
    after = _number(request.GET.get("after", ""), view.number)
    before = _number(request.GET.get("before", ""), max(1, after - 1))
    sides = [revision_get(actor, name, number) for number in (before, after)]
    changes = spec_changes(sides[0].spec, sides[1].spec)
    shown = {
        "fabric": view,
        "revisions": revisions,
        "before": sides[0],
        "after": sides[1],
        "changes": changes[:CHANGES_MAX],
        "more": max(0, len(changes) - CHANGES_MAX),
        "diff": text_diff(exported(sides[0]), exported(sides[1])),
    }
    return render(request, "fabrics/change/compare.html", shown)


def _number(text: str, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS):
        message = f"{text[:40]!r} is no version: give its number, such as 3"
        raise Refused(message, code="not_found", field="number")
    return int(text)


# -- a second person ---------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, name: str, change_id: str) -> HttpResponse:
    """A change that waits for a second person, in full; POST agrees to it, rejects it or withdraws it. 403: not by its author; 409: it waits no more."""
    actor = actor_of(request.user)
    if request.method != "POST":
        return change_page(request, actor, _asked(actor, name, change_id))
    form = DecideForm(request.POST)
    if not form.is_valid():
        return change_page(request, actor, _asked(actor, name, change_id), (DAMAGED,), 422)
    found, given = _asked(actor, name, change_id), form.cleaned_data
    try:
        if given["act"] == "approve":
            # The page always says what it showed; without that nobody knows what was agreed to.
            if not given["digest"]:
                raise Refused(DAMAGED, code="invalid", field="digest")
            done = change_approve(actor=actor, request_id=found.id, digest=given["digest"], providers=provider_names())
            messages.success(request, f"r{done.number} of {name} is published, as {found.author} asked for.")
            return redirect("fabric", name=name)
        if given["act"] == "reject":
            change_reject(actor=actor, request_id=found.id, reason=given["reason"])
            messages.success(request, f"Rejected: {found.author} reads why. Nothing was published.")
        else:
            change_withdraw(actor=actor, request_id=found.id)
            messages.success(request, "Withdrawn: nobody is asked any more. Nothing was published.")
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        said = tuple(sentence(one) for one in refusal.problems)
        return change_page(request, actor, _asked(actor, name, change_id), said, errors.STATUS[refusal.code])
    return redirect("fabric-request", name=name, change_id=found.id)


def _asked(actor: Actor, name: str, request_id: str) -> ChangeView:
    found = change_request_get(actor, request_id)
    if found.name != name:
        message = f"the change request {request_id[:80]!r} is about the fabric {found.name!r}"
        raise Refused(message, code="not_found", field="request")
    return found


def change_page(
    request: HttpRequest, actor: Actor, found: ChangeView, said: tuple[str, ...] = (), status: int = 200
) -> HttpResponse:
    """The page of a change. ``said``: why what was asked on it was not done."""
    seen = checked(found.text, installation_for(actor, found.name), name=found.name)
    spec = seen.spec
    shown = {
        "one": found,
        "checked": seen,
        "change": change_of(actor, found.name, spec, found.text, sound=not seen.errors) if spec else None,
        "mine": found.author == actor.name,
        "why_not": why_not_agree(actor, found),
        "told": [Row(one) for one in notifications_of_change(actor, found.id)],
        "may_resend": may_resend(actor),
        "said": said,
        "reason": request.POST.get("reason", "")[:MESSAGE_CHARS_MAX],
    }
    return render(request, "fabrics/change/request.html", shown, status=status)
