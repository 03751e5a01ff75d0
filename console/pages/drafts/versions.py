"""Compares revisions of a fabric, publishes an older one again, and shows changes that wait for a second person."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.editor.unsaved_changes import NUMBER_MAX
from console.forms.values.diff import text_diff
from console.pages.drafts.change import build_change
from console.pages.drafts.first_version import build_first_version
from console.pages.drafts.views import installation_for
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.notifications import NotificationRow
from fabric.composition.models import provider_names
from fabric.core.people.actor import Actor
from fabric.selectors.drafts.change_requests import ChangeView, change_request_get, why_not_agree
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.differences import CHANGES_MAX, spec_changes
from fabric.selectors.fabrics.lookup import fabric_revisions, revision_get
from fabric.selectors.notifications import notifications_of_change
from fabric.services.drafts.change_requests import (
    change_approve,
    change_reject,
    change_request_open,
    change_withdraw,
)
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import MESSAGE_CHARS_MAX, fabric_revert
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.notifications.delivery import may_resend

DAMAGED = "The form was damaged on its way, and nothing was changed: look at it again."
DIGITS = 9


class RevertForm(forms.Form):
    """Form that makes an earlier revision the published one. ``expect``: the published revision that the page
    showed.
    """

    number = forms.IntegerField(min_value=1, max_value=NUMBER_MAX)
    expect = forms.IntegerField(min_value=0, max_value=NUMBER_MAX)
    act = forms.ChoiceField(choices=[("revert", ""), ("request", "")])


class DecideForm(forms.Form):
    """Form that decides about a change request. ``digest``: of the content that the page showed."""

    act = forms.ChoiceField(choices=[("approve", ""), ("reject", ""), ("withdraw", "")])
    digest = forms.CharField(required=False, max_length=128)
    reason = forms.CharField(required=False, max_length=MESSAGE_CHARS_MAX)


@require_POST
def revert(request: HttpRequest, name: str) -> HttpResponse:
    """Publish an older revision again, or ask a second person to. 409: another was published. 422: today's rules
    refuse it.
    """
    actor, form = find_actor(request.user), RevertForm(request.POST)
    if not form.is_valid():
        shown = {"name": revision_get(actor, name).fabric.name, "said": [DAMAGED], "back": _versions(name)}
        return render(request, "drafts/not_reverted.html", shown, status=422)
    number, expect = form.cleaned_data["number"], form.cleaned_data["expect"]
    try:
        if form.cleaned_data["act"] == "request":
            page = revision_get(actor, name, number)
            asked = change_request_open(
                actor=actor,
                source=export_revision(page),
                origin=f"{name}@{number}",
                message=f"r{number} again",
                providers=provider_names(),
                expect=expect,
            )
            messages.success(request, "A second person must approve. Nothing is published until then.")
            return redirect("fabric-request", name=name, change_id=asked.id)
        done = fabric_revert(actor=actor, name=name, number=number, providers=provider_names(), expect=expect)
    except Refused as refusal:
        if refusal.code not in ("conflict", "invalid", "too_large"):
            raise
        said = [sentence(one) for one in refusal.problems]
        more = {"number": number, "alone": refusal.field == "request", "expect": expect}
        shown = {"name": name, "said": said, "back": _versions(name), **more}
        return render(request, "drafts/not_reverted.html", shown, status=errors.STATUS[refusal.code])
    messages.success(request, f"r{done.number} of {name} is published again: new runs use it.")
    return redirect(_versions(name))


def _versions(name: str) -> str:
    return f"{reverse('fabric', args=[name])}?tab=versions"


@require_safe
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """Compare two revisions by path and as text: ``?before=3&after=5``. Default: the published one and its
    predecessor.
    """
    actor = find_actor(request.user)
    view, revisions = fabric_revisions(actor, name)
    after = _number(request.GET.get("after", ""), view.number)
    before = _number(request.GET.get("before", ""), max(1, after - 1))
    sides = [revision_get(actor, name, number) for number in (before, after)]
    changes = spec_changes(sides[0].spec, sides[1].spec)
    shown = {
        "fabric": view,
        "revisions": revisions,
        "further": [one.number for one in sides if one.number not in {each.number for each in revisions}],
        "sides": sides,
        "before": sides[0],
        "after": sides[1],
        "changes": changes[:CHANGES_MAX],
        "more": max(0, len(changes) - CHANGES_MAX),
        "diff": text_diff(export_revision(sides[0]), export_revision(sides[1])),
    }
    return render(request, "drafts/compare.html", shown)


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
    """Show a change that waits for a second person; POST agrees to it, rejects it or withdraws it.

    403: not by its author. 409: it waits no more.
    """
    actor = find_actor(request.user)
    if request.method != "POST":
        return change_page(request, actor, _find_change(actor, name, change_id))
    form = DecideForm(request.POST)
    if not form.is_valid():
        return change_page(request, actor, _find_change(actor, name, change_id), (DAMAGED,), 422)
    found, given = _find_change(actor, name, change_id), form.cleaned_data
    try:
        if given["act"] == "approve":
            # The page always sends what it showed; without that the approval covers nothing known.
            if not given["digest"]:
                raise Refused(DAMAGED, code="invalid", field="digest")
            done = change_approve(actor=actor, request_id=found.id, digest=given["digest"], providers=provider_names())
            messages.success(request, f"r{done.number} of {name} is published, requested by {found.author}.")
            return redirect("fabric", name=name)
        if given["act"] == "reject":
            change_reject(actor=actor, request_id=found.id, reason=given["reason"])
            messages.success(request, f"Rejected: {found.author} reads why. Nothing was published.")
        else:
            change_withdraw(actor=actor, request_id=found.id)
            messages.success(request, "Request withdrawn. Nothing was published.")
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        said = tuple(sentence(one) for one in refusal.problems)
        return change_page(request, actor, _find_change(actor, name, change_id), said, errors.STATUS[refusal.code])
    return redirect("fabric-request", name=name, change_id=found.id)


def _find_change(actor: Actor, name: str, request_id: str) -> ChangeView:
    found = change_request_get(actor, request_id)
    if found.name != name:
        message = f"the change request {request_id[:80]!r} is about the fabric {found.name!r}"
        raise Refused(message, code="not_found", field="request")
    return found


def change_page(
    request: HttpRequest, actor: Actor, found: ChangeView, said: tuple[str, ...] = (), status: int = 200
) -> HttpResponse:
    """Return the page of a change. ``said``: why the requested act was refused."""
    seen = check_text(found.text, installation_for(actor, found.name), name=found.name)
    spec = seen.spec
    change = build_change(actor, found.name, spec, found.text, sound=not seen.errors) if spec else None
    new = spec is not None and change is not None and change.against is None
    shown = {
        "one": found,
        "checked": seen,
        "change": change,
        "first": build_first_version(actor, spec, found.author) if spec is not None and new else None,
        "mine": found.author == actor.name,
        "why_not": why_not_agree(actor, found),
        "told": [NotificationRow(one) for one in notifications_of_change(actor, found.id)],
        "may_resend": may_resend(actor),
        "said": said,
        "reason": request.POST.get("reason", "")[:MESSAGE_CHARS_MAX],
    }
    return render(request, "drafts/publication/request.html", shown, status=status)
