"""Signing in, by name and password or a one-time link, and out."""

from __future__ import annotations

import logging

from django import forms
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from console.client_address import address_of
from console.live.process import signed_out
from console.signed_in import sign_in
from console.views import errors
from fabric.services.sign_in import password_sign_in
from fabric.services.sign_in_trail import sign_in_failed
from fabric.services.sign_in_tries import of_address, of_name, try_begin, try_forgive
from fabric.services.workspaces import login_link_consume, login_link_maker, sign_out_record

log = logging.getLogger(__name__)
NAME_MAX, PASSWORD_MAX = 150, 1_024
AFTER = "after_sign_in"
"""Where in the session it stands to where somebody comes back who has to sign in once more."""


class LoginForm(forms.Form):
    """A name and a password."""

    name = forms.CharField(max_length=NAME_MAX, error_messages={"required": "Type your name."})
    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Type your password."})


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    """A form for name and password, and where the link is; ``?again=1`` for who is signed in and has to do it once more. 422: they do not fit; 429: too often."""
    if request.method != "POST":
        if request.user.is_authenticated and _next(request):
            request.session[AFTER] = _next(request)
        return _login(request, LoginForm())
    form = LoginForm(request.POST)
    if not form.is_valid():
        return _login(request, form, 422)
    name = form.cleaned_data["name"]
    # By address, and by name: a name is guessed at from many addresses.
    counted = (of_address(address_of(request)), of_name(name))
    if wait := try_begin(*counted):
        sign_in_failed(name=name, address=address_of(request), how="too_often")
        form.add_error(None, f"Too many sign-ins were tried from your address or with this name: go on in {wait} s.")
        answer = _login(request, form, 429)
        answer.headers["Retry-After"] = str(wait)
        return answer
    user = password_sign_in(name=name, password=form.cleaned_data["password"])
    if user is None or (request.user.is_authenticated and request.user.pk != user.pk):
        sign_in_failed(name=name, address=address_of(request), how="password")
        log.warning("a sign-in was refused: the name and the password do not fit")
        form.add_error(None, "This name and password do not fit together: try again, or ask an owner for a new link.")
        return _login(request, form, 422)
    try_forgive(*counted)
    return _signed_in(request, user)


def _login(request: HttpRequest, form: LoginForm, status: int = 200) -> HttpResponse:
    again = request.user.is_authenticated and ("again" in request.GET or request.method == "POST")
    known = {"next": _next(request), "form": form, "again": again, "name": form["name"].value() or ""}
    if again:
        known |= {
            "name": request.user.get_username(),
            "by_link": isinstance(request.user, User) and not request.user.has_usable_password(),
        }
    return render(request, "login/page.html", known, status=status)


def _signed_in(request: HttpRequest, user: User, behind: str = "") -> HttpResponse:
    """Signs in and goes on to where the visitor was."""
    to = _next(request) or request.session.get(AFTER, "")
    sign_in(request, user, behind)
    request.session.pop(AFTER, None)
    return redirect(to or settings.LOGIN_REDIRECT_URL)


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def login_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows a button, so that a link preview or a scanner does not use the link up; POST uses it."""
    if request.method != "POST":
        return render(request, "login/link.html", {"next": _next(request)})
    counted = of_address(address_of(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=address_of(request), how="too_often")
        message = f"Too many links were tried from your address, so this one was not looked at: go on in {wait} s."
        answer = errors.page(request, 429, message)
        answer.headers["Retry-After"] = str(wait)
        return answer
    user = login_link_consume(token)
    if user is None:
        sign_in_failed(name="", address=address_of(request), how="link")
        message = "The link was used before or has expired: python3 manage.py bootstrap prints a new one where it was started."
        return errors.page(request, 410, message)
    try_forgive(counted)
    return _signed_in(request, user, login_link_maker(token))


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """Forget the session and close its sockets, in every tab and on every server."""
    mark = request.session.get("mark", "")
    if request.user.is_authenticated:
        try:
            sign_out_record(request.user)
        except DatabaseError as error:
            log.warning("a sign-out could not be noted in the audit stream: %s", error)
    auth.logout(request)
    if mark:
        signed_out(mark)
    return redirect(settings.LOGIN_URL)


def _next(request: HttpRequest) -> str:
    """Where the visitor was going; only an address of this site."""
    given = request.POST.get("next") or request.GET.get("next", "")
    hosts = {request.get_host()}
    return given if url_has_allowed_host_and_scheme(given, hosts, require_https=request.is_secure()) else ""
