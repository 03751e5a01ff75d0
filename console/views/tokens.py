"""Tokens of a member, on their page: made, shown this once, revoked."""

from __future__ import annotations

import re

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from console.access import actor_of
from console.forms import sentence
from console.views import errors
from console.views.members import TokenForm, one_page
from fabric.selectors.errors import Refused
from fabric.selectors.members import member_get
from fabric.services.tokens import DAYS, token_create, token_revoke

_id = re.compile(r"[A-Za-z0-9-]{1,64}")


@never_cache
@require_POST
def create(request: HttpRequest, member_id: str) -> HttpResponse:
    """Makes a token and shows it, this once. 403: it is for owners; 409: the name is taken; 422: a field cannot be taken."""
    actor, form = actor_of(request.user), TokenForm(request.POST)
    seen, status = member_get(actor, member_id), 422
    if form.is_valid():
        given = form.cleaned_data
        try:
            made = token_create(
                actor=actor,
                name=given["name"],
                user=seen.name,
                scopes=given["scopes"],
                fabrics=given["fabrics"].replace(",", " ").split(),
                expires_days=DAYS if given["days"] is None else given["days"],
            )
        except Refused as refusal:
            if refusal.code == "forbidden":
                raise
            field = {"expires": "days"}.get(refusal.field, refusal.field)
            form.add_error(field if field in form.fields else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            return render(request, "members/token.html", {"made": made, "one": seen})
    return one_page(request, actor, seen, status=status, making=form)


@require_POST
def revoke(request: HttpRequest, name: str) -> HttpResponse:
    """Ends a token; ``member``: on whose page that was asked. 403: it is another one's; 404: there is none."""
    member = request.POST.get("member", "")
    token_revoke(actor=actor_of(request.user), name=name)
    messages.success(request, f"The token {name} is revoked: it lets nobody in any more.")
    return redirect("member", member) if _id.fullmatch(member) else redirect("members")
