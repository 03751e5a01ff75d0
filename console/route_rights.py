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

_LOOKS = """
    livez readyz healthz login login-link login-link-old login-second login-sso login-sso-back login-recover login-password
    invitation invitation-old members member account security security-totp overview overview-live overview-card start runs
    runs-news run run-cancel run-terminate run-pause run-resume run-say run-context run-fork run-scenario run-question
    run-event run-event-json run-events-download reviews reviews-news reviews-history review drills drills-live
    drills-runs drills-lever drills-schedules drills-schedule drill drill-live scenarios scenario scenario-new
    scenario-live scenario-edit scenario-toml scenario-json drill-pytest drill-report drills-batch-report
    drills-report search frame styleguide fabrics fabric fabric-new fabric-import fabric-draft fabric-draft-publish
    fabric-draft-drills fabric-draft-history fabric-draft-merge fabric-request fabric-compare fabric-revision
    fabric-yaml fabric-memory audit audit-news audit-record audit-holds breakers breakers-live breaker models policy notifications protections api-docs
"""
LOOKS = frozenset(_LOOKS.split())
"""Pages that are looked at, by every member where the address is not for everybody. Those of the API are in ``callers.SCOPES``."""

_CHANGES: tuple[tuple[Wants, str], ...] = (
    (
        (Right.RUN,),
        """
            api-scenarios-check
            start run-fork drills-ask scenario-ask fabric-draft-drills api-runs api-run-fork api-fabric-drills
            api-scenario-drills
        """,
    ),
    (
        (Right.CONTROL,),
        """
            run-cancel run-terminate run-pause run-resume run-say run-context api-run-cancel api-run-terminate
            api-run-pause api-run-resume api-run-say api-run-context
        """,
    ),
    (
        (Right.EDIT,),
        """
            run-scenario scenario-new scenario-edit scenario-duplicate scenario-delete fabric-draft fabric-draft-begin
            fabric-new fabric-import fabric-duplicate fabric-draft-beat fabric-draft-undo fabric-draft-redo
            fabric-draft-discard fabric-draft-publish fabric-draft-merge fabric-request fabric-revert model-test
            api-run-scenario api-fabrics api-drafts api-changes api-change-approve api-change-reject api-fabric-lint
            api-fabric-revert api-scenarios api-model-test
        """,
    ),
    (
        (Right.OPERATE,),
        """
            drills-stop drills-lever drills-schedules drills-schedule breaker fabric-memory notification-resend
            api-breakers-open api-breakers-reset api-fabric-memory-write api-fabric-memory-delete api-drills-stop
            api-drills-lever-pull api-drills-lever-release api-drills-schedules api-drills-schedule
            api-drills-schedule-pause api-drills-schedule-resume api-drills-schedule-delete api-drills-schedule-run
            api-notification-resend
        """,
    ),
    (
        (Right.MEMBERS,),
        """
            member-invite member-service member member-sign-ins invitation-revoke api-invitations api-invitation-revoke
            api-member-services api-member-roles api-member-remove
        """,
    ),
    (
        (Right.KEYS,),
        """
            model-key model-key-delete api-model-key api-model-key-delete
        """,
    ),
    (
        (Right.POLICY,),
        """
            policy api-policy
        """,
    ),
    (
        (Right.REVEAL,),
        """
            run-event-reveal review-reveal fabric-memory-reveal api-run-event-reveal api-escalation-reveal
            api-fabric-memory-reveal
        """,
    ),
    (
        (Right.AUDIT, Right.REVEAL),
        """
            run-export api-run-export
        """,
    ),
    (
        (Right.AUDIT,),
        """
            audit-export audit-holds api-audit-export api-audit-holds api-audit-hold-lift
        """,
    ),
    (
        QUESTION,
        """
            decide decision-undo decision-continue reviews-next reviews-together review-changes review-claim
            review-release review-reassign review-beat review-close api-escalation-decision api-escalation-undo
            api-escalation-continue api-escalations-decide api-escalation-next api-escalation-claim
            api-escalation-reassign api-escalation-heartbeat api-escalation-release api-escalation-close
        """,
    ),
    (
        OWN,
        """
            login login-link login-link-old login-second login-passkey login-recover login-password logout invitation
            account security-totp security-passkey security-remove security-codes sign-ins-end notifications-mine api-notifications-mine api-change-withdraw
        """,
    ),
    (BROWSERS, "csp-reports"),
    (
        OTHERS,
        """
            token-create api-tokens token-revoke api-token-revoke reviews-export api-decisions-export
        """,
    ),
    (
        EVERYBODY,
        """
            fabric-memory-export api-fabric-memories-export
        """,
    ),
)
CHANGES: Mapping[str, Wants] = {name: wants for wants, names in _CHANGES for name in names.split()}
"""What a POST to an address wants, by route name."""

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
    return f"{actor.name} may not do this: that is for {', or for '.join(holders(right) for right in rights)}{also}"


def roles_for(route: str, method: str) -> frozenset[Role]:
    """The roles of which each lets somebody use an address so by itself; all, where no right decides."""
    rights, beside = wanted(route, method), BESIDE.get(route)
    if not rights:
        return frozenset(Role)
    found: frozenset[Role] = frozenset().union(*(RIGHTS[right] for right in rights))
    return found if beside is None else found & RIGHTS[beside]
