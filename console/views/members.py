"""Members of the workspace: who there is with which roles, inviting people, giving and taking roles, removing, and accounts of programs."""

from __future__ import annotations

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

from console.access import actor_of
from console.forms import sentence
from console.live.process import signed_out
from console.views import errors
from fabric.core.actor import Actor
from fabric.core.roles import MEANS, PEOPLE_ONLY, Right, Role, held_in
from fabric.core.scopes import MEANS as SCOPES
from fabric.core.scopes import Scope
from fabric.selectors.errors import Refused
from fabric.selectors.members import InvitationView, MemberView, invitations_open, member_get, members_list
from fabric.selectors.tokens import TokenState, TokenView, tokens_list
from fabric.services.invitations import DAYS, DAYS_MAX, CreatedInvitation, invitation_create, invitation_revoke
from fabric.services.members import member_remove, member_roles_set, service_create
from fabric.services.rights import SIGN_IN
from fabric.services.second_factors import factors_of, factors_reset
from fabric.services.sign_ins import member_sign_ins_end, sign_ins_of
from fabric.services.tokens import DAYS as TOKEN_DAYS
from fabric.services.tokens import DAYS_MAX as TOKEN_DAYS_MAX

TEXT_MAX = 1_000
US = 1_000_000


class RolesForm(forms.Form):
    """Roles: those that carry rights by a check each, and names that only fabrics know in a field, with commas or spaces between."""

    roles = forms.MultipleChoiceField(choices=[(role, role) for role in Role], required=False)
    names = forms.CharField(required=False, max_length=TEXT_MAX)

    @property
    def picked(self) -> tuple[str, ...]:
        """All of them, as services take them."""
        return (*self.cleaned_data["roles"], *self.cleaned_data["names"].replace(",", " ").split())

    @property
    def checked(self) -> frozenset[str]:
        """The checks as they stand, whatever was sent."""
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
    """Roles of a member, and those that stood there when the page was made."""

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
    """A token as it is listed."""

    one: TokenView
    state: TokenState


@dataclass(frozen=True, slots=True)
class Choice:
    """A role as it is offered."""

    role: Role
    means: str
    picked: bool
    can: bool = True
    """False: it is for people only."""


@dataclass(frozen=True, slots=True)
class Row:
    """A member as they are listed."""

    one: MemberView
    mine: bool
    """Whether it is who looks."""

    @property
    def carrying(self) -> list[str]:
        """The roles that carry rights, in the order in which they are told."""
        return [role for role in Role if role in self.one.roles]

    @property
    def names(self) -> list[str]:
        """The others."""
        return [role for role in self.one.roles if role not in tuple(Role)]


def choices(picked: Iterable[str], *, service: bool = False) -> list[Choice]:
    """The roles as a form offers them."""
    there = frozenset(picked)
    return [Choice(role, MEANS[role], role in there, not service or role not in PEOPLE_ONLY) for role in Role]


@require_safe
def members(request: HttpRequest) -> HttpResponse:
    """Everybody, what each role means, and for an owner the invitations."""
    return _list(request, actor_of(request.user))


@never_cache
@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    """Makes an invitation and shows its link, this once. 403: it is for owners; 409: too many are open; 422: a field cannot be taken."""
    actor, form, status = actor_of(request.user), InviteForm(request.POST), 422
    if form.is_valid():
        try:
            made = invitation_create(
                actor=actor,
                roles=form.picked,
                email=form.cleaned_data["email"],
                days=DAYS if form.cleaned_data["days"] is None else form.cleaned_data["days"],
            )
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            return render(request, "members/invited.html", _link(made))
    return _list(request, actor, invited=form, status=status)


@require_POST
def revoke(request: HttpRequest, invitation_id: str) -> HttpResponse:
    """Ends an invitation. 409: it was accepted meanwhile."""
    actor = actor_of(request.user)
    try:
        invitation_revoke(actor=actor, invitation_id=invitation_id)
    except Refused as refusal:
        if refusal.code == "not_found":
            raise
        return _list(request, actor, problem=sentence(refusal.message), status=errors.STATUS[refusal.code])
    messages.success(request, "The invitation is revoked: nobody comes in by its link.")
    return redirect("members")


@require_POST
def service(request: HttpRequest) -> HttpResponse:
    """Makes an account of programs. 409: the name is taken; 422: a field cannot be taken."""
    actor, form, status = actor_of(request.user), ServiceForm(request.POST), 422
    if form.is_valid():
        try:
            name = service_create(actor=actor, name=form.cleaned_data["name"], roles=form.picked)
        except Refused as refusal:
            status = _wrong(form, refusal)
        else:
            messages.success(request, f"{name} is there: it comes in by a token, and by nothing else.")
            return redirect("member", member_get(actor, name).id)
    return _list(request, actor, served=form, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
def member(request: HttpRequest, member_id: str) -> HttpResponse:
    """One member; a POST changes the roles (``act`` = ``roles``) or removes them (``remove``). 403: it is for owners; 409: the last owner, or changed since."""
    actor = actor_of(request.user)
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
            member_roles_set(actor=actor, name=seen.name, roles=form.picked, before=before)
            messages.success(request, f"The roles of {seen.name} hold from now on.")
            return redirect("member", seen.id)
    except Refused as refusal:
        status = _wrong(form, refusal)
    else:
        form.add_error(None, "The form was not whole. Nothing was changed: load the page again.")
    return one_page(request, actor, seen, form, status)


@require_POST
def sign_ins(request: HttpRequest, member_id: str) -> HttpResponse:
    """Ends a member's sign-ins (``act`` = ``end``), and takes their second factors away (``factors``). 403: it is for owners, freshly signed in; 409: one's own."""
    actor = actor_of(request.user)
    seen = member_get(actor, member_id)
    act = {"end": member_sign_ins_end, "factors": factors_reset}.get(request.POST.get("act", ""))
    form = ChangeForm(request.POST)
    if act is None:
        form.is_valid()
        form.add_error(None, "The form was not whole. Nothing was changed: load the page again.")
        return one_page(request, actor, seen, form, 422)
    try:
        ended = act(actor=actor, name=seen.name)
    except Refused as refusal:
        return one_page(request, actor, seen, form, _wrong(form, refusal))
    for mark in ended:
        signed_out(mark)
    said = "sign-ins are over" if act is member_sign_ins_end else "second factors are taken away, and sign-ins are over"
    messages.success(request, f"{seen.name}: {said}, {len(ended)} of them.")
    return redirect("member", seen.id)


def _link(made: CreatedInvitation) -> dict[str, Any]:
    address = f"{settings.FABRIC_PUBLIC_URL.rstrip('/')}{reverse('invitation')}#{made.token}"
    return {"made": made, "address": address, "days": round((made.expires_at - time.time_ns() // 1_000) / US / 86_400)}


def _ways_in(actor: Actor, seen: MemberView) -> dict[str, Any]:
    """What an owner sees of how a person signs in."""
    user = User.objects.filter(username=seen.name).first()
    if user is None or seen.service or not actor.may(Right.MEMBERS):
        return {}
    return {"sign_ins": sign_ins_of(user), "factors": factors_of(user), "ways": True}


def _wrong(form: forms.Form, refusal: Refused) -> int:
    """Puts a refusal where it belongs; the answer's status. Raises it where a fresh sign-in does away with it, which has a page of its own."""
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
    rows = [Row(one, one.name == actor.name) for one in members_list(actor)]
    open_now: list[InvitationView] = invitations_open(actor) if may else []
    held = [role for row in rows for role in row.one.roles]
    shown = {
        "people": [row for row in rows if not row.one.service],
        "services": [row for row in rows if row.one.service],
        "invitations": open_now,
        "may": may,
        "means": [(role, MEANS[role], held.count(role)) for role in Role],
        "invite": invited or InviteForm(),
        "invite_roles": choices(invited.checked if invited else (Role.REVIEWER,)),
        "service": served or ServiceForm(),
        "service_roles": choices(served.checked if served else (Role.OPERATOR,), service=True),
        "days": DAYS,
        "days_max": DAYS_MAX,
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "members/list.html", shown, status=status)


def one_page(
    request: HttpRequest,
    actor: Actor,
    seen: MemberView,
    form: ChangeForm | None = None,
    status: int = 200,
    *,
    making: TokenForm | None = None,
) -> HttpResponse:
    """The page of a member. ``form``, ``making``: what was sent and could not be taken."""
    row = Row(seen, seen.name == actor.name)
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
        "roles": choices(seen.roles if typed is None else typed.checked, service=seen.service),
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
    return render(request, "members/member.html", shown, status=status)
