"""Manages the members of the workspace: roles, invitations, removal, accounts of programs, and tokens.

A token is made, shown once, and revoked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.live.hub import close_sockets
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from fabric.core.people.actor import Actor
from fabric.core.people.roles import MEANS, PEOPLE_ONLY, Right, Role, held_in
from fabric.core.people.scopes import MEANS as SCOPES
from fabric.core.people.scopes import Scope
from fabric.core.values.units import US
from fabric.selectors.errors import Refused
from fabric.selectors.people import (
    InvitationView,
    MemberView,
    TokenState,
    TokenView,
    invitations_open,
    member_get,
    members_list,
    tokens_list,
)
from fabric.services.people.invitations import DAYS, DAYS_MAX, CreatedInvitation, invitation_create, invitation_revoke
from fabric.services.people.members import member_remove, member_roles_set, service_create
from fabric.services.people.sign_in.second_factors import factors_reset, list_factors
from fabric.services.people.sign_in.sessions import list_sign_ins, member_sign_ins_end
from fabric.services.people.tokens import DAYS as TOKEN_DAYS
from fabric.services.people.tokens import DAYS_MAX as TOKEN_DAYS_MAX
from fabric.services.people.tokens import token_create, token_revoke
from fabric.services.rights import SIGN_IN

TEXT_MAX = 1_000


class RolesForm(forms.Form):
    """Form of roles: a check for each role that carries rights, and a field of names that only fabrics know.

    Names are separated by commas or spaces.
    """

    roles = forms.MultipleChoiceField(choices=[(role, role) for role in Role], required=False)
    names = forms.CharField(required=False, max_length=TEXT_MAX)

    @property
    def picked_roles(self) -> tuple[str, ...]:
        """Return all roles, as the services take them."""
        return (*self.cleaned_data["roles"], *self.cleaned_data["names"].replace(",", " ").split())

    @property
    def checked_roles(self) -> frozenset[str]:
        """Return the checked roles, even of an invalid form."""
        value = self["roles"].value() or ()
        return frozenset(value if isinstance(value, list | tuple | frozenset) else ())


class InviteForm(RolesForm):
    """An invitation."""

    email = forms.CharField(required=False, max_length=254)
    days = forms.IntegerField(
        required=False, error_messages={"invalid": f"Give a whole number of days, 1 to {DAYS_MAX}."}
    )


class ServiceForm(RolesForm):
    """An account of programs."""

    name = forms.CharField(max_length=150, error_messages={"required": "A service account needs a name."})


class ChangeForm(RolesForm):
    """Form with the roles of a member, and those that the page showed before."""

    before = forms.CharField(max_length=TEXT_MAX * 2)


class TokenForm(forms.Form):
    """A token."""

    name = forms.CharField(max_length=63, error_messages={"required": "A token needs a name."})
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in Scope], error_messages={"required": "A token needs a scope."}
    )
    days = forms.IntegerField(
        required=False, error_messages={"invalid": f"Give a whole number of days, 1 to {TOKEN_DAYS_MAX:,}."}
    )
    fabrics = forms.CharField(required=False, max_length=TEXT_MAX)


TOKENS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Token:
    """A token as a row of the list."""

    one: TokenView
    state: TokenState


@dataclass(frozen=True, slots=True)
class RoleChoice:
    """A role as a choice of the form."""

    role: Role
    means: str
    picked: bool
    can: bool = True
    """False if the role is for people only."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member as a row of the list."""

    one: MemberView
    mine: bool
    """True if it is the viewer."""

    @property
    def carrying_roles(self) -> list[str]:
        """Return the roles that carry rights, in the order of ``Role``."""
        return [role for role in Role if role in self.one.roles]

    @property
    def names(self) -> list[str]:
        """Return the roles that only fabrics know."""
        return [role for role in self.one.roles if role not in tuple(Role)]


def choices(picked: Iterable[str], *, service: bool = False) -> list[RoleChoice]:
    """Return the roles as a form offers them."""
    there = frozenset(picked)
    return [RoleChoice(role, MEANS[role], role in there, not service or role not in PEOPLE_ONLY) for role in Role]


@require_safe
def members(request: HttpRequest) -> HttpResponse:
    """Show all members, the meaning of each role, and for owners the invitations."""
    return _list(request, find_actor(request.user))


@never_cache
@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Make an invitation and show its link, once. 403: only for owners. 409: too many are open. 422: an invalid
    field.
    """
    actor, form, status = find_actor(request.user), InviteForm(request.POST), 422
    if form.is_valid():
        try:
            made = invitation_create(
                actor=actor,
                roles=form.picked_roles,
                email=form.cleaned_data["email"],
                days=DAYS if form.cleaned_data["days"] is None else form.cleaned_data["days"],
            )
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            return render(request, "people/invitations/made.html", _link(made))
    return _list(request, actor, invited=form, status=status)


@require_POST
def revoke(request: HttpRequest, invitation_id: str) -> HttpResponse:
    """Revoke an invitation. 409: it was accepted meanwhile."""
    actor = find_actor(request.user)
    try:
        invitation_revoke(actor=actor, invitation_id=invitation_id)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        return _list(request, actor, problem=sentence(refusal.message), status=errors.STATUS[refusal.code])
    messages.success(request, "The invitation is revoked; its link no longer works.")
    return redirect("members")


@require_POST
def service(request: HttpRequest) -> HttpResponse:
    """Make an account of programs. 409: the name is taken. 422: an invalid field."""
    actor, form, status = find_actor(request.user), ServiceForm(request.POST), 422
    if form.is_valid():
        try:
            name = service_create(actor=actor, name=form.cleaned_data["name"], roles=form.picked_roles)
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            messages.success(request, f"{name} is created. It can sign in only with tokens.")
            return redirect("member", member_get(actor, name).id)
    return _list(request, actor, served=form, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def member(request: HttpRequest, member_id: str) -> HttpResponse:
    """Show one member; POST changes the roles (``act`` = ``roles``) or removes the member (``remove``).

    403: only for owners. 409: the last owner, or changed since.
    """
    actor = find_actor(request.user)
    seen = member_get(actor, member_id)
    if request.method != "POST":
        return one_page(request, actor, seen)
    form, status = ChangeForm(request.POST), 422
    try:
        if request.POST.get("act") == "remove":
            tokens = member_remove(actor=actor, name=seen.name).tokens
            also = (
                f" {tokens} token{'s' if tokens != 1 else ''} with {'them' if tokens != 1 else 'it'}." if tokens else ""
            )
            messages.success(request, f"{seen.name} is no member any more: sign-ins are over.{also}")
            return redirect("members")
        if form.is_valid() and request.POST.get("act") == "roles":
            before = held_in(form.cleaned_data["before"])
            member_roles_set(actor=actor, name=seen.name, roles=form.picked_roles, before=before)
            messages.success(request, f"The roles of {seen.name} apply now.")
            return redirect("member", seen.id)
    except Refused as refusal:
        status = _wrong(form, refusal)
    else:
        form.add_error(None, "The form was incomplete. Nothing was changed: load the page again.")
    return one_page(request, actor, seen, form, status)


@require_POST
def sign_ins(request: HttpRequest, member_id: str) -> HttpResponse:
    """End a member's sign-ins (``act`` = ``end``), or remove their second factors (``factors``).

    403: only for owners, freshly signed in. 409: one's own account.
    """
    actor = find_actor(request.user)
    seen = member_get(actor, member_id)
    act = {"end": member_sign_ins_end, "factors": factors_reset}.get(request.POST.get("act", ""))
    form = ChangeForm(request.POST)
    if act is None:
        form.is_valid()
        form.add_error(None, "The form was incomplete. Nothing was changed: load the page again.")
        return one_page(request, actor, seen, form, 422)
    try:
        ended = act(actor=actor, name=seen.name)
    except Refused as refusal:
        return one_page(request, actor, seen, form, _wrong(form, refusal))
    for mark in ended:
        close_sockets(mark)
    said = "sign-ins are over" if act is member_sign_ins_end else "second factors are taken away, and sign-ins are over"
    messages.success(request, f"{seen.name}: {said}, {len(ended)} of them.")
    return redirect("member", seen.id)


def _link(made: CreatedInvitation) -> dict[str, Any]:
    address = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}{reverse('invitation')}#{made.token}"
    return {"made": made, "address": address, "days": round((made.expires_at - time.time_ns() // 1_000) / US / 86_400)}


def _ways_in(actor: Actor, seen: MemberView) -> dict[str, Any]:
    """Return a person's ways to sign in, for an owner's view."""
    user = User.objects.filter(username=seen.name).first()
    if user is None or seen.service or not actor.may(Right.MEMBERS):
        return {}
    return {"sign_ins": list_sign_ins(user), "factors": list_factors(user), "ways": True}


def _wrong(form: forms.Form, refusal: Refused) -> int:
    """Put a refusal beside its field, and return the HTTP status.

    Raises the refusal again if a fresh sign-in resolves it: that has its own page.
    """
    if refusal.field == SIGN_IN:
        raise refusal
    field = refusal.field if refusal.field in form.fields else None
    form.is_valid()
    form.add_error(field, sentence(refusal.message))
    return errors.STATUS[refusal.code]


def _list(
    request: HttpRequest,
    actor: Actor,
    *,
    invited: InviteForm | None = None,
    served: ServiceForm | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    may = actor.may(Right.MEMBERS)
    rows = [MemberRow(one, one.name == actor.name) for one in members_list(actor)]
    open_now: list[InvitationView] = invitations_open(actor) if may else []
    held = [role for row in rows for role in row.one.roles]
    shown = {
        "people": [row for row in rows if not row.one.service],
        "services": [row for row in rows if row.one.service],
        "invitations": open_now,
        "may": may,
        "means": [(role, MEANS[role], held.count(role)) for role in Role],
        "invite": invited or InviteForm(),
        "invite_roles": choices(invited.checked_roles if invited else (Role.REVIEWER,)),
        "service": served or ServiceForm(),
        "service_roles": choices(served.checked_roles if served else (Role.OPERATOR,), service=True),
        "days": DAYS,
        "days_max": DAYS_MAX,
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "people/members/list.html", shown, status=status)


def one_page(
    request: HttpRequest,
    actor: Actor,
    seen: MemberView,
    form: ChangeForm | None = None,
    status: int = 200,
    *,
    making: TokenForm | None = None,
) -> HttpResponse:
    """Return the page of a member. ``form``, ``making``: refused forms, with their input."""
    row = MemberRow(seen, seen.name == actor.name)
    typed = form if form is not None and request.POST.get("act") == "roles" else None
    own = row.mine or actor.may(Right.MEMBERS)
    now = time.time_ns() // 1_000
    making, picked = making or TokenForm(), making["scopes"].value() or () if making else (Scope.READ,)
    shown = {
        "row": row,
        "one": seen,
        "form": form,
        "names": " ".join(row.names) if typed is None else typed["names"].value() or "",
        "before": ",".join(seen.roles),
        "roles": choices(seen.roles if typed is None else typed.checked_roles, service=seen.service),
        "may": actor.may(Right.MEMBERS),
        "own": own,
        **_ways_in(actor, seen),
        "makes": row.mine or (seen.service and actor.may(Right.MEMBERS)),
        "tokens": [Token(one, one.state(now)) for one in tokens_list(actor, user=seen.name, limit=TOKENS_SHOWN)]
        if own
        else [],
        "making": making,
        "scopes": [
            (scope, SCOPES[scope], scope in picked) for scope in Scope if not (seen.service and scope is Scope.DECIDE)
        ],
        "days": TOKEN_DAYS,
        "days_max": TOKEN_DAYS_MAX,
        "now_ms": now // 1_000,
    }
    return render(request, "people/members/member.html", shown, status=status)


_id = re.compile(r"[A-Za-z0-9-]{1,64}")


@never_cache
@require_POST
def create(request: HttpRequest, member_id: str) -> HttpResponse:
    """Make a token and show it, once. 403: only for owners. 409: the name is taken. 422: an invalid field."""
    actor, form = find_actor(request.user), TokenForm(request.POST)
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
                expires_days=TOKEN_DAYS if given["days"] is None else given["days"],
            )
        except Refused as refusal:
            if refusal.code == "forbidden":
                raise
            field = {"expires": "days"}.get(refusal.field, refusal.field)
            form.add_error(field if field in form.fields else None, sentence(refusal.message))
            status = errors.STATUS[refusal.code]
        else:
            return render(request, "people/token_made.html", {"made": made, "one": seen})
    return one_page(request, actor, seen, status=status, making=form)


@require_POST
def token_revoked(request: HttpRequest, name: str) -> HttpResponse:
    """Revoke a token. ``member``: the page that sent the request. 403: another person's token. 404: unknown token."""
    member = request.POST.get("member", "")
    token_revoke(actor=find_actor(request.user), name=name)
    messages.success(request, f"The token {name} is revoked and no longer works.")
    return redirect("member", member) if _id.fullmatch(member) else redirect("members")
