"""Who may use which address with which method: declared here, asked at the door of pages and API, and asked again by the service with its own sentence.

``console.access`` says who gets to an address at all. What is not declared for a method is not there: 405, whoever asks.
``tests/console/test_rights.py`` makes the matrix of addresses, methods and roles from these tables, and holds every cell of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.actor import Actor
from fabric.core.roles import RIGHTS, Right, Role, holders

Wants = tuple[Right, ...] | str
"""The rights of which one is enough; a sentence: no right decides there, but what is asked for."""

QUESTION = "it is for whoever the question asks"
OWN = "it is about one's own sign-in, mail, tokens or invitation"
OTHERS = "one's own for everybody, those of others by a right that the service asks for"
BROWSERS = "it is for browsers, whoever sits there"
EVERYBODY = "it is for every member"

_LOOKS = (
    "account",
    "api-docs",
    "audit",
    "audit-holds",
    "audit-news",
    "audit-record",
    "breaker",
    "breakers",
    "breakers-live",
    "drill",
    "drill-live",
    "drill-pytest",
    "drill-report",
    "drills",
    "drills-batch-report",
    "drills-lever",
    "drills-live",
    "drills-report",
    "drills-runs",
    "drills-schedule",
    "drills-schedules",
    "fabric",
    "fabric-compare",
    "fabric-draft",
    "fabric-draft-drills",
    "fabric-draft-history",
    "fabric-draft-merge",
    "fabric-draft-publish",
    "fabric-import",
    "fabric-memory",
    "fabric-new",
    "fabric-request",
    "fabric-revision",
    "fabric-yaml",
    "fabrics",
    "frame",
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
    "overview-live",
    "policy",
    "protections",
    "readyz",
    "review",
    "reviews",
    "reviews-history",
    "reviews-news",
    "run",
    "run-cancel",
    "run-context",
    "run-event",
    "run-event-json",
    "run-events-download",
    "run-fork",
    "run-pause",
    "run-question",
    "run-resume",
    "run-say",
    "run-scenario",
    "run-terminate",
    "runs",
    "runs-news",
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
"""One name a line, sorted: so that two branches that add one merge."""
LOOKS = frozenset(_LOOKS)
"""Pages that are looked at, by every member where the address is not for everybody. Those of the API are in ``callers.SCOPES``."""

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
    "api-drills-lever-pull": (Right.OPERATE,),
    "api-drills-lever-release": (Right.OPERATE,),
    "api-drills-schedule": (Right.OPERATE,),
    "api-drills-schedule-delete": (Right.OPERATE,),
    "api-drills-schedule-pause": (Right.OPERATE,),
    "api-drills-schedule-resume": (Right.OPERATE,),
    "api-drills-schedule-run": (Right.OPERATE,),
    "api-drills-schedules": (Right.OPERATE,),
    "api-drills-stop": (Right.OPERATE,),
    "api-escalation-claim": QUESTION,
    "api-escalation-close": QUESTION,
    "api-escalation-continue": QUESTION,
    "api-escalation-decision": QUESTION,
    "api-escalation-heartbeat": QUESTION,
    "api-escalation-next": QUESTION,
    "api-escalation-reassign": QUESTION,
    "api-escalation-release": QUESTION,
    "api-escalation-reveal": (Right.REVEAL,),
    "api-escalation-undo": QUESTION,
    "api-escalations-decide": QUESTION,
    "api-fabric-drills": (Right.RUN,),
    "api-fabric-lint": (Right.EDIT,),
    "api-fabric-memories-export": EVERYBODY,
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
    "api-notifications-mine": OWN,
    "api-policy": (Right.POLICY,),
    "api-run-cancel": (Right.CONTROL,),
    "api-run-context": (Right.CONTROL,),
    "api-run-event-reveal": (Right.REVEAL,),
    "api-run-export": (Right.AUDIT, Right.REVEAL),
    "api-run-fork": (Right.RUN,),
    "api-run-pause": (Right.CONTROL,),
    "api-run-resume": (Right.CONTROL,),
    "api-run-say": (Right.CONTROL,),
    "api-run-scenario": (Right.EDIT,),
    "api-run-terminate": (Right.CONTROL,),
    "api-runs": (Right.RUN,),
    "api-scenario-drills": (Right.RUN,),
    "api-scenarios": (Right.EDIT,),
    "api-scenarios-check": (Right.RUN,),
    "api-token-revoke": OTHERS,
    "api-tokens": OTHERS,
    "audit-export": (Right.AUDIT,),
    "audit-holds": (Right.AUDIT,),
    "breaker": (Right.OPERATE,),
    "csp-reports": BROWSERS,
    "decide": QUESTION,
    "decision-continue": QUESTION,
    "decision-undo": QUESTION,
    "drills-ask": (Right.RUN,),
    "drills-lever": (Right.OPERATE,),
    "drills-schedule": (Right.OPERATE,),
    "drills-schedules": (Right.OPERATE,),
    "drills-stop": (Right.OPERATE,),
    "fabric-draft": (Right.EDIT,),
    "fabric-draft-beat": (Right.EDIT,),
    "fabric-draft-begin": (Right.EDIT,),
    "fabric-draft-discard": (Right.EDIT,),
    "fabric-draft-drills": (Right.RUN,),
    "fabric-draft-merge": (Right.EDIT,),
    "fabric-draft-publish": (Right.EDIT,),
    "fabric-draft-redo": (Right.EDIT,),
    "fabric-draft-undo": (Right.EDIT,),
    "fabric-duplicate": (Right.EDIT,),
    "fabric-import": (Right.EDIT,),
    "fabric-memory": (Right.OPERATE,),
    "fabric-memory-export": EVERYBODY,
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
    "notifications-mine": OWN,
    "policy": (Right.POLICY,),
    "review-beat": QUESTION,
    "review-changes": QUESTION,
    "review-claim": QUESTION,
    "review-close": QUESTION,
    "review-reassign": QUESTION,
    "review-release": QUESTION,
    "review-reveal": (Right.REVEAL,),
    "reviews-export": OTHERS,
    "reviews-next": QUESTION,
    "reviews-together": QUESTION,
    "run-cancel": (Right.CONTROL,),
    "run-context": (Right.CONTROL,),
    "run-event-reveal": (Right.REVEAL,),
    "run-export": (Right.AUDIT, Right.REVEAL),
    "run-fork": (Right.RUN,),
    "run-pause": (Right.CONTROL,),
    "run-resume": (Right.CONTROL,),
    "run-say": (Right.CONTROL,),
    "run-scenario": (Right.EDIT,),
    "run-terminate": (Right.CONTROL,),
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
"""Rights that a POST to an address wants, by route name; sorted, one a line."""

_AUDIT = "audit audit-news audit-record audit-holds api-audit api-audit-record api-audit-holds"
_CONTENTS = "run-event-json run-fork run-scenario"
READERS: Mapping[str, Wants] = {
    **dict.fromkeys(_AUDIT.split(), (Right.AUDIT,)),
    **dict.fromkeys(_CONTENTS.split(), (Right.CONTENTS,)),
}
"""What looking at an address wants, by route name; every member may look at any other."""


BESIDE: Mapping[str, Right] = dict.fromkeys(("run-export", "api-run-export"), Right.CONTENTS)
"""A right that an address wants beside one of the others, by route name."""


def wanted(route: str, method: str) -> tuple[Right, ...]:
    """The rights of which one is enough; none: no right decides there."""
    table = {"POST": CHANGES, "GET": READERS, "HEAD": READERS}.get(method, {})
    found = table.get(route, ())
    return () if isinstance(found, str) else found


def refused_at_door(actor: Actor, route: str, method: str) -> str:
    """Why somebody may not use an address so, in a sentence; empty: they may, as far as rights decide.

    Where the address is about no fabric, a right at some fabric is enough here: at which, the service asks.
    """
    rights, beside = wanted(route, method), BESIDE.get(route)
    may = actor.may if actor.place else actor.may_somewhere
    if not rights or (any(may(right) for right in rights) and (beside is None or may(beside))):
        return ""
    also = "" if beside is None else f", who may also do what is for {holders(beside)} (the right to {beside})"
    if rights == (Right.CONTENTS,):
        also = f"; an owner can give you the role {Role.READER}"
    return f"{actor.name} may not do this: that is for {', or for '.join(holders(right) for right in rights)}{also}"


def roles_for(route: str, method: str) -> frozenset[Role]:
    """The roles of which each lets somebody use an address so by itself; all, where no right decides."""
    rights, beside = wanted(route, method), BESIDE.get(route)
    if not rights:
        return frozenset(Role)
    found: frozenset[Role] = frozenset().union(*(RIGHTS[right] for right in rights))
    return found if beside is None else found & RIGHTS[beside]
