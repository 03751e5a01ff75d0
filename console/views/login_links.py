"""Signing in by a one-time link. Its token stands behind the ``#``, which no browser sends: no log and no proxy has it (OWASP ASVS 5.0 14.2.1)."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from console.client_address import address_of
from console.views import errors
from console.views.login import is_other, next_of, one_factor_shown, too_often
from console.views.login_passwords import RECOVERING
from fabric.services.password_links import password_link_of
from fabric.services.second_factors import comes_by_provider
from fabric.services.sign_in_trail import sign_in_failed
from fabric.services.sign_in_tries import of_address, try_begin, try_forgive
from fabric.services.workspaces import TOKEN_CHARS_MAX, login_link_consume, login_link_maker

USED = "The link was used before or has expired: python3 manage.py bootstrap prints a new one where it was started."


@never_cache
@sensitive_post_parameters("token")
@require_http_methods(["GET", "HEAD", "POST"])
def login_link(request: HttpRequest) -> HttpResponse:
    """GET shows a button, so that a link preview or a scanner does not use the link up; POST uses it. 410: it works no more; 429: too many were tried."""
    if request.method != "POST":
        return render(request, "login/link.html", {"next": next_of(request)})
    return _used(request, request.POST.get("token", "").strip())


@sensitive_variables("token")
def _used(request: HttpRequest, token: str) -> HttpResponse:
    counted = of_address(address_of(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=address_of(request), how="too_often")
        message = f"Too many links were tried from your address, so this one was not looked at: go on in {wait} s."
        return too_often(errors.page(request, 429, message), wait)
    if len(token) <= TOKEN_CHARS_MAX and password_link_of(token) is not None:
        try_forgive(counted)
        request.session[RECOVERING] = token
        return redirect("login-password")
    user = login_link_consume(token)
    if user is None:
        sign_in_failed(name="", address=address_of(request), how="link")
        return errors.page(request, 410, USED)
    try_forgive(counted)
    if is_other(request, user):
        return errors.page(request, 409, "Somebody else is signed in here: sign out, and ask for a new link.")
    if comes_by_provider(user):
        return errors.page(request, 403, "You sign in by the provider of identities: a link lets you in no more.")
    return one_factor_shown(request, user, "link", login_link_maker(token))
