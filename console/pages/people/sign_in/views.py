"""Signs people in by name and password, and out. Its page links to all other ways."""

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

from console.live.hub import close_sockets
from console.site.access.sessions import read_mark, sign_in
from console.site.errors import pages as errors
from console.site.requests.client_address import build_address
from fabric.services.actors import sign_out_record
from fabric.services.notifications.member_mail import mails
from fabric.services.people.identities import provider
from fabric.services.people.sign_in.attempts import (
    address_subject,
    name_subject,
    sign_in_failed,
    try_begin,
    try_forgive,
)
from fabric.services.people.sign_in.credentials import password_sign_in, sign_in_told
from fabric.services.people.sign_in.passkeys import passkey_asked, passkey_host
from fabric.services.people.sign_in.second_factors import comes_by_provider, has_factor, owners_first

log = logging.getLogger(__name__)
NAME_MAX, PASSWORD_MAX = 150, 1_024
AFTER, HALF = "after_sign_in", "half_signed_in"
"""Session keys: the address to return to after a sign-in, and the user who has shown one factor of two."""
OWNERS_FIRST = (
    "This installation requires second factors. An owner must set one up first, to help others who lose theirs."
)


class LoginForm(forms.Form):
    """A name and a password."""

    name = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Type your name."})
    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Type your password."})


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """Show the sign-in form and the other ways; POST signs in. 422: name and password do not fit. 429: too often.

    ``?again=1``: the person is signed in and has to sign in again.
    """
    if request.method != "POST":
        if request.user.is_authenticated and read_next(request):
            request.session[AFTER] = read_next(request)
        return page(request, LoginForm())
    form = LoginForm(request.POST)
    if not form.is_valid():
        return page(request, form, 422)
    name = form.cleaned_data["name"]
    # By address, and by name: a name is guessed at from many addresses.
    counted = (address_subject(build_address(request)), name_subject(name))
    if wait := try_begin(*counted):
        sign_in_failed(name=name, address=build_address(request), how="too_often")
        form.add_error(
            None, f"Too many sign-ins were tried from your address or with this name: try again in {wait} s."
        )
        return too_often(page(request, form, 429), wait)
    user = password_sign_in(name=name, password=form.cleaned_data["password"])
    if user is None or is_other(request, user):
        sign_in_failed(name=name, address=build_address(request), how="password")
        log.warning("a sign-in was refused: the name and the password do not fit")
        form.add_error(None, "This name and password do not fit together: try again, or ask an owner for a new link.")
        return page(request, form, 422)
    try_forgive(*counted)
    return one_factor_shown(request, user, "password")


def page(request: HttpRequest, form: LoginForm, status: int = 200, problem: str = "") -> HttpResponse:
    """Return the page of all ways in. ``problem``: error of a way other than the form."""
    again = request.user.is_authenticated and ("again" in request.GET or request.method == "POST")
    known: dict[str, Any] = {
        "next": read_next(request),
        "form": form,
        "again": again,
        "name": form["name"].value() or "",
    }
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
    return render(request, "people/sign_in/page.html", {**known, **passkey_form(request)}, status=status)


def passkey_form(request: HttpRequest) -> dict[str, str]:
    """Return the data with which a page asks for a passkey; empty where there are no passkeys."""
    if not is_passkey_host(request):
        return {}
    asked, state = passkey_asked()
    return {"passkey_asked": asked, "passkey_state": state}


def is_passkey_host(request: HttpRequest) -> bool:
    """Return True if the page was opened under the host of the passkeys."""
    return passkey_host() != "" and urlsplit(f"//{request.get_host()}").hostname == passkey_host()


def is_other(request: HttpRequest, user: User) -> bool:
    """Return True if another user is signed in in this browser."""
    return request.user.is_authenticated and request.user.pk != user.pk


def one_factor_shown(request: HttpRequest, user: User, way: str, behind: str = "") -> HttpResponse:
    """Sign in, or ask for the second factor if the user has one. ``behind``: author of the link that was used."""
    if owners_first(user):
        return errors.page(request, 403, OWNERS_FIRST, errors.NO_MEMBER)
    if not has_factor(user):
        if way == "password":
            sign_in_told(user, way)
        return finish_sign_in(request, user, way, behind)
    # The hash: another password makes the half of a sign-in void as well.
    half = {
        "user": user.pk,
        "way": way,
        "at": time.time_ns() // 1_000,
        "is": user.get_session_auth_hash(),
    }
    request.session[HALF] = half | {"to": read_next(request)}
    return redirect("login-second")


def finish_sign_in(
    request: HttpRequest, user: User, way: str, behind: str = "", to: str = "", fresh_at: int | None = None
) -> HttpResponse:
    """Sign in, and redirect to the page that the visitor wanted."""
    to = to or read_next(request) or request.session.get(AFTER, "")
    sign_in(request, user, behind, way=way, fresh_at=fresh_at)
    for name in (AFTER, HALF):
        request.session.pop(name, None)
    return redirect(to or settings.LOGIN_REDIRECT_URL)


def too_often(answer: HttpResponse, wait: int) -> HttpResponse:
    """Return the answer with the seconds to wait in its header."""
    answer.headers["Retry-After"] = str(wait)
    return answer


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """Forget the session and close its sockets, in every tab and on every server."""
    mark = read_mark(request)
    if request.user.is_authenticated:
        try:
            sign_out_record(request.user)
        except DatabaseError as error:
            log.warning("a sign-out could not be noted in the audit stream: %s", error)
    auth.logout(request)
    if mark:
        close_sockets(mark)
    return redirect(settings.LOGIN_URL)


def read_next(request: HttpRequest) -> str:
    """Return the address that the visitor wanted; empty if it is not an address of this site."""
    given = request.POST.get("next") or request.GET.get("next", "")
    return given if is_ours(request, given) else ""


def is_ours(request: HttpRequest, address: str) -> bool:
    """Return True if an address belongs to this site."""
    return url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
