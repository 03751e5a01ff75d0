"""Authenticates the caller of the API and checks its rights and rate.

A caller has a bearer token with the operation's scope, or is a signed-in browser with its CSRF token.
``console.site.access.actors`` calls this before an operation runs. An operation that is not in ``SCOPES`` is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.debug import sensitive_variables

from console.site.access import fabric_roles as drilled
from console.site.access.fabric_roles import place_actor
from console.site.access.rights import explain_refusal
from console.site.access.sessions import PROVIDER_AWAY, actor_in, is_provider_away
from console.site.errors.pages import STATUS
from console.site.errors.problems import RETRY_AFTER, FieldError, Problem, build_id, problem_response
from console.site.requests.throttle import API, count_request
from fabric.core.people.actor import Actor
from fabric.core.people.scopes import Scope
from fabric.program.name import program
from fabric.selectors.errors import Refused
from fabric.services.people.tokens import NotAccepted, TokenHolder, token_use

log = logging.getLogger(__name__)

SCOPES: Mapping[tuple[str, str], Scope] = {
    ("api-fabrics", "GET"): Scope.READ,
    ("api-fabrics", "POST"): Scope.PUBLISH,
    ("api-fabric", "GET"): Scope.READ,
    ("api-fabric-diff", "GET"): Scope.READ,
    ("api-fabric-lint", "POST"): Scope.READ,
    ("api-fabric-revert", "POST"): Scope.PUBLISH,
    ("api-fabric-schema", "GET"): Scope.READ,
    ("api-fabric-yaml", "GET"): Scope.READ,
    ("api-fabric-cost", "GET"): Scope.READ,
    ("api-drafts", "GET"): Scope.READ,
    ("api-drafts", "POST"): Scope.PUBLISH,
    ("api-draft", "GET"): Scope.READ,
    ("api-changes", "GET"): Scope.READ,
    ("api-changes", "POST"): Scope.PUBLISH,
    ("api-change", "GET"): Scope.READ,
    ("api-change-approve", "POST"): Scope.PUBLISH,
    ("api-change-reject", "POST"): Scope.PUBLISH,
    ("api-change-withdraw", "POST"): Scope.PUBLISH,
    ("api-fabric-memories", "GET"): Scope.READ,
    ("api-fabric-memory-history", "GET"): Scope.READ,
    ("api-fabric-memories-export", "POST"): Scope.READ,
    ("api-fabric-memory-reveal", "POST"): Scope.DECIDE,
    ("api-fabric-memory-write", "POST"): Scope.OPERATE,
    ("api-fabric-memory-delete", "POST"): Scope.OPERATE,
    ("api-runs", "GET"): Scope.READ,
    ("api-runs", "POST"): Scope.START,
    ("api-stops", "GET"): Scope.READ,
    ("api-stops", "POST"): Scope.OPERATE,
    ("api-stop-allow", "POST"): Scope.OPERATE,
    ("api-run", "GET"): Scope.READ,
    ("api-run-cancel", "POST"): Scope.START,
    ("api-run-terminate", "POST"): Scope.START,
    ("api-run-pause", "POST"): Scope.START,
    ("api-run-resume", "POST"): Scope.START,
    ("api-run-say", "POST"): Scope.START,
    ("api-run-context", "POST"): Scope.START,
    ("api-run-labels", "POST"): Scope.START,
    ("api-runs-export", "GET"): Scope.READ,
    ("api-dashboard", "GET"): Scope.READ,
    ("api-run-fork", "POST"): Scope.START,
    ("api-runs-jobs", "GET"): Scope.READ,
    ("api-runs-jobs", "POST"): Scope.START,
    ("api-runs-job", "GET"): Scope.READ,
    ("api-runs-job-stop", "POST"): Scope.START,
    ("api-run-events", "GET"): Scope.READ,
    ("api-run-stream", "GET"): Scope.READ,
    ("api-run-at", "GET"): Scope.READ,
    ("api-run-explain", "GET"): Scope.READ,
    ("api-run-cost", "GET"): Scope.READ,
    ("api-run-export", "POST"): Scope.READ,
    ("api-reviews", "GET"): Scope.READ,
    ("api-review", "GET"): Scope.READ,
    ("api-review-reveal", "POST"): Scope.DECIDE,
    ("api-run-event-reveal", "POST"): Scope.DECIDE,
    ("api-reviews-decide", "POST"): Scope.DECIDE,
    ("api-review-counts", "GET"): Scope.READ,
    ("api-review-next", "POST"): Scope.DECIDE,
    ("api-review-claim", "POST"): Scope.DECIDE,
    ("api-review-reassign", "POST"): Scope.DECIDE,
    ("api-review-comments", "GET"): Scope.READ,
    ("api-review-comments", "POST"): Scope.DECIDE,
    ("api-review-snooze", "POST"): Scope.DECIDE,
    ("api-review-heartbeat", "POST"): Scope.DECIDE,
    ("api-review-release", "POST"): Scope.DECIDE,
    ("api-review-close", "POST"): Scope.DECIDE,
    ("api-review-decision", "POST"): Scope.DECIDE,
    ("api-review-undo", "POST"): Scope.DECIDE,
    ("api-review-continue", "POST"): Scope.DECIDE,
    ("api-breakers", "GET"): Scope.READ,
    ("api-breakers-open", "POST"): Scope.OPERATE,
    ("api-breakers-reset", "POST"): Scope.OPERATE,
    ("api-fabric-drills", "GET"): Scope.READ,
    ("api-fabric-drills", "POST"): Scope.START,
    ("api-drills", "GET"): Scope.READ,
    ("api-drills", "POST"): Scope.START,
    ("api-drill", "GET"): Scope.READ,
    ("api-scenarios", "GET"): Scope.READ,
    ("api-scenarios", "POST"): Scope.PUBLISH,
    ("api-scenarios-check", "POST"): Scope.READ,
    ("api-scenario", "GET"): Scope.READ,
    ("api-scenario-export", "GET"): Scope.READ,
    ("api-scenario-drills", "POST"): Scope.START,
    ("api-run-scenario", "POST"): Scope.PUBLISH,
    ("api-drill-report", "GET"): Scope.READ,
    ("api-drill-pytest", "GET"): Scope.READ,
    ("api-drills-batch-report", "GET"): Scope.READ,
    ("api-fabric-drills-report", "GET"): Scope.READ,
    ("api-drills-batch-stop", "POST"): Scope.OPERATE,
    ("api-drill-stop", "GET"): Scope.READ,
    ("api-drill-stop-pull", "POST"): Scope.OPERATE,
    ("api-drill-stop-release", "POST"): Scope.OPERATE,
    ("api-drills-schedules", "GET"): Scope.READ,
    ("api-drills-schedules", "POST"): Scope.OPERATE,
    ("api-drills-schedule", "POST"): Scope.OPERATE,
    ("api-drills-schedule-pause", "POST"): Scope.OPERATE,
    ("api-drills-schedule-resume", "POST"): Scope.OPERATE,
    ("api-drills-schedule-delete", "POST"): Scope.OPERATE,
    ("api-drills-schedule-run", "POST"): Scope.OPERATE,
    ("api-members", "GET"): Scope.READ,
    ("api-invitations", "POST"): Scope.MANAGE,
    ("api-invitation-revoke", "POST"): Scope.MANAGE,
    ("api-member-services", "POST"): Scope.MANAGE,
    ("api-member-roles", "POST"): Scope.MANAGE,
    ("api-member-remove", "POST"): Scope.MANAGE,
    ("api-tokens", "GET"): Scope.READ,
    ("api-tokens", "POST"): Scope.MANAGE,
    ("api-token-revoke", "POST"): Scope.MANAGE,
    ("api-notifications-channels", "GET"): Scope.READ,
    ("api-notifications-channels", "POST"): Scope.MANAGE,
    ("api-notifications-channel-remove", "POST"): Scope.MANAGE,
    ("api-notifications-mine", "GET"): Scope.READ,
    ("api-notifications-mine", "POST"): Scope.MANAGE,
    ("api-models", "GET"): Scope.READ,
    ("api-model-key", "POST"): Scope.MANAGE,
    ("api-policy", "GET"): Scope.READ,
    ("api-policy", "POST"): Scope.MANAGE,
    ("api-model-key-delete", "POST"): Scope.MANAGE,
    ("api-model-test", "POST"): Scope.PUBLISH,
    ("api-decisions", "GET"): Scope.READ,
    ("api-decisions-export", "POST"): Scope.READ,
    ("api-audit", "GET"): Scope.READ,
    ("api-audit-record", "GET"): Scope.READ,
    ("api-audit-export", "POST"): Scope.READ,
    ("api-audit-holds", "GET"): Scope.READ,
    ("api-audit-holds", "POST"): Scope.MANAGE,
    ("api-audit-hold-lift", "POST"): Scope.MANAGE,
    ("api-notifications", "GET"): Scope.READ,
    ("api-notification-resend", "POST"): Scope.OPERATE,
}
"""The scope of each operation, by route name and method."""

ANY_CALLER = frozenset({"api-unknown"})
"""Routes that are no operations; every caller may use them."""

NOT_ACCEPTED: Mapping[NotAccepted, str] = {
    "mistyped": f"this is no token: its end does not fit the rest; copy it again, whole, or make one with `{program()} token create`",
    "unknown": f"the token is not known here: make one with `{program()} token create`",
    "revoked": f"the token was revoked: make another with `{program()} token create`",
    "expired": f"the token has expired: make another with `{program()} token create`",
    "not_theirs": "another person made this token, and only your own token can decide: sign in and make one",
    "let_go": "the token's user has to sign in once more by the provider of identities, which no longer answers for them",
    "inactive": "the token's user may not sign in any more: make a token for another one",
}
REALM = 'Bearer realm="fabric-flow"'


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller of a request."""

    actor: Actor
    scopes: frozenset[Scope]
    token: str = ""
    """The token's name; empty for a browser."""


def find_caller(request: HttpRequest) -> Caller:
    """Return the caller that ``admit`` has set."""
    caller: Caller = request.caller  # type: ignore[attr-defined]
    return caller


def find_actor(request: HttpRequest) -> Actor:
    """Return the actor in whose name the caller acts."""
    return find_caller(request).actor


def admit(request: HttpRequest, route: str) -> HttpResponse | None:
    """Admit the request to the operation, or answer 401, 403, 405, 429 or 503."""
    try:
        request.caller = _caller(request)  # type: ignore[attr-defined]
        request.caller = _place_caller(request, route)  # type: ignore[attr-defined]
        _may(find_caller(request), route, request.method or "")
        _not_too_often(find_caller(request))
        request.caller = _find_run_caller(request, route)  # type: ignore[attr-defined]
    except Problem as problem:
        return problem_response(request, problem)
    except Refused as refusal:
        headers = {"Retry-After": RETRY_AFTER} if refusal.code == "unavailable" else {}
        return problem_response(request, Problem(STATUS[refusal.code], refusal.message, headers=headers))
    except (OperationalError, InterfaceError) as error:
        log.warning("request %s found the database unavailable: %s", build_id(request), error)
        return problem_response(request, Problem(503, headers={"Retry-After": RETRY_AFTER}))
    return None


def _place_caller(request: HttpRequest, route: str) -> Caller:
    """Return the caller at the fabric of the address."""
    caller, match = find_caller(request), request.resolver_match
    if match is None:
        return caller
    try:
        return replace(caller, actor=place_actor(caller.actor, route, match.kwargs))
    except Refused as refusal:
        request.out_of_place = refusal.field == "fabric"  # type: ignore[attr-defined]
        raise


def _find_run_caller(request: HttpRequest, route: str) -> Caller:
    """Return the caller. On a run of the workspace's drills it becomes a viewer in the workspace of drills."""
    caller, match = find_caller(request), request.resolver_match
    if match is None or "run_id" not in match.kwargs:
        return caller
    return replace(caller, actor=drilled.actor_on(caller.actor, route, str(match.kwargs["run_id"])))


@sensitive_variables("header", "presented")
def _caller(request: HttpRequest) -> Caller:
    header = request.headers.get("Authorization", "")
    if not header:
        return _browser(request)
    holder = read_holder(header)
    return Caller(holder.actor, holder.scopes, holder.token)


@sensitive_variables("header", "presented")
def read_holder(header: str) -> TokenHolder:
    """Return the owner of the token in an Authorization header.

    Raises Problem 401 without an accepted token, and Refused forbidden if its owner may not sign in any more.
    """
    kind, _, presented = header.partition(" ")
    if kind.lower() != "bearer" or not presented.strip():
        message = "the Authorization header is no bearer token: send it as `Authorization: Bearer TOKEN`"
        raise Problem(401, message, headers={"WWW-Authenticate": f'{REALM}, error="invalid_request"'})
    holder = token_use(presented.strip())
    if isinstance(holder, str):
        raise Problem(401, NOT_ACCEPTED[holder], headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"'})
    return holder


def _browser(request: HttpRequest) -> Caller:
    user: Any = request.user
    if not user.is_authenticated or not user.is_active:
        if is_provider_away(request):
            raise Problem(503, PROVIDER_AWAY, headers={"Retry-After": RETRY_AFTER})
        raise Problem(401, headers={"WWW-Authenticate": REALM})
    # A browser sends its cookie with any request; only our own pages can read the token in the header.
    if not _is_our_own(request):
        message = (
            "the request lacks this session's CSRF token: send it in the X-CSRFToken header, or use a bearer token"
        )
        raise Problem(403, message)
    return Caller(actor_in(user), frozenset(Scope))


class _Csrf(CsrfViewMiddleware):
    """Django's check, which gives the caller a problem instead of a page."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        log.warning("request %s comes from no page of ours: %s", build_id(request), reason)
        return HttpResponse(status=403)


def _no_view() -> None:
    """A view that is exempt from nothing, for Django's check."""


def _is_our_own(request: HttpRequest) -> bool:
    """Return True if a change comes from one of our pages, by Django's rules for token and origin."""
    check = _Csrf(lambda asked: HttpResponse())
    request.csrf_processing_done = False  # type: ignore[attr-defined]
    check.process_request(request)
    return check.process_view(request, _no_view, (), {}) is None  # type: ignore[arg-type]


def _may(caller: Caller, route: str, method: str) -> None:
    if route in ANY_CALLER:
        return
    scope = SCOPES.get((route, method))
    if scope is None:
        allowed = ", ".join(sorted(known for name, known in SCOPES if name == route))
        raise Problem(405, f"this address takes {allowed}", headers={"Allow": allowed})
    if scope not in caller.scopes:
        message = f"the token {caller.token} may not do this: it lacks the scope {scope}; make one that has it"
        challenge = f'{REALM}, error="insufficient_scope", scope="{scope}"'
        raise Problem(403, message, headers={"WWW-Authenticate": challenge})
    if why := explain_refusal(caller.actor, route, method):
        raise Problem(403, why)


def scope_wanted(request: HttpRequest, scope: Scope, doing: str, field: str) -> None:
    """Check a further scope that the body of a request needs.

    Raises Problem 403 if the token lacks it. ``doing``: the act, after "may not".
    """
    caller = find_caller(request)
    if scope not in caller.scopes:
        message = f"the token {caller.token} may not {doing}: it lacks the scope {scope}; leave out {field}, or make one that has it"
        raise Problem(403, message, [FieldError(field, message)])


def _not_too_often(caller: Caller) -> None:
    # By caller, not by address: callers behind one proxy do not slow each other down.
    kind, name = ("token", caller.token) if caller.token else ("user", caller.actor.name)
    wait = count_request(API, f"{kind}:{caller.actor.workspace_id}:{name}")
    if wait:
        message = f"the {kind} {name} has asked more than {API.most:,} times within a minute: try again in {wait} s"
        raise Problem(429, message, headers={"Retry-After": str(wait)})
