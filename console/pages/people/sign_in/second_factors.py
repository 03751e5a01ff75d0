"""Checks the second factor after a password or a link, and passkeys, which are both factors at once."""

from __future__ import annotations

import hmac
import time
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.pages.people.sign_in.views import HALF, LoginForm, finish_sign_in, is_other, page, passkey_form, too_often
from console.site.requests.client_address import build_address
from console.site.sentences import sentence
from fabric.core.values.units import US
from fabric.selectors.errors import Refused
from fabric.services.people.sign_in.attempts import (
    address_subject,
    name_subject,
    sign_in_failed,
    try_begin,
    try_forgive,
)
from fabric.services.people.sign_in.credentials import sign_in_told
from fabric.services.people.sign_in.passkeys import passkey_use
from fabric.services.people.sign_in.second_factors import code_use

HALF_S = 600
"""Seconds for which the first factor counts while the second is entered."""


class CodeForm(forms.Form):
    """Form with a code of an app, or a recovery code."""

    code = forms.CharField(max_length=40, error_messages={"required": "Type a code."})


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def second(request: HttpRequest) -> HttpResponse:
    """Ask for a code; POST checks one.

    302: the code fits, or no first factor was shown recently. 422: the code is wrong. 429: too often.
    """
    form = CodeForm(request.POST if request.method == "POST" else None)
    half, user = _half(request)
    if user is None:
        return redirect("login")
    if request.method != "POST" or not form.is_valid():
        return _page(request, user, form, 422 if request.method == "POST" else 200)
    counted = (address_subject(build_address(request)), name_subject(f"second:{user.username}"))
    if wait := try_begin(*counted):
        sign_in_failed(name=user.username, address=build_address(request), how="too_often")
        form.add_error(None, f"Too many codes were tried: try again in {wait} s.")
        return too_often(_page(request, user, form, 429), wait)
    by = code_use(user, form.cleaned_data["code"])
    if not by:
        sign_in_failed(name=user.username, address=build_address(request), how="second_factor")
        form.add_error(None, "This code does not fit, or was used before: type the one that the app shows now.")
        return _page(request, user, form, 422)
    try_forgive(*counted)
    way = f"{half['way']}, {by}"
    sign_in_told(user, way)
    # The author of a link does not have this factor, so they are not behind the sign-in any more.
    return finish_sign_in(request, user, way, to=half["to"])


@never_cache
@sensitive_post_parameters("answer")
@require_POST
def passkey(request: HttpRequest) -> HttpResponse:
    """Sign in by the passkey that the browser showed. 422: it is unknown. 429: too often."""
    counted = address_subject(build_address(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=build_address(request), how="too_often")
        message = f"Too many sign-ins were tried from your address: try again in {wait} s."
        return too_often(page(request, LoginForm(), 429, message), wait)
    try:
        user = passkey_use(state=request.POST.get("state", ""), answer=request.POST.get("answer", ""))
    except Refused as refusal:
        sign_in_failed(name="", address=build_address(request), how="passkey")
        return page(request, LoginForm(), 422, sentence(refusal.message))
    if is_other(request, user):
        return page(request, LoginForm(), 422, "This passkey belongs to another account: sign out first.")
    try_forgive(counted)
    sign_in_told(user, "passkey")
    return finish_sign_in(request, user, "passkey", to=_to_of_half(request))


def _half(request: HttpRequest) -> tuple[dict[str, Any], User | None]:
    """Return the user who showed a first factor in this browser recently; None if there is none."""
    half = request.session.get(HALF) or {}
    if not half or half["at"] < time.time_ns() // 1_000 - HALF_S * US:
        return half, None
    user = User.objects.filter(pk=half["user"], is_active=True).first()
    if user is None or not hmac.compare_digest(user.get_session_auth_hash(), half["is"]) or is_other(request, user):
        return half, None
    return half, user


def _to_of_half(request: HttpRequest) -> str:
    half, user = _half(request)
    return half["to"] if user is not None else ""


def _page(request: HttpRequest, user: User, form: CodeForm, status: int) -> HttpResponse:
    shown = {"form": form, "who": user.get_username(), **passkey_form(request)}
    return render(request, "people/sign_in/second.html", shown, status=status)
