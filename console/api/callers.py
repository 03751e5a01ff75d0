"""Who calls the API, and whether they may: a bearer token with the operation's scope, or a signed-in browser with its CSRF token; not too often.

``console.access`` asks here before an operation runs. An operation that is not in ``SCOPES`` is closed.
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

from console import drilled
from console.api.problems import RETRY_AFTER, FieldError, Problem
from console.api.responses import id_of, problem_response
from console.placed import placed
from console.route_rights import refused_at_door
from console.signed_in import PROVIDER_AWAY, actor_in, is_provider_away
from console.throttle import API, count
from console.views.errors import STATUS
from fabric.core.actor import Actor
from fabric.core.scopes import Scope
from fabric.selectors.errors import Refused
from fabric.services.tokens import NotAccepted, TokenHolder, token_use

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
    ("api-run", "GET"): Scope.READ,
    ("api-run-cancel", "POST"): Scope.START,
    ("api-run-terminate", "POST"): Scope.START,
    ("api-run-pause", "POST"): Scope.START,
    ("api-run-resume", "POST"): Scope.START,
    ("api-run-say", "POST"): Scope.START,
    ("api-run-context", "POST"): Scope.START,
    ("api-run-fork", "POST"): Scope.START,
    ("api-run-events", "GET"): Scope.READ,
    ("api-run-explain", "GET"): Scope.READ,
    ("api-run-cost", "GET"): Scope.READ,
    ("api-run-export", "POST"): Scope.READ,
    ("api-escalations", "GET"): Scope.READ,
    ("api-escalation", "GET"): Scope.READ,
    ("api-escalation-reveal", "POST"): Scope.DECIDE,
    ("api-run-event-reveal", "POST"): Scope.DECIDE,
    ("api-escalations-decide", "POST"): Scope.DECIDE,
    ("api-escalation-counts", "GET"): Scope.READ,
    ("api-escalation-next", "POST"): Scope.DECIDE,
    ("api-escalation-claim", "POST"): Scope.DECIDE,
    ("api-escalation-reassign", "POST"): Scope.DECIDE,
    ("api-escalation-heartbeat", "POST"): Scope.DECIDE,
    ("api-escalation-release", "POST"): Scope.DECIDE,
    ("api-escalation-close", "POST"): Scope.DECIDE,
    ("api-escalation-decision", "POST"): Scope.DECIDE,
    ("api-escalation-undo", "POST"): Scope.DECIDE,
    ("api-escalation-continue", "POST"): Scope.DECIDE,
    ("api-breakers", "GET"): Scope.READ,
    ("api-breakers-open", "POST"): Scope.OPERATE,
    ("api-breakers-reset", "POST"): Scope.OPERATE,
    ("api-fabric-drills", "GET"): Scope.READ,
    ("api-fabric-drills", "POST"): Scope.START,
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
    ("api-drills-stop", "POST"): Scope.OPERATE,
    ("api-drills-lever", "GET"): Scope.READ,
    ("api-drills-lever-pull", "POST"): Scope.OPERATE,
    ("api-drills-lever-release", "POST"): Scope.OPERATE,
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

ANY_CALLER = frozenset({"api-openapi", "api-unknown"})
"""Routes that are no operations: whoever may call at all may have them."""

NOT_ACCEPTED: Mapping[NotAccepted, str] = {
    "mistyped": "this is no token: its end does not fit the rest; copy it again, whole, or make one with `manage.py token create`",
    "unknown": "the token is not known here: make one with `manage.py token create`",
    "revoked": "the token was revoked: make another with `manage.py token create`",
    "expired": "the token has expired: make another with `manage.py token create`",
    "not_theirs": "somebody else made this token, and nobody answers by a token but their own: make one, signed in",
    "let_go": "the token's user has to sign in once more by the provider of identities, which no longer answers for them",
    "inactive": "the token's user may not sign in any more: make a token for another one",
}
REALM = 'Bearer realm="fabric-flow"'


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    actor: Actor
    scopes: frozenset[Scope]
    token: str = ""
    """The token's name; empty for a browser."""


def caller_of(request: HttpRequest) -> Caller:
    """Who calls; set by ``admit``."""
    caller: Caller = request.caller  # type: ignore[attr-defined]
    return caller


def actor_of(request: HttpRequest) -> Actor:
    """In whose name services and selectors are asked."""
    return caller_of(request).actor


def admit(request: HttpRequest, route: str) -> HttpResponse | None:
    """Let the request through to the operation, or answer 401, 403, 405, 429 or 503."""
    try:
        request.caller = _caller(request)  # type: ignore[attr-defined]
        request.caller = _placed(request, route)  # type: ignore[attr-defined]
        _may(caller_of(request), route, request.method or "")
        _not_too_often(caller_of(request))
        request.caller = _on_its_run(request, route)  # type: ignore[attr-defined]
    except Problem as problem:
        return problem_response(request, problem)
    except Refused as refusal:
        headers = {"Retry-After": RETRY_AFTER} if refusal.code == "unavailable" else {}
        return problem_response(request, Problem(STATUS[refusal.code], refusal.message, headers=headers))
    except (OperationalError, InterfaceError) as error:
        log.warning("request %s found the database unavailable: %s", id_of(request), error)
        return problem_response(request, Problem(503, headers={"Retry-After": RETRY_AFTER}))
    return None


def _placed(request: HttpRequest, route: str) -> Caller:
    """The caller at the fabric that the address is about."""
    caller, match = caller_of(request), request.resolver_match
    if match is None:
        return caller
    try:
        return replace(caller, actor=placed(caller.actor, route, match.kwargs))
    except Refused as refusal:
        request.out_of_place = refusal.field == "fabric"  # type: ignore[attr-defined]
        raise


def _on_its_run(request: HttpRequest, route: str) -> Caller:
    """The caller, who looks on in the workspace of drills where the address names a run of theirs."""
    caller, match = caller_of(request), request.resolver_match
    if match is None or "run_id" not in match.kwargs:
        return caller
    return replace(caller, actor=drilled.actor_on(caller.actor, route, str(match.kwargs["run_id"])))


@sensitive_variables("header", "presented")
def _caller(request: HttpRequest) -> Caller:
    header = request.headers.get("Authorization", "")
    if not header:
        return _browser(request)
    holder = holder_of(header)
    return Caller(holder.actor, holder.scopes, holder.token)


@sensitive_variables("header", "presented")
def holder_of(header: str) -> TokenHolder:
    """Whose token an Authorization header holds. Problem 401: it holds none that is accepted. Refused forbidden: whose it is may not come in any more."""
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
    # A browser sends its cookie whoever asks it to; the token in the header is what only our own pages can read.
    if not _is_our_own(request):
        message = "the request comes without this session's CSRF token: send it in the X-CSRFToken header, or use a bearer token"
        raise Problem(403, message)
    return Caller(actor_in(user), frozenset(Scope))


class _Csrf(CsrfViewMiddleware):
    """Django's check without the page that a person is shown when it fails: the caller gets a problem."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        log.warning("request %s comes from no page of ours: %s", id_of(request), reason)
        return HttpResponse(status=403)


def _no_view() -> None:
    """Exempt from nothing."""


def _is_our_own(request: HttpRequest) -> bool:
    """Whether a change comes from a page of ours, by Django's rules for token and origin."""
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
    if why := refused_at_door(caller.actor, route, method):
        raise Problem(403, why)


def scope_wanted(request: HttpRequest, scope: Scope, doing: str, field: str) -> None:
    """Raises Problem 403 where a token lacks a scope that what its body asks for wants beside the operation's. ``doing``: that, after "may not"."""
    caller = caller_of(request)
    if scope not in caller.scopes:
        message = f"the token {caller.token} may not {doing}: it lacks the scope {scope}; leave out {field}, or make one that has it"
        raise Problem(403, message, [FieldError(field, message)])


def _not_too_often(caller: Caller) -> None:
    # By who calls, not from where: nobody is slowed down by what another one does, whatever proxy they share.
    kind, name = ("token", caller.token) if caller.token else ("user", caller.actor.name)
    wait = count(API, f"{kind}:{caller.actor.workspace_id}:{name}")
    if wait:
        message = f"the {kind} {name} has asked more than {API.most:,} times within a minute: go on in {wait} s"
        raise Problem(429, message, headers={"Retry-After": str(wait)})
