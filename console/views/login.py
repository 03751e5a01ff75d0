"""Signing in by a one-time link, and out."""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib import auth
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.live.process import signed_out
from console.signed_in import sign_in_begin
from console.throttle import LOGIN, count, give_back
from console.views import errors
from fabric.services.workspaces import login_link_consume, sign_out_record

log = logging.getLogger(__name__)
BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_safe
def login(request: HttpRequest) -> HttpResponse:
    """Say where the link is."""
    return render(request, "login/page.html", {"next": _next(request)})


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def login_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows a button, so that a link preview or a scanner does not use the link up; POST uses it."""
    if request.method != "POST":
        return render(request, "login/link.html", {"next": _next(request)})
    address = str(request.META.get("REMOTE_ADDR", ""))
    wait = count(LOGIN, address)
    if wait:
        message = f"Too many links were tried from your address, so this one was not looked at: go on in {wait} s."
        answer = errors.page(request, 429, message)
        answer.headers["Retry-After"] = str(wait)
        return answer
    user = login_link_consume(token)
    if user is None:
        message = "The link was used before or has expired: python3 manage.py bootstrap prints a new one where it was started."
        return errors.page(request, 410, message)
    give_back(LOGIN, address)
    auth.login(request, user, backend=BACKEND)
    sign_in_begin(request.session)
    return redirect(_next(request) or settings.LOGIN_REDIRECT_URL)


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
