"""Signing in by name and password, and out. What else there is: links, second factors and passkeys, a provider of identities."""

from __future__ import annotations

import logging
import time
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.client_address import address_of
from console.live.process import signed_out
from console.signed_in import mark_of, sign_in
from console.views import errors
from fabric.services.identities import provider
from fabric.services.notification_members import mails
from fabric.services.passkeys import passkey_asked, passkey_host
from fabric.services.second_factors import comes_by_provider, has_factor, owners_first
from fabric.services.sign_in import password_sign_in, sign_in_told
from fabric.services.sign_in_trail import sign_in_failed
from fabric.services.sign_in_tries import of_address, of_name, try_begin, try_forgive
from fabric.services.workspaces import sign_out_record

log = logging.getLogger(__name__)
NAME_MAX, PASSWORD_MAX = 150, 1_024
AFTER, HALF = "after_sign_in", "half_signed_in"
"""Where in the session it stands to where somebody comes back who has to sign in once more, and who has shown one factor of two."""
OWNERS_FIRST = "A second factor is demanded here, and no owner has one yet, who could help you if you lose yours: an owner has to set one up first."


class LoginForm(forms.Form):
    """A name and a password."""

    name = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Type your name."})
    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Type your password."})


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """A form for name and password, and what else there is; ``?again=1`` for who is signed in and has to do it once more. 422: they do not fit; 429: too often."""
    if request.method != "POST":
        if request.user.is_authenticated and next_of(request):
            request.session[AFTER] = next_of(request)
        return page(request, LoginForm())
    form = LoginForm(request.POST)
    if not form.is_valid():
        return page(request, form, 422)
    name = form.cleaned_data["name"]
    # By address, and by name: a name is guessed at from many addresses.
    counted = (of_address(address_of(request)), of_name(name))
    if wait := try_begin(*counted):
        sign_in_failed(name=name, address=address_of(request), how="too_often")
        form.add_error(None, f"Too many sign-ins were tried from your address or with this name: go on in {wait} s.")
        return too_often(page(request, form, 429), wait)
    user = password_sign_in(name=name, password=form.cleaned_data["password"])
    if user is None or is_other(request, user):
        sign_in_failed(name=name, address=address_of(request), how="password")
        log.warning("a sign-in was refused: the name and the password do not fit")
        form.add_error(None, "This name and password do not fit together: try again, or ask an owner for a new link.")
        return page(request, form, 422)
    try_forgive(*counted)
    return one_factor_shown(request, user, "password")


def page(request: HttpRequest, form: LoginForm, status: int = 200, problem: str = "") -> HttpResponse:
    """The page of all ways in. ``problem``: what went wrong with another way than the form."""
    again = request.user.is_authenticated and ("again" in request.GET or request.method == "POST")
    known: dict[str, Any] = {"next": next_of(request), "form": form, "again": again, "name": form["name"].value() or ""}
    known |= {
        "problem": problem,
        "sso": provider() is not None,
        "sso_name": settings.FABRIC_OIDC_NAME,
        "mails": mails(),
    }
    if again and isinstance(request.user, User):
        by_provider = comes_by_provider(request.user)
        known |= {
            "name": request.user.get_username(),
            "by_provider": by_provider,
            "by_link": not by_provider and not request.user.has_usable_password(),
        }
    return render(request, "login/page.html", {**known, **passkey_form(request)}, status=status)


def passkey_form(request: HttpRequest) -> dict[str, str]:
    """What a page needs to ask for a passkey; empty where there are none."""
    if not on_passkey_host(request):
        return {}
    asked, state = passkey_asked()
    return {"passkey_asked": asked, "passkey_state": state}


def on_passkey_host(request: HttpRequest) -> bool:
    """Whether the page was opened under the host that passkeys are for."""
    return passkey_host() != "" and urlsplit(f"//{request.get_host()}").hostname == passkey_host()


def is_other(request: HttpRequest, user: User) -> bool:
    """Whether somebody else is signed in in this browser."""
    return request.user.is_authenticated and request.user.pk != user.pk


def one_factor_shown(request: HttpRequest, user: User, way: str, behind: str = "") -> HttpResponse:
    """Signs in, or asks for the second factor where there is one. ``behind``: who made the link that was shown."""
    if owners_first(user):
        return errors.page(request, 403, OWNERS_FIRST, errors.NO_MEMBER)
    if not has_factor(user):
        if way == "password":
            sign_in_told(user, way)
        return let_in(request, user, way, behind)
    # The hash: another password makes the half of a sign-in void as well.
    half = {
        "user": user.pk,
        "way": way,
        "at": time.time_ns() // 1_000,
        "is": user.get_session_auth_hash(),
    }
    request.session[HALF] = half | {"to": next_of(request)}
    return redirect("login-second")


def let_in(
    request: HttpRequest, user: User, way: str, behind: str = "", to: str = "", fresh_at: int | None = None
) -> HttpResponse:
    """Signs in and goes on to where the visitor was."""
    to = to or next_of(request) or request.session.get(AFTER, "")
    sign_in(request, user, behind, way=way, fresh_at=fresh_at)
    for name in (AFTER, HALF):
        request.session.pop(name, None)
    return redirect(to or settings.LOGIN_REDIRECT_URL)


def too_often(answer: HttpResponse, wait: int) -> HttpResponse:
    """The same, with how many seconds to wait."""
    answer.headers["Retry-After"] = str(wait)
    return answer


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """Forget the session and close its sockets, in every tab and on every server."""
    mark = mark_of(request)
    if request.user.is_authenticated:
        try:
            sign_out_record(request.user)
        except DatabaseError as error:
            log.warning("a sign-out could not be noted in the audit stream: %s", error)
    auth.logout(request)
    if mark:
        signed_out(mark)
    return redirect(settings.LOGIN_URL)


def next_of(request: HttpRequest) -> str:
    """Where the visitor was going; only an address of this site."""
    given = request.POST.get("next") or request.GET.get("next", "")
    return given if is_ours(request, given) else ""


def is_ours(request: HttpRequest, address: str) -> bool:
    """Whether an address is one of this site."""
    return url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
