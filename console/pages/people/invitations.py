"""Accepts an invitation: with a new name and password, or with the account that is signed in."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from console.site.access.sessions import sign_in
from console.site.errors import pages as errors
from console.site.requests.client_address import build_address
from console.site.sentences import sentence
from fabric.core.people.roles import MEANS, Role, held_in
from fabric.models import Invitation
from fabric.selectors.errors import Refused
from fabric.services.people.invitations import TOKEN_CHARS_MAX, invitation_accept, invitation_find, invitation_join
from fabric.services.people.sign_in.attempts import address_subject, try_begin, try_forgive

PASSWORD_MAX = 1_024
INVITED = "invited"
"""Session key of the token of an opened invitation."""


class AcceptForm(forms.Form):
    """Form with a new name and password."""

    name = forms.CharField(max_length=150, error_messages={"required": "Choose a name."})
    password = forms.CharField(max_length=PASSWORD_MAX, strip=False, error_messages={"required": "Choose a password."})
    again = forms.CharField(max_length=PASSWORD_MAX, strip=False, required=False)

    def clean_again(self) -> str:
        """Return the repeated password. Raises ValidationError if it differs."""
        if self.cleaned_data.get("password") and self.cleaned_data["again"] != self.cleaned_data["password"]:
            raise forms.ValidationError("The passwords differ: type both again.")
        return str(self.cleaned_data["again"])


@never_cache
@sensitive_post_parameters("password", "again", "token")
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest) -> HttpResponse:
    """Show an invitation and its form; POST makes a member.

    409: the person is a member already. 410: the link has expired or was used. 422: an invalid field. The link's
    token stands behind the ``#``. The page posts it (``token``), and the session keeps it.
    """
    if "token" in request.POST:
        request.session[INVITED] = request.POST["token"].strip()[:TOKEN_CHARS_MAX]
        return redirect("invitation")
    token = request.session.get(INVITED, "")
    if not token and request.method != "POST":
        return render(request, "people/invitations/link.html")
    counted = address_subject(build_address(request))
    if wait := try_begin(counted):
        answer = errors.page(request, 429, f"Too many links were tried from your address: try again in {wait} s.")
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
        return _render_refusal(request, found, form, refusal)
    request.session.pop(INVITED, None)
    sign_in(request, user, way="invitation")
    return redirect(settings.LOGIN_REDIRECT_URL)


def _join(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    try:
        invitation_join(token=token, user=User.objects.get(username=request.user.get_username()))
    except Refused as refusal:
        return _render_refusal(request, found, AcceptForm(), refusal)
    request.session.pop(INVITED, None)
    return redirect(settings.LOGIN_REDIRECT_URL)


def _render_refusal(request: HttpRequest, found: Invitation, form: AcceptForm, refusal: Refused) -> HttpResponse:
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
    return render(request, "people/invitations/invitation.html", shown, status=status)
