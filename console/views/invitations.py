"""Accepting an invitation: by a new name and password, or with the account in which somebody is signed in."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from console.client_address import address_of
from console.forms import sentence
from console.signed_in import sign_in
from console.views import errors
from fabric.core.roles import MEANS, Role, held_in
from fabric.models import Invitation
from fabric.selectors.errors import Refused
from fabric.services.invitations import TOKEN_CHARS_MAX, invitation_accept, invitation_find, invitation_join
from fabric.services.sign_in_tries import of_address, try_begin, try_forgive

PASSWORD_MAX = 1_024
INVITED = "invited"
"""Where in the session the token of an invitation stands that was opened."""


class AcceptForm(forms.Form):
    """A name and a password that somebody chooses."""

    name = forms.CharField(max_length=150, error_messages={"required": "Choose a name."})
    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Choose a password."})
    again = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)

    def clean_again(self) -> str:
        """The same once more."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The two passwords are not the same: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@sensitive_post_parameters("password", "again", "token")
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest) -> HttpResponse:
    """What one is invited to, and a form; a POST makes a member. 410: the link works no more; 409: they are a member already; 422: a field cannot be taken.

    The link's token stands behind the ``#``; the page posts it (``token``), and it is kept in the session.
    """
    if "token" in request.POST:
        request.session[INVITED] = request.POST["token"].strip()[:TOKEN_CHARS_MAX]
        return redirect("invitation")
    token = request.session.get(INVITED, "")
    if not token and request.method != "POST":
        return render(request, "login/invited.html")
    counted = of_address(address_of(request))
    if wait := try_begin(counted):
        answer = errors.page(request, 429, f"Too many links were tried from your address: go on in {wait} s.")
        answer.headers["Retry-After"] = str(wait)
        return answer
    try:
        found = invitation_find(token)
    except Refused as refusal:
        request.session.pop(INVITED, None)
        return errors.page(request, 410, refusal.message)
    try_forgive(counted)
    if request.method != "POST":
        return _page(request, found, AcceptForm())
    if request.POST.get("as") == "me" and request.user.is_authenticated:
        return _join(request, found, token)
    form = AcceptForm(request.POST)
    if not form.is_valid():
        return _page(request, found, form, 422)
    try:
        user = invitation_accept(token=token, name=form.cleaned_data["name"], password=form.cleaned_data["password"])
    except Refused as refusal:
        return _refused(request, found, form, refusal)
    request.session.pop(INVITED, None)
    sign_in(request, user, way="invitation")
    return redirect(settings.LOGIN_REDIRECT_URL)


def _join(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    try:
        invitation_join(token=token, user=User.objects.get(username=request.user.get_username()))
    except Refused as refusal:
        return _refused(request, found, AcceptForm(), refusal)
    request.session.pop(INVITED, None)
    return redirect(settings.LOGIN_REDIRECT_URL)


def _refused(request: HttpRequest, found: Invitation, form: AcceptForm, refusal: Refused) -> HttpResponse:
    if refusal.code == "not_found":
        return errors.page(request, 410, refusal.message)
    form = form if form.is_bound else AcceptForm({"name": "-", "password": "-", "again": "-"})
    form.is_valid()
    for problem in refusal.problems:
        form.add_error(
            refusal.field if form.data.get("name") != "-" and refusal.field in form.fields else None, sentence(problem)
        )
    return _page(request, found, form, errors.STATUS[refusal.code])


def _page(request: HttpRequest, found: Invitation, form: AcceptForm, status: int = 200) -> HttpResponse:
    held = held_in(found.roles)
    roles = [
        (role, MEANS[Role(role)] if role in tuple(Role) else "fabrics ask for it by this name") for role in sorted(held)
    ]
    name = form["name"].value() or ""
    shown = {"found": found, "roles": roles, "form": form, "name": "" if name == "-" else name}
    return render(request, "login/invitation.html", shown, status=status)
