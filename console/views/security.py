"""How one signs in oneself: second factors, recovery codes, and the sign-ins that go on."""

from __future__ import annotations

import time
from io import BytesIO
from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.forms import sentence
from console.live.process import signed_out
from console.markup import built
from console.signed_in import ENROLS, actor_in, mark_of
from console.views import errors
from console.views.login import on_passkey_host
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.services.passkeys import passkey_add, passkey_host, passkey_new
from fabric.services.rights import SIGN_IN, is_fresh
from fabric.services.second_factors import (
    REQUIRED,
    codes_left,
    comes_by_provider,
    factor_may_change,
    factor_remove,
    factors_of,
    recovery_codes_make,
    totp_add,
    totp_secret,
    totp_uri,
)
from fabric.services.sign_ins import own_sign_ins_end, sign_ins_of

SALT = "fabric.totp"
ENROL_S = 900
"""So long the secret that a page shows can be confirmed."""


@never_cache
@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """Second factors, codes and sign-ins of who looks."""
    return _page(request, *_who(request))


@never_cache
@sensitive_post_parameters("code", "secret")
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def totp(request: HttpRequest) -> HttpResponse:
    """Shows a secret for an app; a POST confirms it by a code. 403: a fresh sign-in is wanted; 422: the code does not fit."""
    actor, user = _who(request)
    if request.method != "POST":
        factor_may_change(actor, user)
        return _app_page(request, user, totp_secret())
    try:
        secret = signing.loads(request.POST.get("secret", "")[:1_000], salt=SALT, max_age=ENROL_S)[str(user.pk)]
    except (signing.BadSignature, KeyError, TypeError):
        return _page(request, actor, user, "The secret on that page has expired: begin once more.", 422)
    try:
        made = totp_add(actor=actor, user=user, secret=secret, code=request.POST.get("code", ""), name=_name(request))
    except Refused as refusal:
        if refusal.field == SIGN_IN:
            raise
        return _app_page(request, user, secret, sentence(refusal.message), errors.STATUS[refusal.code])
    return _added(request, made)


@never_cache
@sensitive_post_parameters("answer")
@require_POST
def passkey(request: HttpRequest) -> HttpResponse:
    """Keeps a passkey that the browser made. 403: a fresh sign-in is wanted; 409: it is there already; 422: it cannot be taken."""
    actor, user = _who(request)
    state, answer = request.POST.get("state", ""), request.POST.get("answer", "")
    try:
        made = passkey_add(actor=actor, user=user, state=state, answer=answer, name=_name(request))
    except Refused as refusal:
        return _refused(request, actor, user, refusal)
    return _added(request, made)


@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Takes a second factor away. 403: a fresh sign-in is wanted; 404: it is not there; 409: one is demanded."""
    actor, user = _who(request)
    try:
        factor_remove(actor=actor, user=user, factor_id=request.POST.get("factor", ""))
    except Refused as refusal:
        return _refused(request, actor, user, refusal)
    messages.success(request, "The second factor is removed.")
    return redirect("security")


@never_cache
@require_POST
def codes(request: HttpRequest) -> HttpResponse:
    """Makes recovery codes and shows them, this once. 403: a fresh sign-in is wanted; 409: there is no second factor."""
    actor, user = _who(request)
    try:
        made = recovery_codes_make(actor=actor, user=user)
    except Refused as refusal:
        return _refused(request, actor, user, refusal)
    return render(request, "members/codes.html", {"codes": made})


@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """Ends one of one's sign-ins (``sign_in``), or all (``sign_in`` = ``all``), this one too."""
    actor, user = _who(request)
    which = request.POST.get("sign_in", "")
    if which == "all":
        ended = own_sign_ins_end(actor=actor, user=user)
    else:
        ended = own_sign_ins_end(actor=actor, user=user, only=which[:64] or "-")
    for mark in ended:
        signed_out(mark)
    if mark_of(request) in ended:
        return redirect(settings.LOGIN_URL)
    messages.success(request, "The sign-in is over." if ended else "That sign-in was over already.")
    return redirect("security")


def qr(uri: str) -> SafeString:
    """A picture of this text that an app reads, SVG: dark on light, whatever the page's colours."""
    out = BytesIO()
    segno.make(uri, error="m").save(out, kind="svg", xmldecl=False, svgns=True, border=4, omitsize=True, light="#fff")
    return built(out.getvalue().decode())


def _who(request: HttpRequest) -> tuple[Actor, User]:
    actor = actor_in(request.user, enrolling=True)
    return actor, User.objects.get(username=actor.name)


def _name(request: HttpRequest) -> str:
    return request.POST.get("name", "")[:200]


def _added(request: HttpRequest, made: list[str]) -> HttpResponse:
    enrolled = request.session.pop("enrols", None)
    setattr(request.user, ENROLS, False)
    if made:
        return render(request, "members/codes.html", {"codes": made, "enrolled": enrolled})
    messages.success(request, "The second factor is there.")
    return redirect("security")


def _refused(request: HttpRequest, actor: Actor, user: User, refusal: Refused) -> HttpResponse:
    if refusal.field == SIGN_IN:
        raise refusal
    return _page(request, actor, user, sentence(refusal.message), errors.STATUS[refusal.code])


@sensitive_variables("secret")
def _app_page(request: HttpRequest, user: User, secret: str, problem: str = "", status: int = 200) -> HttpResponse:
    shown = {
        "picture": qr(totp_uri(user, secret)),
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "signed": signing.dumps({str(user.pk): secret}, salt=SALT),
        "problem": problem,
    }
    return render(request, "members/app.html", shown, status=status)


def _page(request: HttpRequest, actor: Actor, user: User, problem: str = "", status: int = 200) -> HttpResponse:
    by_provider, fresh = comes_by_provider(user), is_fresh(actor)
    shown: dict[str, Any] = {
        "factors": factors_of(user),
        "codes_left": codes_left(user),
        "sign_ins": sign_ins_of(user),
        "this": mark_of(request),
        "required": settings.FABRIC_SECOND_FACTOR == REQUIRED,
        "enrols": getattr(request.user, ENROLS, False),
        "by_provider": by_provider,
        "behind": "".join(actor.behind),
        "fresh": fresh,
        "idle_hours": settings.FABRIC_SIGN_IN_IDLE_HOURS,
        "hours": settings.FABRIC_SIGN_IN_HOURS,
        "problem": problem,
        "now_ms": time.time_ns() // 1_000_000,
        "passkey_host": passkey_host(),
    }
    if fresh and not by_provider and on_passkey_host(request):
        shown["passkey_new"], shown["passkey_state"] = passkey_new(user)
    return render(request, "members/security.html", shown, status=status)
