"""Shows and changes one's own account: password, second factors, recovery codes, and open sign-ins."""

from __future__ import annotations

import time
from io import BytesIO
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.live.hub import close_sockets
from console.pages.people.sign_in.views import is_passkey_host
from console.site.access.sessions import ENROLS, actor_in, read_mark
from console.site.errors import pages as errors
from console.site.markup import mark_safe_markup
from console.site.sentences import sentence
from console.words.notifications import KIND_WORDS
from fabric.composition.outbox import mails
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.notifications import find_mail
from fabric.selectors.people import member_get
from fabric.services.people.sign_in.attempts import name_subject, try_begin, try_forgive
from fabric.services.people.sign_in.credentials import password_change
from fabric.services.people.sign_in.passkeys import passkey_add, passkey_host, passkey_new
from fabric.services.people.sign_in.second_factors import (
    REQUIRED,
    codes_left,
    comes_by_provider,
    factor_may_change,
    factor_remove,
    list_factors,
    recovery_codes_make,
    totp_add,
    totp_secret,
    totp_uri,
)
from fabric.services.people.sign_in.sessions import list_sign_ins, own_sign_ins_end
from fabric.services.rights import SIGN_IN, is_fresh

PASSWORD_MAX = 1_024


class PasswordForm(forms.Form):
    """Form with the current password, and the new one twice."""

    old = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)
    password = forms.CharField(
        max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Choose a new password."}
    )
    again = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)

    def clean_again(self) -> str:
        """Return the repeated password. Raises ValidationError if it differs."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The passwords differ: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@sensitive_post_parameters("old", "password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Show one's own account; POST changes the password.

    403: a first password needs a fresh sign-in. 422: an invalid field. 429: too many wrong attempts.
    """
    actor = actor_in(request.user, enrolling=True)
    if request.method != "POST":
        return _page(request, actor, PasswordForm())
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _page(request, actor, form, 422)
    counted = name_subject(actor.name)  # As for signing in, because the same password could be guessed here.
    if wait := try_begin(counted):
        form.add_error(None, f"Too many passwords were tried: try again in {wait} s.")
        answer = _page(request, actor, form, 429)
        answer.headers["Retry-After"] = str(wait)
        return answer
    user = User.objects.get(username=actor.name)
    try:
        new = {"old": form.cleaned_data["old"], "new": form.cleaned_data["password"]}
        ended = password_change(actor=actor, user=user, mark=read_mark(request), **new)
    except Refused as refusal:
        if refusal.field != "old":
            try_forgive(counted)
        for problem in refusal.problems:
            form.add_error(refusal.field if refusal.field in form.fields else None, sentence(problem))
        return _page(request, actor, form, errors.STATUS[refusal.code])
    try_forgive(counted)
    for mark in ended:
        close_sockets(mark)
    update_session_auth_hash(request, user)  # This browser stays; every other one has to sign in anew.
    messages.success(
        request, "Your password is changed. Every other browser in which you were signed in is signed out."
    )
    return redirect("account")


def _page(request: HttpRequest, actor: Actor, form: PasswordForm, status: int = 200) -> HttpResponse:
    mail = find_mail(actor)
    shown = {
        "form": form,
        "has": User.objects.get(username=actor.name).has_usable_password(),
        "behind": "".join(actor.behind),
        "by_provider": comes_by_provider(User.objects.get(username=actor.name)),
        "rules": password_validators_help_texts(),
        "me": member_get(actor, actor.name),
        "mail": mail,
        "wants": [KIND_WORDS[one].lower() for one in mail.wants] if mail else [],
        "mails": mails(),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "people/account.html", shown, status=status)


SALT = "fabric.totp"
ENROL_S = 900
"""Seconds in which a secret shown by the page can be confirmed."""


@never_cache
@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """Show the second factors, codes and sign-ins of the viewer."""
    return _security_page(request, *_who(request))


@never_cache
@sensitive_post_parameters("code", "secret")
@sensitive_variables("secret")
@require_http_methods(["GET", "HEAD", "POST"])
def totp(request: HttpRequest) -> HttpResponse:
    """Show a secret for an app; POST confirms it by a code. 403: needs a fresh sign-in. 422: the code does not fit."""
    actor, user = _who(request)
    if request.method != "POST":
        factor_may_change(actor, user)
        return _app_page(request, user, totp_secret())
    try:
        secret = signing.loads(request.POST.get("secret", "")[:1_000], salt=SALT, max_age=ENROL_S)[str(user.pk)]
    except (signing.BadSignature, KeyError, TypeError):
        return _security_page(request, actor, user, "The secret on that page has expired: start again.", 422)
    try:
        made = totp_add(actor=actor, user=user, secret=secret, code=request.POST.get("code", ""), name=_name(request))
    except Refused as refusal:
        if refusal.field == SIGN_IN:
            raise
        return _app_page(request, user, secret, sentence(refusal.message), errors.STATUS[refusal.code])
    return _redirect_with_codes(request, made)


@never_cache
@sensitive_post_parameters("answer")
@require_POST
def passkey(request: HttpRequest) -> HttpResponse:
    """Store a passkey that the browser made. 403: needs a fresh sign-in. 409: it is stored already. 422: invalid."""
    actor, user = _who(request)
    state, answer = request.POST.get("state", ""), request.POST.get("answer", "")
    try:
        made = passkey_add(actor=actor, user=user, state=state, answer=answer, name=_name(request))
    except Refused as refusal:
        return _render_refusal(request, actor, user, refusal)
    return _redirect_with_codes(request, made)


@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    """Remove a second factor. 403: needs a fresh sign-in. 404: unknown factor. 409: a second factor is required."""
    actor, user = _who(request)
    try:
        factor_remove(actor=actor, user=user, factor_id=request.POST.get("factor", ""))
    except Refused as refusal:
        return _render_refusal(request, actor, user, refusal)
    messages.success(request, "The second factor is removed.")
    return redirect("security")


@never_cache
@require_POST
def codes(request: HttpRequest) -> HttpResponse:
    """Make recovery codes and show them, once. 403: needs a fresh sign-in. 409: no second factor exists."""
    actor, user = _who(request)
    try:
        made = recovery_codes_make(actor=actor, user=user)
    except Refused as refusal:
        return _render_refusal(request, actor, user, refusal)
    return render(request, "people/codes.html", {"codes": made})


@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """End one of one's own sign-ins (``sign_in``), or all of them (``sign_in`` = ``all``), the current one included."""
    actor, user = _who(request)
    which = request.POST.get("sign_in", "")
    if which == "all":
        ended = own_sign_ins_end(actor=actor, user=user)
    else:
        ended = own_sign_ins_end(actor=actor, user=user, only=which[:64] or "-")
    for mark in ended:
        close_sockets(mark)
    if read_mark(request) in ended:
        return redirect(settings.LOGIN_URL)
    messages.success(request, "The sign-in is over." if ended else "That sign-in was over already.")
    return redirect("security")


def qr(uri: str) -> SafeString:
    """Return a QR code of a text as SVG: dark on light, in any colours of the page."""
    import segno

    out = BytesIO()
    segno.make(uri, error="m").save(out, kind="svg", xmldecl=False, svgns=True, border=4, omitsize=True, light="#fff")
    return mark_safe_markup(out.getvalue().decode())


def _who(request: HttpRequest) -> tuple[Actor, User]:
    actor = actor_in(request.user, enrolling=True)
    return actor, User.objects.get(username=actor.name)


def _name(request: HttpRequest) -> str:
    return request.POST.get("name", "")[:200]


def _redirect_with_codes(request: HttpRequest, made: list[str]) -> HttpResponse:
    enrolled = request.session.pop("enrols", None)
    setattr(request.user, ENROLS, False)
    if made:
        return render(request, "people/codes.html", {"codes": made, "enrolled": enrolled})
    messages.success(request, "The second factor is there.")
    return redirect("security")


def _render_refusal(request: HttpRequest, actor: Actor, user: User, refusal: Refused) -> HttpResponse:
    if refusal.field == SIGN_IN:
        raise refusal
    return _security_page(request, actor, user, sentence(refusal.message), errors.STATUS[refusal.code])


@sensitive_variables("secret")
def _app_page(request: HttpRequest, user: User, secret: str, problem: str = "", status: int = 200) -> HttpResponse:
    shown = {
        "picture": qr(totp_uri(user, secret)),
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "signed": signing.dumps({str(user.pk): secret}, salt=SALT),
        "problem": problem,
    }
    return render(request, "people/app.html", shown, status=status)


def _security_page(
    request: HttpRequest, actor: Actor, user: User, problem: str = "", status: int = 200
) -> HttpResponse:
    by_provider, fresh = comes_by_provider(user), is_fresh(actor)
    shown: dict[str, Any] = {
        "factors": list_factors(user),
        "codes_left": codes_left(user),
        "sign_ins": list_sign_ins(user),
        "this": read_mark(request),
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
    if fresh and not by_provider and is_passkey_host(request):
        shown["passkey_new"], shown["passkey_state"] = passkey_new(user)
    return render(request, "people/security.html", shown, status=status)
