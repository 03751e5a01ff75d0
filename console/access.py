"""Who may use which address: one table, enforced in one place. An address without a row is closed, and a test names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from console import drilled
from console.api import callers
from console.route_rights import refused_at_door
from console.signed_in import actor_in
from console.views import errors
from fabric.core.actor import Actor
from fabric.runtime.ports import StoreUnavailable
from fabric.selectors.errors import Refused


class Policy(StrEnum):
    """What an address asks of whoever calls it. What exactly they may see there is the selectors' business."""

    PUBLIC = "public"
    SIGNED_IN = "signed_in"
    """A member of the workspace."""
    ACCOUNT = "account"
    """Whoever is signed in, a member or not."""
    API = "api"
    """A bearer token or a session, and the operation's scope (``console.api.callers``)."""
    STAFF = "staff"
    """Who looks after the installation: Django's staff, and the local owner."""


ROUTES: Mapping[str, Policy] = {
    "healthz": Policy.PUBLIC,
    "login": Policy.PUBLIC,
    "login-link": Policy.PUBLIC,
    "logout": Policy.ACCOUNT,
    "invitation": Policy.PUBLIC,
    "members": Policy.SIGNED_IN,
    "member-invite": Policy.SIGNED_IN,
    "member-service": Policy.SIGNED_IN,
    "member": Policy.SIGNED_IN,
    "invitation-revoke": Policy.SIGNED_IN,
    "token-create": Policy.SIGNED_IN,
    "token-revoke": Policy.SIGNED_IN,
    "account": Policy.SIGNED_IN,
    "overview": Policy.SIGNED_IN,
    "overview-live": Policy.SIGNED_IN,
    "overview-card": Policy.SIGNED_IN,
    "start": Policy.SIGNED_IN,
    "runs": Policy.SIGNED_IN,
    "runs-news": Policy.SIGNED_IN,
    "run": Policy.SIGNED_IN,
    "run-cancel": Policy.SIGNED_IN,
    "run-terminate": Policy.SIGNED_IN,
    "run-pause": Policy.SIGNED_IN,
    "run-resume": Policy.SIGNED_IN,
    "run-say": Policy.SIGNED_IN,
    "run-context": Policy.SIGNED_IN,
    "run-fork": Policy.SIGNED_IN,
    "run-export": Policy.SIGNED_IN,
    "run-scenario": Policy.SIGNED_IN,
    "run-question": Policy.SIGNED_IN,
    "run-event": Policy.SIGNED_IN,
    "run-event-json": Policy.SIGNED_IN,
    "run-event-reveal": Policy.SIGNED_IN,
    "run-events-download": Policy.SIGNED_IN,
    "reviews": Policy.SIGNED_IN,
    "reviews-news": Policy.SIGNED_IN,
    "reviews-history": Policy.SIGNED_IN,
    "reviews-export": Policy.SIGNED_IN,
    "audit": Policy.SIGNED_IN,
    "audit-news": Policy.SIGNED_IN,
    "audit-record": Policy.SIGNED_IN,
    "audit-export": Policy.SIGNED_IN,
    "audit-holds": Policy.SIGNED_IN,
    "review": Policy.SIGNED_IN,
    "reviews-next": Policy.SIGNED_IN,
    "reviews-together": Policy.SIGNED_IN,
    "review-changes": Policy.SIGNED_IN,
    "review-reveal": Policy.SIGNED_IN,
    "review-claim": Policy.SIGNED_IN,
    "review-release": Policy.SIGNED_IN,
    "review-reassign": Policy.SIGNED_IN,
    "review-beat": Policy.SIGNED_IN,
    "review-close": Policy.SIGNED_IN,
    "decide": Policy.SIGNED_IN,
    "decision-undo": Policy.SIGNED_IN,
    "decision-continue": Policy.SIGNED_IN,
    "drills": Policy.SIGNED_IN,
    "drills-live": Policy.SIGNED_IN,
    "drills-ask": Policy.SIGNED_IN,
    "drills-runs": Policy.SIGNED_IN,
    "drills-stop": Policy.SIGNED_IN,
    "drills-lever": Policy.SIGNED_IN,
    "drills-schedules": Policy.SIGNED_IN,
    "drills-schedule": Policy.SIGNED_IN,
    "drill": Policy.SIGNED_IN,
    "drill-live": Policy.SIGNED_IN,
    "scenarios": Policy.SIGNED_IN,
    "scenario": Policy.SIGNED_IN,
    "scenario-new": Policy.SIGNED_IN,
    "scenario-live": Policy.SIGNED_IN,
    "scenario-ask": Policy.SIGNED_IN,
    "scenario-edit": Policy.SIGNED_IN,
    "scenario-duplicate": Policy.SIGNED_IN,
    "scenario-delete": Policy.SIGNED_IN,
    "scenario-toml": Policy.SIGNED_IN,
    "scenario-json": Policy.SIGNED_IN,
    "drill-pytest": Policy.SIGNED_IN,
    "drill-report": Policy.SIGNED_IN,
    "drills-batch-report": Policy.SIGNED_IN,
    "drills-report": Policy.SIGNED_IN,
    "search": Policy.SIGNED_IN,
    "frame": Policy.SIGNED_IN,
    "styleguide": Policy.STAFF,
    "fabrics": Policy.SIGNED_IN,
    "fabric": Policy.SIGNED_IN,
    "fabric-new": Policy.SIGNED_IN,
    "fabric-import": Policy.SIGNED_IN,
    "fabric-duplicate": Policy.SIGNED_IN,
    "fabric-draft-beat": Policy.SIGNED_IN,
    "fabric-draft": Policy.SIGNED_IN,
    "fabric-draft-begin": Policy.SIGNED_IN,
    "fabric-draft-undo": Policy.SIGNED_IN,
    "fabric-draft-redo": Policy.SIGNED_IN,
    "fabric-draft-discard": Policy.SIGNED_IN,
    "fabric-draft-publish": Policy.SIGNED_IN,
    "fabric-draft-drills": Policy.SIGNED_IN,
    "fabric-draft-history": Policy.SIGNED_IN,
    "fabric-draft-merge": Policy.SIGNED_IN,
    "fabric-request": Policy.SIGNED_IN,
    "fabric-revert": Policy.SIGNED_IN,
    "fabric-compare": Policy.SIGNED_IN,
    "fabric-revision": Policy.SIGNED_IN,
    "fabric-yaml": Policy.SIGNED_IN,
    "fabric-memory": Policy.SIGNED_IN,
    "fabric-memory-export": Policy.SIGNED_IN,
    "fabric-memory-reveal": Policy.SIGNED_IN,
    "breakers": Policy.SIGNED_IN,
    "breakers-live": Policy.SIGNED_IN,
    "breaker": Policy.SIGNED_IN,
    "models": Policy.SIGNED_IN,
    "model-key": Policy.SIGNED_IN,
    "model-key-delete": Policy.SIGNED_IN,
    "model-test": Policy.SIGNED_IN,
    "notifications": Policy.SIGNED_IN,
    "notifications-mine": Policy.SIGNED_IN,
    "notification-resend": Policy.SIGNED_IN,
    "protections": Policy.SIGNED_IN,
    "api-docs": Policy.SIGNED_IN,
    "api-openapi": Policy.API,
    "api-unknown": Policy.API,
    "api-fabrics": Policy.API,
    "api-fabric": Policy.API,
    "api-fabric-diff": Policy.API,
    "api-fabric-lint": Policy.API,
    "api-fabric-revert": Policy.API,
    "api-fabric-schema": Policy.API,
    "api-fabric-yaml": Policy.API,
    "api-fabric-cost": Policy.API,
    "api-drafts": Policy.API,
    "api-draft": Policy.API,
    "api-changes": Policy.API,
    "api-change": Policy.API,
    "api-change-approve": Policy.API,
    "api-change-reject": Policy.API,
    "api-change-withdraw": Policy.API,
    "api-fabric-memories": Policy.API,
    "api-fabric-memory-history": Policy.API,
    "api-fabric-memories-export": Policy.API,
    "api-fabric-memory-reveal": Policy.API,
    "api-fabric-memory-write": Policy.API,
    "api-fabric-memory-delete": Policy.API,
    "api-runs": Policy.API,
    "api-run": Policy.API,
    "api-run-cancel": Policy.API,
    "api-run-explain": Policy.API,
    "api-run-cost": Policy.API,
    "api-run-terminate": Policy.API,
    "api-run-pause": Policy.API,
    "api-run-resume": Policy.API,
    "api-run-say": Policy.API,
    "api-run-context": Policy.API,
    "api-run-fork": Policy.API,
    "api-run-events": Policy.API,
    "api-run-export": Policy.API,
    "api-escalations": Policy.API,
    "api-escalation": Policy.API,
    "api-escalation-reveal": Policy.API,
    "api-run-event-reveal": Policy.API,
    "api-escalations-decide": Policy.API,
    "api-escalation-counts": Policy.API,
    "api-escalation-next": Policy.API,
    "api-escalation-claim": Policy.API,
    "api-escalation-reassign": Policy.API,
    "api-escalation-heartbeat": Policy.API,
    "api-escalation-release": Policy.API,
    "api-escalation-close": Policy.API,
    "api-escalation-decision": Policy.API,
    "api-escalation-undo": Policy.API,
    "api-escalation-continue": Policy.API,
    "api-breakers": Policy.API,
    "api-breakers-open": Policy.API,
    "api-breakers-reset": Policy.API,
    "api-fabric-drills": Policy.API,
    "api-drill": Policy.API,
    "api-drill-report": Policy.API,
    "api-drill-pytest": Policy.API,
    "api-drills-batch-report": Policy.API,
    "api-fabric-drills-report": Policy.API,
    "api-drills-stop": Policy.API,
    "api-scenarios": Policy.API,
    "api-scenarios-check": Policy.API,
    "api-scenario": Policy.API,
    "api-scenario-export": Policy.API,
    "api-scenario-drills": Policy.API,
    "api-run-scenario": Policy.API,
    "api-drills-lever": Policy.API,
    "api-drills-lever-pull": Policy.API,
    "api-drills-lever-release": Policy.API,
    "api-drills-schedules": Policy.API,
    "api-drills-schedule": Policy.API,
    "api-drills-schedule-pause": Policy.API,
    "api-drills-schedule-resume": Policy.API,
    "api-drills-schedule-delete": Policy.API,
    "api-drills-schedule-run": Policy.API,
    "api-members": Policy.API,
    "api-invitations": Policy.API,
    "api-invitation-revoke": Policy.API,
    "api-member-services": Policy.API,
    "api-member-roles": Policy.API,
    "api-member-remove": Policy.API,
    "api-tokens": Policy.API,
    "api-token-revoke": Policy.API,
    "api-notifications-mine": Policy.API,
    "api-models": Policy.API,
    "api-model-key": Policy.API,
    "api-model-key-delete": Policy.API,
    "api-model-test": Policy.API,
    "api-decisions": Policy.API,
    "api-decisions-export": Policy.API,
    "api-audit": Policy.API,
    "api-audit-record": Policy.API,
    "api-audit-export": Policy.API,
    "api-audit-holds": Policy.API,
    "api-audit-hold-lift": Policy.API,
    "api-notifications": Policy.API,
    "api-notification-resend": Policy.API,
}
"""Pages, fragments and the API, by route name."""

OWNER = "owner"
"""The role of who owns the installation."""

FOR_STAFF = "This page is for staff: ask the owner of this installation."

SOCKETS: Mapping[str, Policy] = {"live-run": Policy.SIGNED_IN}
"""Sockets, by route name."""


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
        # no-cache, not no-store: a browser may keep a half-written form for its Back button.
        response.headers.setdefault("Cache-Control", "private, no-cache")
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
            return errors.page(request, 403, refusal.message, errors.NO_MEMBER)
        try:
            if allowed and match and "run_id" in match.kwargs:
                _enter(request, match.view_name, str(match.kwargs["run_id"]))
        except DatabaseError as error:
            return errors.database_away(request, error)
        except Refused as refusal:
            return errors.page(request, errors.STATUS[refusal.code], refusal.message, errors.DRILLS_RUN)
        if allowed is not None:
            why = _why_not(request, policy) if allowed else FOR_STAFF
            return errors.page(request, 403, why) if why else None
        if request.headers.get("HX-Request"):
            return errors.page(request, 401, "You are signed out. Sign in again in another tab, then send this again.")
        asked = request.method == "GET" and request.path != settings.LOGIN_REDIRECT_URL
        following = {"next": request.get_full_path()} if asked else {}
        return HttpResponseRedirect(settings.LOGIN_URL + (f"?{urlencode(following)}" if following else ""))

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A refusal's page; None leaves other exceptions to Django."""
        if isinstance(exception, Refused):
            return errors.refused(request, exception)
        if isinstance(exception, DatabaseError | StoreUnavailable):
            return errors.database_away(request, exception)
        return None


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
