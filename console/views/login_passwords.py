"""Another password for who has forgotten theirs: asked for by mail, and chosen by the link that comes."""

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
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.client_address import address_of
from console.forms import sentence
from console.live.process import signed_out
from console.views import errors
from console.views.login import AFTER, next_of, too_often
from fabric.selectors.errors import Refused
from fabric.services.notification_members import mails
from fabric.services.password_links import password_link_of, password_link_send, password_link_use
from fabric.services.sign_in_tries import of_address, of_name, try_begin

RECOVERING = "recovering"
"""Where in the session the token of the link stands by which somebody chooses another password."""
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
        """The same once more."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The two passwords are not the same: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def recover(request: HttpRequest) -> HttpResponse:
    """Asks whom a link is for; a POST answers the same whether there is such a person. 422: nothing was typed; 429: too often."""
    form = AskForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" and next_of(request):
        # It waits in this browser, and not in the mail: others may ask for that, with an address of their own.
        request.session[AFTER] = next_of(request)
    if request.method != "POST" or not mails() or not form.is_valid():
        return _asking(request, form, 422 if request.method == "POST" else 200)
    wanted = unicodedata.normalize("NFC", form.cleaned_data["wanted"])
    # Every one counts, whoever it is for: mail is sent to somebody who may not have asked.
    if wait := try_begin(of_address(address_of(request)), of_name(f"recover:{wanted}")):
        form.add_error(None, f"Too many links were asked for: go on in {wait} s.")
        return too_often(_asking(request, form, 429), wait)
    base = settings.FABRIC_PUBLIC_URL.rstrip("/") + reverse("login-link")
    password_link_send(wanted, link=lambda token: f"{base}#{token}")
    return render(request, "login/recover.html", {"asked": True, "mails": True})


@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def choose(request: HttpRequest) -> HttpResponse:
    """A form for another password, for who came by a link; a POST takes it. 410: the link works no more; 422: a field cannot be taken."""
    form = ChooseForm(request.POST if request.method == "POST" else None)
    token = request.session.get(RECOVERING, "")
    user = password_link_of(token)
    if user is None:
        return errors.page(request, 410, USED)
    if request.method != "POST" or not form.is_valid():
        return _choosing(request, form, user.get_username(), 422 if request.method == "POST" else 200)
    try:
        ended = password_link_use(token, form.cleaned_data["password"])
    except Refused as refusal:
        for problem in refusal.problems:
            form.add_error("password", sentence(problem))
        return _choosing(request, form, user.get_username(), 422)
    if ended is None:
        return errors.page(request, 410, USED)
    request.session.pop(RECOVERING, None)
    for mark in ended:
        signed_out(mark)
    messages.success(request, "Your password is changed, and your sign-ins are over: sign in with it.")
    return redirect("login")


def _asking(request: HttpRequest, form: AskForm, status: int) -> HttpResponse:
    return render(request, "login/recover.html", {"form": form, "asked": False, "mails": mails()}, status=status)


def _choosing(request: HttpRequest, form: ChooseForm, who: str, status: int) -> HttpResponse:
    shown = {"form": form, "who": who, "rules": password_validators_help_texts()}
    return render(request, "login/password.html", shown, status=status)
