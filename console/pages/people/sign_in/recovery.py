"""Signs people in by links: a one-time link, and a mail in place of a forgotten password.

The token of a one-time link stands behind the ``#``, which no browser sends: no log and no proxy has it (OWASP ASVS 5.0
14.2.1).
"""

from __future__ import annotations

import unicodedata

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.password_validation import password_validators_help_texts
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from console.live.hub import close_sockets
from console.pages.people.sign_in.views import AFTER, is_other, one_factor_shown, read_next, too_often
from console.site.errors import pages as errors
from console.site.requests.client_address import build_address
from console.site.sentences import sentence
from fabric.program.name import program
from fabric.selectors.errors import Refused
from fabric.services.actors import TOKEN_CHARS_MAX, login_link_consume, login_link_maker
from fabric.services.notifications.member_mail import mails
from fabric.services.people.sign_in.attempts import (
    address_subject,
    name_subject,
    sign_in_failed,
    try_begin,
    try_forgive,
)
from fabric.services.people.sign_in.credentials import find_password_link, password_link_send, password_link_use
from fabric.services.people.sign_in.second_factors import comes_by_provider

RECOVERING = "recovering"
"""Session key of the token with which a person chooses a new password."""
PASSWORD_MAX = 1_024
USED = "The link was used before or has expired: ask for another one on the page of signing in."


class AskForm(forms.Form):
    """A name or a mail address."""

    wanted = forms.CharField(max_length=254, error_messages={"required": "Type your name or your mail address."})


class ChooseForm(forms.Form):
    """A password, twice."""

    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Choose a password."})
    again = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)

    def clean_again(self) -> str:
        """Return the repeated password. Raises ValidationError if it differs."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The passwords differ: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def recover(request: HttpRequest) -> HttpResponse:
    """Ask for the name of a person; POST mails a link. The answer does not reveal if the person exists.

    422: nothing was typed. 429: too often.
    """
    form = AskForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" and read_next(request):
        # It waits in this browser, and not in the mail: others may ask for that, with an address of their own.
        request.session[AFTER] = read_next(request)
    if request.method != "POST" or not mails() or not form.is_valid():
        return _asking_page(request, form, 422 if request.method == "POST" else 200)
    wanted = unicodedata.normalize("NFC", form.cleaned_data["wanted"])
    # Every request counts, for any name: the mail may go to a person who did not ask for it.
    if wait := try_begin(address_subject(build_address(request)), name_subject(f"recover:{wanted}")):
        form.add_error(None, f"Too many links were requested: try again in {wait} s.")
        return too_often(_asking_page(request, form, 429), wait)
    base = settings.FABRIC_PUBLIC_URL.rstrip("/") + reverse("login-link")
    password_link_send(wanted, link=lambda token: f"{base}#{token}")
    return render(request, "people/sign_in/recover.html", {"asked": True, "mails": True})


@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """Show the form for a new password, reached by a link; POST sets it. 410: the link works no more. 422: invalid
    field.
    """
    form = ChooseForm(request.POST if request.method == "POST" else None)
    token = request.session.get(RECOVERING, "")
    user = find_password_link(token)
    if user is None:
        return errors.page(request, 410, USED)
    if request.method != "POST" or not form.is_valid():
        return _choosing_page(request, form, user.get_username(), 422 if request.method == "POST" else 200)
    try:
        ended = password_link_use(token, form.cleaned_data["password"])
    except Refused as refusal:
        for problem in refusal.problems:
            form.add_error("password", sentence(problem))
        return _choosing_page(request, form, user.get_username(), 422)
    if ended is None:
        return errors.page(request, 410, USED)
    request.session.pop(RECOVERING, None)
    for mark in ended:
        close_sockets(mark)
    messages.success(request, "Your password is changed, and your sign-ins are over: sign in with it.")
    return redirect("login")


def _asking_page(request: HttpRequest, form: AskForm, status: int) -> HttpResponse:
    return render(
        request, "people/sign_in/recover.html", {"form": form, "asked": False, "mails": mails()}, status=status
    )


def _choosing_page(request: HttpRequest, form: ChooseForm, who: str, status: int) -> HttpResponse:
    shown = {"form": form, "who": who, "rules": password_validators_help_texts()}
    return render(request, "people/sign_in/password.html", shown, status=status)


LINK_USED = f"The link was used before or has expired: {program()} bootstrap prints a new one where it was started."


@never_cache
@sensitive_post_parameters("token")
@require_http_methods(["GET", "HEAD", "POST"])
def login_link(request: HttpRequest) -> HttpResponse:
    """Show a button, so that link previews and scanners do not use the link up; POST signs in.

    410: the link has expired or was used. 429: too many attempts.
    """
    if request.method != "POST":
        return render(request, "people/sign_in/link.html", {"next": read_next(request)})
    return _use_link(request, request.POST.get("token", "").strip())


@sensitive_variables("token")
def _use_link(request: HttpRequest, token: str) -> HttpResponse:
    counted = address_subject(build_address(request))
    if wait := try_begin(counted):
        sign_in_failed(name="", address=build_address(request), how="too_often")
        message = f"Too many links were tried from your address, so this one was not checked: try again in {wait} s."
        return too_often(errors.page(request, 429, message), wait)
    if len(token) <= TOKEN_CHARS_MAX and find_password_link(token) is not None:
        try_forgive(counted)
        request.session[RECOVERING] = token
        return redirect("login-password")
    user = login_link_consume(token)
    if user is None:
        sign_in_failed(name="", address=build_address(request), how="link")
        return errors.page(request, 410, LINK_USED)
    try_forgive(counted)
    if is_other(request, user):
        return errors.page(request, 409, "Another person is signed in here: sign out and ask for a new link.")
    if comes_by_provider(user):
        return errors.page(request, 403, "You sign in with your organisation; links no longer work for you.")
    return one_factor_shown(request, user, "link", login_link_maker(token))
