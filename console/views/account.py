"""One's own account: another password, and where the rest of what is one's own stands."""

from __future__ import annotations

import time

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.forms import sentence
from console.live.process import signed_out
from console.signed_in import actor_in, mark_of
from console.views import errors
from console.views.notification_rows import TOLD
from fabric.core.actor import Actor
from fabric.outbox import mails
from fabric.selectors.errors import Refused
from fabric.selectors.members import member_get
from fabric.selectors.notifications import mail_of
from fabric.services.second_factors import comes_by_provider
from fabric.services.sign_in import password_change
from fabric.services.sign_in_tries import of_name, try_begin, try_forgive

PASSWORD_MAX = 1_024


class PasswordForm(forms.Form):
    """The password that somebody has, and the one that they choose, twice."""

    old = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)
    password = forms.CharField(
        max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Choose a new password."}
    )
    again = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)

    def clean_again(self) -> str:
        """The same once more."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The two passwords are not the same: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@sensitive_post_parameters("old", "password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """What is one's own; a POST changes the password. 403: a first one needs a fresh sign-in; 422: a field cannot be taken; 429: too often wrong."""
    actor = actor_in(request.user, enrolling=True)
    if request.method != "POST":
        return _page(request, actor, PasswordForm())
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _page(request, actor, form, 422)
    counted = of_name(actor.name)  # As for signing in: it is the same password that is guessed at.
    if wait := try_begin(counted):
        form.add_error(None, f"Too many passwords were tried: go on in {wait} s.")
        answer = _page(request, actor, form, 429)
        answer.headers["Retry-After"] = str(wait)
        return answer
    user = User.objects.get(username=actor.name)
    try:
        new = {"old": form.cleaned_data["old"], "new": form.cleaned_data["password"]}
        ended = password_change(actor=actor, user=user, mark=mark_of(request), **new)
    except Refused as refusal:
        if refusal.field != "old":
            try_forgive(counted)
        for problem in refusal.problems:
            form.add_error(refusal.field if refusal.field in form.fields else None, sentence(problem))
        return _page(request, actor, form, errors.STATUS[refusal.code])
    try_forgive(counted)
    for mark in ended:
        signed_out(mark)
    update_session_auth_hash(request, user)  # This browser stays; every other one has to sign in anew.
    messages.success(
        request, "Your password is changed. Every other browser in which you were signed in is signed out."
    )
    return redirect("account")


def _page(request: HttpRequest, actor: Actor, form: PasswordForm, status: int = 200) -> HttpResponse:
    mail = mail_of(actor)
    shown = {
        "form": form,
        "has": User.objects.get(username=actor.name).has_usable_password(),
        "behind": "".join(actor.behind),
        "by_provider": comes_by_provider(User.objects.get(username=actor.name)),
        "rules": password_validators_help_texts(),
        "me": member_get(actor, actor.name),
        "mail": mail,
        "wants": [TOLD[one].lower() for one in mail.wants] if mail else [],
        "mails": mails(),
        "now_ms": time.time_ns() // 1_000_000,
    }
    return render(request, "members/account.html", shown, status=status)
