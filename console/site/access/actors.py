"""Enforces the table of access policies for every address. An address without a row is closed, and a test names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import ResolverMatch, reverse

from console.site.access import callers
from console.site.access import fabric_roles as drilled
from console.site.access.fabric_roles import place_actor
from console.site.access.policies import ENROLLING, FORMS, ROUTES, Policy
from console.site.access.rights import explain_refusal
from console.site.access.sessions import PROVIDER_AWAY, actor_at, actor_in, is_provider_away
from console.site.errors import pages as errors
from fabric.core.people.actor import Actor
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.selectors.errors import Refused
from fabric.services.people.sign_in.second_factors import SECOND_FACTOR

OWNER = "owner"
"""Role of the installation's owner."""

FOR_STAFF = "This page is for staff: ask the owner of this installation."


def find_actor(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """Return the actor of a request's signed-in user; looked up once for each request.

    Raises PermissionDenied without a user, and Refused for a user who is no member.
    """
    if not user.is_authenticated or not user.is_active:
        raise PermissionDenied
    return actor_in(user)


def actor_on_run(request: HttpRequest) -> Actor:
    """Return the actor on the run that the address names. On a drill's run it is a viewer in the workspace of
    drills.
    """
    found: Actor = request.actor_on_run  # type: ignore[attr-defined]
    return found


def _enter(request: HttpRequest, route: str, run_id: str) -> None:
    request.actor_on_run = drilled.actor_on(find_actor(request.user), route, run_id)  # type: ignore[attr-defined]


def _place(request: HttpRequest, match: ResolverMatch) -> None:
    """Bind the actor of the request to the fabric of its address, and to the run."""
    actor_at(request.user, place_actor(find_actor(request.user), match.view_name, match.kwargs))
    if "run_id" in match.kwargs:
        _enter(request, match.view_name, str(match.kwargs["run_id"]))


def is_staff(user: AbstractBaseUser | AnonymousUser, actor: Actor | None = None) -> bool:
    """Return True if a user is staff of the installation. ``actor``: the user's, if the caller has it already."""
    return bool(getattr(user, "is_staff", False)) or OWNER in (actor or find_actor(user)).roles


class AccessMiddleware:
    """Enforces each view's row of ``ROUTES``, and turns an unhandled refusal into its page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, and forbid caches in between to store pages of a signed-in user."""
        response = self._get_response(request)
        if response.status_code == 405 and not response.content:
            response = errors.not_allowed(request, response.headers.get("Allow", ""))
        route = request.resolver_match.view_name if request.resolver_match else ""
        response.headers.setdefault("Cache-Control", "private, no-cache" if route in FORMS else "private, no-store")
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Admit the request, redirect to the sign-in page, or refuse."""
        match = request.resolver_match
        policy = ROUTES.get(match.view_name) if match else None
        if policy is Policy.PUBLIC:
            return None
        if policy is Policy.API and match:
            return callers.admit(request, match.view_name)
        if policy is None:
            raise PermissionDenied(f"the address {request.path} has no access policy")
        try:
            allowed = _meets_policy(policy, request.user)
        except DatabaseError as error:
            return errors.database_away(request, error)
        except Refused as refusal:
            if refusal.field == SECOND_FACTOR:
                return _enrolment(request, match.view_name if match else "", refusal)
            return errors.page(request, 403, refusal.message, errors.NO_MEMBER)
        try:
            if allowed and match and policy is not Policy.ACCOUNT:
                _place(request, match)
        except DatabaseError as error:
            return errors.database_away(request, error)
        except Refused as refusal:
            shown = errors.DRILLS_RUN if refusal.field == "run" else None
            request.out_of_place = refusal.field == "fabric"  # type: ignore[attr-defined]
            return errors.page(request, errors.STATUS[refusal.code], refusal.message, shown)
        if allowed is not None:
            why = _why_not(request, policy) if allowed else FOR_STAFF
            return errors.page(request, 403, why) if why else None
        return _strangers_answer(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the page of a refusal; None leaves other exceptions to Django."""
        if isinstance(exception, Refused):
            return errors.render_refusal(request, exception)
        if isinstance(exception, DatabaseError | StoreUnavailable):
            return errors.database_away(request, exception)
        return None


def _strangers_answer(request: HttpRequest) -> HttpResponse:
    """Return the answer to a request without a sign-in at an address that needs one."""
    if is_provider_away(request):
        return errors.page(request, 503, PROVIDER_AWAY)
    if request.headers.get("HX-Request"):
        return errors.page(request, 401, "You are signed out. Sign in again in another tab, then send this again.")
    asked = request.method == "GET" and request.path != settings.LOGIN_REDIRECT_URL
    following = {"next": request.get_full_path()} if asked else {}
    return HttpResponseRedirect(settings.LOGIN_URL + (f"?{urlencode(following)}" if following else ""))


def _enrolment(request: HttpRequest, route: str, refusal: Refused) -> HttpResponse | None:
    """Redirect a user who has to set up a second factor to its page; None if they are there."""
    if route in ENROLLING:
        return None
    if request.headers.get("HX-Request") or request.method != "GET":
        return errors.page(request, 403, refusal.message)
    return HttpResponseRedirect(reverse("security"))


def _why_not(request: HttpRequest, policy: Policy) -> str:
    """Return why the actor's rights forbid this use of the address; empty if they allow it."""
    match = request.resolver_match
    if policy is Policy.ACCOUNT or match is None:
        return ""
    return explain_refusal(find_actor(request.user), match.view_name, request.method or "")


def _meets_policy(policy: Policy, user: AbstractBaseUser | AnonymousUser) -> bool | None:
    """Return True if a signed-in user meets the policy; None without a user.

    Raises Refused for a user who is no member, where the policy needs one.
    """
    if not user.is_authenticated:
        return None
    if policy is Policy.ACCOUNT:
        return True
    actor = find_actor(user)
    return policy is not Policy.STAFF or is_staff(user, actor)
