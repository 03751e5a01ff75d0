"""The tables of rights by address and method.

1. Pages and the API check them at the door, and the service checks again with its own sentence.
2. ``console.site.access.actors`` decides who may reach an address at all.
3. A method that is not declared answers 405 to every caller.
4. ``tests/console/site/access/test_rights.py`` checks every cell of addresses, methods and roles against these tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.people.actor import Actor
from fabric.core.people.roles import RIGHTS, Right, Role, holders

Wants = tuple[Right, ...] | str
"""Rights of which one is enough; or a sentence where no right decides, but the request itself."""

REVIEW = "it is for the people whom the review asks"
READS_REVIEW = "it is for the people who may read the review's contents"
OWN = "it is about one's own sign-in, mail, tokens or invitation"
OTHERS = "one's own for each member, those of others by a right that the service asks for"
BROWSERS = "it is for browsers, signed in or not"
EACH_MEMBER = "it is for every member"

_LOOKS = (
    "account",
    "api-docs",
    "api-openapi",
    "audit",
    "audit-holds",
    "audit-news",
    "audit-record",
    "breaker",
    "breakers",
    "breakers-live",
    "budgets",
    "dashboards",
    "docs",
    "docs-page",
    "docs-picture",
    "drill",
    "drill-live",
    "drill-pytest",
    "drill-report",
    "drill-stop",
    "drills",
    "drills-batch-report",
    "drills-coverage",
    "drills-live",
    "drills-report",
    "drills-runs",
    "drills-schedule",
    "drills-schedules",
    "fabric",
    "fabric-compare",
    "fabric-draft",
    "fabric-draft-agent",
    "fabric-draft-drills",
    "fabric-draft-history",
    "fabric-draft-merge",
    "fabric-draft-publish",
    "fabric-draft-tool",
    "fabric-import",
    "fabric-memory",
    "fabric-new",
    "fabric-request",
    "fabric-revision",
    "fabric-yaml",
    "fabrics",
    "frame",
    "health",
    "healthz",
    "invitation",
    "livez",
    "login",
    "login-link",
    "login-password",
    "login-recover",
    "login-second",
    "login-sso",
    "login-sso-back",
    "member",
    "members",
    "models",
    "notifications",
    "overview",
    "overview-card",
    "overview-failures",
    "overview-live",
    "policy",
    "protections",
    "readyz",
    "review",
    "review-news",
    "reviews",
    "reviews-history",
    "reviews-inbox",
    "reviews-news",
    "run",
    "run-cancel",
    "run-compare",
    "run-context",
    "run-event",
    "run-event-json",
    "run-events-download",
    "run-fork",
    "run-labels",
    "run-pause",
    "run-resume",
    "run-review",
    "run-say",
    "run-scenario",
    "run-stops",
    "run-terminate",
    "runs",
    "runs-export",
    "runs-job",
    "runs-job-live",
    "runs-jobs",
    "runs-jobs-new",
    "runs-news",
    "runs-views",
    "scenario",
    "scenario-edit",
    "scenario-json",
    "scenario-live",
    "scenario-new",
    "scenario-toml",
    "scenarios",
    "search",
    "security",
    "security-totp",
    "start",
    "styleguide",
)
"""One name a line, sorted, so that two branches that add names merge."""
LOOKS = frozenset(_LOOKS)
"""Pages that are only read, by every member unless the address is restricted. ``callers.SCOPES`` has those of the
API.
"""

CHANGES: Mapping[str, Wants] = {
    "account": OWN,
    "api-audit-export": (Right.AUDIT,),
    "api-audit-hold-lift": (Right.AUDIT,),
    "api-audit-holds": (Right.AUDIT,),
    "api-breakers-open": (Right.OPERATE,),
    "api-breakers-reset": (Right.OPERATE,),
    "api-change-approve": (Right.EDIT,),
    "api-change-reject": (Right.EDIT,),
    "api-change-withdraw": OWN,
    "api-changes": (Right.EDIT,),
    "api-decisions-export": OTHERS,
    "api-drafts": (Right.EDIT,),
    "api-drill-stop-pull": (Right.OPERATE,),
    "api-drill-stop-release": (Right.OPERATE,),
    "api-drills": (Right.RUN,),
    "api-drills-batch-stop": (Right.OPERATE,),
    "api-drills-schedule": (Right.OPERATE,),
    "api-drills-schedule-delete": (Right.OPERATE,),
    "api-drills-schedule-pause": (Right.OPERATE,),
    "api-drills-schedule-resume": (Right.OPERATE,),
    "api-drills-schedule-run": (Right.OPERATE,),
    "api-drills-schedules": (Right.OPERATE,),
    "api-fabric-drills": (Right.RUN,),
    "api-fabric-lint": (Right.EDIT,),
    "api-fabric-memories-export": EACH_MEMBER,
    "api-fabric-memory-delete": (Right.OPERATE,),
    "api-fabric-memory-reveal": (Right.REVEAL,),
    "api-fabric-memory-write": (Right.OPERATE,),
    "api-fabric-revert": (Right.EDIT,),
    "api-fabrics": (Right.EDIT,),
    "api-invitation-revoke": (Right.MEMBERS,),
    "api-invitations": (Right.MEMBERS,),
    "api-member-remove": (Right.MEMBERS,),
    "api-member-roles": (Right.MEMBERS,),
    "api-member-services": (Right.MEMBERS,),
    "api-model-key": (Right.KEYS,),
    "api-model-key-delete": (Right.KEYS,),
    "api-model-test": (Right.EDIT,),
    "api-notification-resend": (Right.OPERATE,),
    "api-notifications-channel-remove": OTHERS,
    "api-notifications-channels": OTHERS,
    "api-notifications-mine": OWN,
    "api-policy": (Right.POLICY,),
    "api-review-claim": REVIEW,
    "api-review-close": REVIEW,
    "api-review-comments": READS_REVIEW,
    "api-review-continue": REVIEW,
    "api-review-decision": REVIEW,
    "api-review-heartbeat": REVIEW,
    "api-review-next": REVIEW,
    "api-review-reassign": REVIEW,
    "api-review-release": REVIEW,
    "api-review-reveal": (Right.REVEAL,),
    "api-review-snooze": REVIEW,
    "api-review-undo": REVIEW,
    "api-reviews-decide": REVIEW,
    "api-run-cancel": (Right.CONTROL,),
    "api-run-context": (Right.CONTROL,),
    "api-run-event-reveal": (Right.REVEAL,),
    "api-run-export": (Right.AUDIT, Right.REVEAL),
    "api-run-fork": (Right.RUN,),
    "api-run-labels": (Right.RUN,),
    "api-run-pause": (Right.CONTROL,),
    "api-run-resume": (Right.CONTROL,),
    "api-run-say": (Right.CONTROL,),
    "api-run-scenario": (Right.EDIT,),
    "api-run-terminate": (Right.CONTROL,),
    "api-runs": (Right.RUN,),
    "api-runs-job-stop": (Right.CONTROL,),
    "api-runs-jobs": (Right.CONTROL, Right.RUN),
    "api-scenario-drills": (Right.RUN,),
    "api-scenarios": (Right.EDIT,),
    "api-scenarios-check": (Right.RUN,),
    "api-stop-allow": (Right.STOP,),
    "api-stops": (Right.STOP,),
    "api-token-revoke": OTHERS,
    "api-tokens": OTHERS,
    "audit-export": (Right.AUDIT,),
    "audit-holds": (Right.AUDIT,),
    "breaker": (Right.OPERATE,),
    "csp-reports": BROWSERS,
    "decide": REVIEW,
    "decision-continue": REVIEW,
    "decision-undo": REVIEW,
    "drill-stop": (Right.OPERATE,),
    "drills-ask": (Right.RUN,),
    "drills-batch-stop": (Right.OPERATE,),
    "drills-schedule": (Right.OPERATE,),
    "drills-schedules": (Right.OPERATE,),
    "drills-stale": (Right.RUN,),
    "fabric-draft": (Right.EDIT,),
    "fabric-draft-agent": (Right.EDIT,),
    "fabric-draft-beat": (Right.EDIT,),
    "fabric-draft-begin": (Right.EDIT,),
    "fabric-draft-discard": (Right.EDIT,),
    "fabric-draft-drills": (Right.RUN,),
    "fabric-draft-merge": (Right.EDIT,),
    "fabric-draft-publish": (Right.EDIT,),
    "fabric-draft-redo": (Right.EDIT,),
    "fabric-draft-tool": (Right.EDIT,),
    "fabric-draft-undo": (Right.EDIT,),
    "fabric-duplicate": (Right.EDIT,),
    "fabric-import": (Right.EDIT,),
    "fabric-memory": (Right.OPERATE,),
    "fabric-memory-export": EACH_MEMBER,
    "fabric-memory-reveal": (Right.REVEAL,),
    "fabric-new": (Right.EDIT,),
    "fabric-request": (Right.EDIT,),
    "fabric-revert": (Right.EDIT,),
    "invitation": OWN,
    "invitation-revoke": (Right.MEMBERS,),
    "login": OWN,
    "login-link": OWN,
    "login-passkey": OWN,
    "login-password": OWN,
    "login-recover": OWN,
    "login-second": OWN,
    "logout": OWN,
    "member": (Right.MEMBERS,),
    "member-invite": (Right.MEMBERS,),
    "member-service": (Right.MEMBERS,),
    "member-sign-ins": (Right.MEMBERS,),
    "model-key": (Right.KEYS,),
    "model-key-delete": (Right.KEYS,),
    "model-test": (Right.EDIT,),
    "notification-resend": (Right.OPERATE,),
    "notifications-channel-remove": OTHERS,
    "notifications-channels": OTHERS,
    "notifications-mine": OWN,
    "overview-failures": (Right.CONTROL,),
    "policy": (Right.POLICY,),
    "review-beat": REVIEW,
    "review-changes": REVIEW,
    "review-claim": REVIEW,
    "review-close": REVIEW,
    "review-comment": READS_REVIEW,
    "review-reassign": REVIEW,
    "review-release": REVIEW,
    "review-reveal": (Right.REVEAL,),
    "review-snooze": REVIEW,
    "reviews-export": OTHERS,
    "reviews-inbox-seen": OWN,
    "reviews-next": REVIEW,
    "reviews-together": REVIEW,
    "run-cancel": (Right.CONTROL,),
    "run-context": (Right.CONTROL,),
    "run-event-reveal": (Right.REVEAL,),
    "run-export": (Right.AUDIT, Right.REVEAL),
    "run-fork": (Right.RUN,),
    "run-labels": (Right.RUN,),
    "run-pause": (Right.CONTROL,),
    "run-resume": (Right.CONTROL,),
    "run-say": (Right.CONTROL,),
    "run-scenario": (Right.EDIT,),
    "run-stop-allow": (Right.STOP,),
    "run-stops": (Right.STOP,),
    "run-terminate": (Right.CONTROL,),
    "runs-columns": EACH_MEMBER,
    "runs-job-stop": (Right.CONTROL,),
    "runs-jobs-new": (Right.CONTROL, Right.RUN),
    "runs-view": OTHERS,
    "runs-views": OTHERS,
    "scenario-ask": (Right.RUN,),
    "scenario-delete": (Right.EDIT,),
    "scenario-duplicate": (Right.EDIT,),
    "scenario-edit": (Right.EDIT,),
    "scenario-new": (Right.EDIT,),
    "security-codes": OWN,
    "security-passkey": OWN,
    "security-remove": OWN,
    "security-totp": OWN,
    "sign-ins-end": OWN,
    "start": (Right.RUN,),
    "token-create": OTHERS,
    "token-revoke": OTHERS,
}
"""Rights that a POST to an address needs, by route name; sorted, one a line."""

_AUDIT = "audit audit-news audit-record audit-holds api-audit api-audit-record api-audit-holds"
_CONTENTS = "run-event-json run-fork run-scenario"
_JOBS = "runs-job runs-job-live runs-jobs api-runs-job api-runs-jobs"
_BY_HAND = "fabric-draft-agent fabric-draft-tool"
READERS: Mapping[str, Wants] = {
    **dict.fromkeys(_AUDIT.split(), (Right.AUDIT,)),
    **dict.fromkeys(_CONTENTS.split(), (Right.CONTENTS,)),
    **dict.fromkeys(_JOBS.split(), (Right.CONTROL,)),
    **dict.fromkeys(_BY_HAND.split(), (Right.EDIT,)),
}
"""Rights that reading an address needs, by route name; every member may read any other."""


FURTHER_RIGHTS: Mapping[str, Right] = dict.fromkeys(("run-export", "api-run-export"), Right.CONTENTS)
"""A right that an address needs in addition, by route name."""


def rights_for(route: str, method: str) -> tuple[Right, ...]:
    """Return the rights of which one is enough; none if no right decides there."""
    table = {"POST": CHANGES, "GET": READERS, "HEAD": READERS}.get(method, {})
    found = table.get(route, ())
    return () if isinstance(found, str) else found


def explain_refusal(actor: Actor, route: str, method: str) -> str:
    """Return why the actor may not use an address so, in a sentence; empty if rights allow it.

    For an address without a fabric, a right at any fabric is enough here; the service checks the fabric.
    """
    rights, beside = rights_for(route, method), FURTHER_RIGHTS.get(route)
    may = actor.may if actor.place else actor.may_somewhere
    if not rights or (any(may(right) for right in rights) and (beside is None or may(beside))):
        return ""
    also = "" if beside is None else f", who may also do what is for {holders(beside)} (the right to {beside})"
    if rights == (Right.CONTENTS,):
        also = f"; an owner can give you the role {Role.READER}"
    return f"{actor.name} may not do this: that is for {', or for '.join(holders(right) for right in rights)}{also}"


def roles_for(route: str, method: str) -> frozenset[Role]:
    """Return the roles of which each permits this use of an address; all roles if no right decides."""
    rights, beside = rights_for(route, method), FURTHER_RIGHTS.get(route)
    if not rights:
        return frozenset(Role)
    found: frozenset[Role] = frozenset().union(*(RIGHTS[right] for right in rights))
    return found if beside is None else found & RIGHTS[beside]
