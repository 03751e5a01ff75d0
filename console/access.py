"""Who may use which address: one table, enforced in one place. An address without a row is closed, and a test names it."""

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

from console import drilled
from console.api import callers
from console.placed import placed
from console.route_policies import ENROLLING, FORMS, ROUTES, Policy
from console.route_rights import refused_at_door
from console.signed_in import PROVIDER_AWAY, actor_at, actor_in, is_provider_away
from console.views import errors
from fabric.core.actor import Actor
from fabric.runtime.ports import StoreUnavailable
from fabric.selectors.errors import Refused
from fabric.services.second_factors import SECOND_FACTOR

OWNER = "owner"
"""The role of who owns the installation."""

FOR_STAFF = "This page is for staff: ask the owner of this installation."


def actor_of(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """The actor that services and selectors take, for the signed-in user of a request: looked up once for it.

    PermissionDenied for nobody, Refused for who is no member.
    """
    if not user.is_authenticated or not user.is_active:
        raise PermissionDenied
    return actor_in(user)


def actor_on_run(request: HttpRequest) -> Actor:
    """Who acts on the run that the address names: of a drill's run, who looks on in the workspace of drills."""
    found: Actor = request.actor_on_run  # type: ignore[attr-defined]
    return found


def _enter(request: HttpRequest, route: str, run_id: str) -> None:
    request.actor_on_run = drilled.actor_on(actor_of(request.user), route, run_id)  # type: ignore[attr-defined]


def _place(request: HttpRequest, match: ResolverMatch) -> None:
    """From here on who calls acts at the fabric that the address is about, and on the run."""
    actor_at(request.user, placed(actor_of(request.user), match.view_name, match.kwargs))
    if "run_id" in match.kwargs:
        _enter(request, match.view_name, str(match.kwargs["run_id"]))


def is_staff(user: AbstractBaseUser | AnonymousUser, actor: Actor | None = None) -> bool:
    """Whether a signed-in user looks after the installation. ``actor``: the user's, where the caller has it already."""
    return bool(getattr(user, "is_staff", False)) or OWNER in (actor or actor_of(user)).roles


class AccessMiddleware:
    """Holds every view to its row of ``ROUTES``, and turns a refusal that no view handled into its page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request; what is shown to somebody is kept by no cache in between."""
        response = self._get_response(request)
        if response.status_code == 405 and not response.content:
            response = errors.not_allowed(request, response.headers.get("Allow", ""))
        route = request.resolver_match.view_name if request.resolver_match else ""
        response.headers.setdefault("Cache-Control", "private, no-cache" if route in FORMS else "private, no-store")
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Let through, send to the login page, or refuse."""
        match = request.resolver_match
        policy = ROUTES.get(match.view_name) if match else None
        if policy is Policy.PUBLIC:
            return None
        if policy is Policy.API and match:
            return callers.admit(request, match.view_name)
        if policy is None:
            raise PermissionDenied(f"the address {request.path} has no access policy")
        try:
            allowed = _meets(policy, request.user)
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
        """A refusal's page; None leaves other exceptions to Django."""
        if isinstance(exception, Refused):
            return errors.refused(request, exception)
        if isinstance(exception, DatabaseError | StoreUnavailable):
            return errors.database_away(request, exception)
        return None


def _strangers_answer(request: HttpRequest) -> HttpResponse:
    """What is answered to who is not signed in, and would have to be."""
    if is_provider_away(request):
        return errors.page(request, 503, PROVIDER_AWAY)
    if request.headers.get("HX-Request"):
        return errors.page(request, 401, "You are signed out. Sign in again in another tab, then send this again.")
    asked = request.method == "GET" and request.path != settings.LOGIN_REDIRECT_URL
    following = {"next": request.get_full_path()} if asked else {}
    return HttpResponseRedirect(settings.LOGIN_URL + (f"?{urlencode(following)}" if following else ""))


def _enrolment(request: HttpRequest, route: str, refusal: Refused) -> HttpResponse | None:
    """Leads who has to set up a second factor to where that is done, and lets them through there."""
    if route in ENROLLING:
        return None
    if request.headers.get("HX-Request") or request.method != "GET":
        return errors.page(request, 403, refusal.message)
    return HttpResponseRedirect(reverse("security"))


def _why_not(request: HttpRequest, policy: Policy) -> str:
    """Why somebody who meets an address's policy may not use it so, by their rights; empty: they may."""
    match = request.resolver_match
    if policy is Policy.ACCOUNT or match is None:
        return ""
    return refused_at_door(actor_of(request.user), match.view_name, request.method or "")


def _meets(policy: Policy, user: AbstractBaseUser | AnonymousUser) -> bool | None:
    """Whether a signed-in user meets the policy; None for nobody. Refused for who is no member where that is asked."""
    if not user.is_authenticated:
        return None
    if policy is Policy.ACCOUNT:
        return True
    actor = actor_of(user)
    return policy is not Policy.STAFF or is_staff(user, actor)
