"""Gives the audit stream the origin of every request, and records refusals and acts that no service records.

1. A refusal is a 403 to any request, a 409 to a changing one, and a 404 for a fabric beyond the actor's roles or token.
   Requests of unknown senders are recorded if they presented a token.
2. Each changing address names its acts in the audit stream; total by test, and the test sends each of them. If a
   service writes the record, in the transaction that acts, the row names the acts. If none does, the middleware writes
   it when the answer goes out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from console.site.access.sessions import actor_in
from console.site.errors.problems import REQUEST_ID, build_id, write_sentence
from console.site.requests.client_address import build_address
from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.selectors.contents import mask_content
from fabric.selectors.errors import Refused
from fabric.services.acts import ActOrigin, coming_from
from fabric.services.audit.folds import audit_fold, stranger
from fabric.services.people.sign_in.attempts import read_network

log = logging.getLogger(__name__)
SAID_CHARS = 300
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class AuditDoorMiddleware:
    """Middleware around everything that may act."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        with coming_from(ActOrigin("session", build_address(request), build_id(request))) as origin:
            response = self._get_response(request)
            response.headers.setdefault(REQUEST_ID, build_id(request))
            try:
                _record(request, response, origin)
            except (DatabaseError, Refused) as error:
                # The act is done: a failed record must not turn it into an error.
                log.error("request %s could not be recorded in the audit stream: %s", build_id(request), error)
        return response


def _record(request: HttpRequest, response: HttpResponse, origin: ActOrigin) -> None:
    match = request.resolver_match
    route = match.view_name if match else ""
    changes = request.method not in SAFE
    if response.status_code == 401 and request.headers.get("Authorization"):
        network = read_network(origin.address)
        audit_fold(actor=stranger(), act=Act.CALLER_REFUSED, subject=route or "unknown", at=network)
    elif response.status_code == 403 or (response.status_code == 409 and changes) or _out_of_place(request):
        _refused(request, response, route, origin)
    elif changes and response.status_code < 400 and not origin.lines:
        told = ROUTE_ACTS.get(route)
        actor = _actor(request) if isinstance(told, ByDoor) else None
        if isinstance(told, ByDoor) and actor is not None:
            about = _about(request) or actor.name
            audit_fold(actor=actor, act=told.act, subject=about, at=route, route=route)


def _out_of_place(request: HttpRequest) -> bool:
    """Return True if the request was for a fabric that the actor does not see: they get a 404."""
    return bool(getattr(request, "out_of_place", False))


def _refused(request: HttpRequest, response: HttpResponse, route: str, origin: ActOrigin) -> None:
    actor = _actor(request)
    if actor is None:
        return
    why = str(mask_content(write_sentence(request, response)))[:SAID_CHARS]
    audit_fold(
        actor=actor,
        act=Act.REQUEST_REFUSED,
        subject=route or "unknown",
        at=f"{response.status_code}:{_about(request)}",
        about=_about(request) or None,
        method=request.method,
        status=response.status_code,
        reason=why or None,
    )


def _about(request: HttpRequest) -> str:
    """Return the run, fabric and so on that the address names, without a link's token."""
    match = request.resolver_match
    named = {name: value for name, value in match.kwargs.items() if name != "token"} if match else {}
    return " ".join(str(value) for value in named.values() if isinstance(value, str | int) or hasattr(value, "hex"))[
        :200
    ]


def _actor(request: HttpRequest) -> Actor | None:
    """Return the actor of the request; None if unknown."""
    caller = getattr(request, "caller", None)
    if caller is not None:
        found: Actor = caller.actor
        return found
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or request.path.startswith("/api/"):
        return None
    try:
        return actor_in(user)
    except Refused:
        return Actor(name=user.get_username(), workspace_id=stranger().workspace_id)


@dataclass(frozen=True, slots=True)
class ByService:
    """Acts of which a service writes one."""

    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class ByDoor:
    """The middleware records the act after a successful answer; repetitions within ten minutes are counted."""

    act: Act


@dataclass(frozen=True, slots=True)
class Nothing:
    """Reason why there is no record."""

    why: str


Told = ByService | ByDoor | Nothing

LOOKED = Nothing("it looks something through and keeps nothing")
LEASE = Nothing("it only prolongs what was claimed, which is a record already")

_ROWS: tuple[tuple[Told, str], ...] = (
    (ByService((Act.RUN_STARTED,)), "start api-runs"),
    (ByService((Act.NEW_RUNS_STOPPED,)), "run-stops api-stops"),
    (ByService((Act.NEW_RUNS_ALLOWED,)), "run-stop-allow api-stop-allow"),
    (ByService((Act.RUN_FORKED,)), "run-fork api-run-fork"),
    (ByService((Act.CANCEL_SENT,)), "run-cancel api-run-cancel"),
    (ByService((Act.TERMINATE_SENT,)), "run-terminate api-run-terminate"),
    (ByService((Act.PAUSE_SENT,)), "run-pause api-run-pause"),
    (ByService((Act.RESUME_SENT,)), "run-resume api-run-resume"),
    (ByService((Act.VIEW_SAVED,)), "runs-views"),
    (ByService((Act.VIEW_RENAMED, Act.VIEW_DELETED)), "runs-view"),
    (Nothing("it is how one member sees a list"), "runs-columns"),
    (ByService((Act.RUN_JOB_BEGUN,)), "runs-jobs-new api-runs-jobs"),
    (ByService((Act.RUN_JOB_STOPPED,)), "runs-job-stop api-runs-job-stop"),
    (ByService((Act.MESSAGE_SENT,)), "run-say api-run-say"),
    (ByService((Act.CONTEXT_SENT,)), "run-context api-run-context"),
    (ByService((Act.RUN_LABELLED,)), "run-labels api-run-labels"),
    (ByService((Act.RUN_EXPORTED,)), "run-export api-run-export"),
    (
        ByService((Act.CONTENT_REVEALED,)),
        """run-event-reveal review-reveal fabric-memory-reveal api-run-event-reveal api-review-reveal
        api-fabric-memory-reveal""",
    ),
    (
        ByService((Act.SCENARIO_SAVED, Act.SCENARIO_CHANGED)),
        "run-scenario scenario-new scenario-edit scenario-duplicate api-run-scenario api-scenarios",
    ),
    (ByService((Act.SCENARIO_DELETED,)), "scenario-delete"),
    (
        ByService((Act.DRILLS_ASKED,)),
        """drills-ask drills-stale scenario-ask fabric-draft-drills api-drills api-fabric-drills api-scenario-drills
        api-drills-schedule-run""",
    ),
    (ByService((Act.DRILLS_STOPPED,)), "drills-batch-stop api-drills-batch-stop"),
    (
        ByService((Act.DRILL_STOP_PULLED, Act.DRILL_STOP_RELEASED)),
        "drill-stop api-drill-stop-pull api-drill-stop-release",
    ),
    (ByService((Act.SCHEDULE_CREATED,)), "drills-schedules api-drills-schedules"),
    (
        ByService(
            (
                Act.SCHEDULE_CHANGED,
                Act.SCHEDULE_PAUSED,
                Act.SCHEDULE_RESUMED,
                Act.SCHEDULE_DELETED,
                Act.DRILLS_ASKED,
            )
        ),
        """drills-schedule api-drills-schedule api-drills-schedule-pause api-drills-schedule-resume
        api-drills-schedule-delete""",
    ),
    (ByDoor(Act.DRAFT_BEGUN), "fabric-new fabric-import fabric-duplicate fabric-draft-begin api-drafts"),
    (ByDoor(Act.DRAFT_CHANGED), "fabric-draft fabric-draft-undo fabric-draft-redo fabric-draft-merge"),
    (Nothing("it says that an editor is open, and changes nothing"), "fabric-draft-beat"),
    (ByService((Act.DRAFT_DISCARDED,)), "fabric-draft-discard"),
    (
        ByService(
            (
                Act.FABRIC_PUBLISHED,
                Act.FABRIC_REVERTED,
                Act.CHANGE_REQUESTED,
                Act.PUBLICATION_SCHEDULED,
                Act.CHANGE_VOIDED,
            )
        ),
        "fabric-draft-publish fabric-revert api-fabrics api-fabric-revert api-changes",
    ),
    (
        ByService((Act.FABRIC_PUBLISHED, Act.CHANGE_REJECTED, Act.CHANGE_WITHDRAWN)),
        "fabric-request api-change-approve api-change-reject api-change-withdraw",
    ),
    (LOOKED, "api-fabric-lint api-scenarios-check"),
    (ByService((Act.MODEL_TESTED,)), "model-test api-model-test"),
    (ByService((Act.TOOL_TESTED,)), "fabric-draft-tool"),
    (ByService((Act.AGENT_ASKED, Act.AGENT_ANSWERED)), "fabric-draft-agent"),
    (ByService((Act.MODEL_KEY_STORED,)), "model-key api-model-key"),
    (ByService((Act.MODEL_KEY_DELETED,)), "model-key-delete api-model-key-delete"),
    (ByService((Act.BREAKER_OPENED, Act.BREAKER_RESET)), "breaker api-breakers-open api-breakers-reset"),
    (
        ByService((Act.MEMORY_WRITTEN, Act.MEMORY_DELETED)),
        "fabric-memory api-fabric-memory-write api-fabric-memory-delete",
    ),
    (ByService((Act.MEMORY_EXPORTED,)), "fabric-memory-export api-fabric-memories-export"),
    (
        ByService((Act.CHAT_ROUTE_ADDED, Act.CHAT_ROUTE_REMOVED)),
        "notifications-channels notifications-channel-remove api-notifications-channels api-notifications-channel-remove",
    ),
    (ByService((Act.NOTIFICATION_RESENT,)), "notification-resend api-notification-resend"),
    (ByService((Act.INVITATION_CREATED,)), "member-invite api-invitations"),
    (ByService((Act.INVITATION_REVOKED,)), "invitation-revoke api-invitation-revoke"),
    (ByService((Act.INVITATION_ACCEPTED,)), "invitation"),
    (ByService((Act.SERVICE_ACCOUNT_CREATED,)), "member-service api-member-services"),
    (
        ByService((Act.MEMBER_ROLES_SET, Act.MEMBER_REMOVED, Act.LOGIN_LINK_CREATED)),
        "member api-member-roles api-member-remove",
    ),
    (ByService((Act.TOKEN_CREATED,)), "token-create api-tokens"),
    (ByService((Act.TOKEN_REVOKED,)), "token-revoke api-token-revoke"),
    (ByService((Act.DECISION_SENT,)), "decide reviews-together api-review-decision api-reviews-decide"),
    (ByService((Act.DECISION_TAKEN_BACK,)), "decision-undo api-review-undo"),
    (ByService((Act.DECISION_HASTENED,)), "decision-continue api-review-continue"),
    (
        ByService((Act.REVIEW_CLAIMED, Act.REVIEW_TAKEN_OVER)),
        "reviews-next review-claim api-review-next api-review-claim",
    ),
    (ByService((Act.REVIEW_RELEASED,)), "review-release api-review-release"),
    (ByService((Act.REVIEW_REASSIGNED, Act.REVIEW_ASSIGNED_TO_ROLE)), "review-reassign api-review-reassign"),
    (LEASE, "review-beat api-review-heartbeat"),
    (LOOKED, "review-changes"),
    (ByService((Act.FOLLOW_UP_CLOSED,)), "review-close api-review-close"),
    (ByService((Act.REVIEW_COMMENTED,)), "review-comment api-review-comments"),
    (ByService((Act.REVIEW_SNOOZED, Act.REVIEW_SNOOZE_ENDED)), "review-snooze api-review-snooze"),
    (Nothing("it is how far one member has read their inbox"), "reviews-inbox-seen"),
    (ByService((Act.FAILURES_ACKNOWLEDGED,)), "overview-failures"),
    (ByService((Act.DECISIONS_EXPORTED,)), "reviews-export api-decisions-export"),
    (ByService((Act.AUDIT_EXPORTED,)), "audit-export api-audit-export"),
    (
        ByService((Act.HOLD_PLACED, Act.HOLD_LIFTED, Act.AUDIT_RULE_SET)),
        "audit-holds api-audit-holds api-audit-hold-lift",
    ),
    (
        ByService((Act.SIGNED_IN, Act.SIGN_IN_FAILED)),
        "login login-link login-second login-passkey",
    ),
    (ByService((Act.PASSWORD_LINK_SENT,)), "login-recover"),
    (ByService((Act.PASSWORD_CHANGED,)), "login-password"),
    (ByService((Act.FACTOR_ADDED, Act.RECOVERY_CODES_MADE)), "security-totp security-passkey security-codes"),
    (ByService((Act.FACTOR_REMOVED,)), "security-remove"),
    (ByService((Act.SIGN_INS_ENDED, Act.FACTOR_REMOVED)), "sign-ins-end member-sign-ins"),
    (ByService((Act.POLICY_SET,)), "policy api-policy"),
    (Nothing("it is a browser's report, which is logged without who sent it"), "csp-reports"),
    (ByService((Act.SIGNED_OUT,)), "logout"),
    (ByDoor(Act.ACCOUNT_CHANGED), "account"),
    (ByDoor(Act.MAIL_SET), "notifications-mine api-notifications-mine"),
)
ROUTE_ACTS: Mapping[str, Told] = {name: told for told, names in _ROWS for name in names.split()}
"""Act of each route, by its name."""
