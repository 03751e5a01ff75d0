"""Which act each address that changes something is in the audit stream; total by test, and the test sends each of them.

Where a service writes the record, in the transaction that acts, the row names the acts. Where none does, the door writes it when the answer goes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.audit import Act


@dataclass(frozen=True, slots=True)
class ByService:
    """A service writes one of these."""

    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class ByDoor:
    """The door writes it for whoever was answered that it is done; the same again within ten minutes is counted."""

    act: Act


@dataclass(frozen=True, slots=True)
class Nothing:
    """No record, and why."""

    why: str


Told = ByService | ByDoor | Nothing

LOOKED = Nothing("it looks something through and keeps nothing")
LEASE = Nothing("it only prolongs what was claimed, which is a record already")

_ROWS: tuple[tuple[Told, str], ...] = (
    (ByService((Act.RUN_STARTED,)), "start api-runs"),
    (ByService((Act.RUN_FORKED,)), "run-fork api-run-fork"),
    (ByService((Act.CANCEL_SENT,)), "run-cancel api-run-cancel"),
    (ByService((Act.TERMINATE_SENT,)), "run-terminate api-run-terminate"),
    (ByService((Act.PAUSE_SENT,)), "run-pause api-run-pause"),
    (ByService((Act.RESUME_SENT,)), "run-resume api-run-resume"),
    (ByService((Act.MESSAGE_SENT,)), "run-say api-run-say"),
    (ByService((Act.CONTEXT_SENT,)), "run-context api-run-context"),
    (ByService((Act.RUN_EXPORTED,)), "run-export api-run-export"),
    (
        ByService((Act.CONTENT_REVEALED,)),
        """run-event-reveal review-reveal fabric-memory-reveal api-run-event-reveal api-escalation-reveal
        api-fabric-memory-reveal""",
    ),
    (
        ByService((Act.SCENARIO_SAVED, Act.SCENARIO_CHANGED)),
        "run-scenario scenario-new scenario-edit scenario-duplicate api-run-scenario api-scenarios",
    ),
    (ByService((Act.SCENARIO_DELETED,)), "scenario-delete"),
    (
        ByService((Act.DRILLS_ASKED,)),
        "drills-ask scenario-ask fabric-draft-drills api-fabric-drills api-scenario-drills api-drills-schedule-run",
    ),
    (ByService((Act.DRILLS_STOPPED,)), "drills-stop api-drills-stop"),
    (
        ByService((Act.DRILL_LEVER_PULLED, Act.DRILL_LEVER_RELEASED)),
        "drills-lever api-drills-lever-pull api-drills-lever-release",
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
        ByService((Act.FABRIC_PUBLISHED, Act.FABRIC_REVERTED, Act.CHANGE_REQUESTED, Act.CHANGE_VOIDED)),
        "fabric-draft-publish fabric-revert api-fabrics api-fabric-revert api-changes",
    ),
    (
        ByService((Act.FABRIC_PUBLISHED, Act.CHANGE_REJECTED, Act.CHANGE_WITHDRAWN)),
        "fabric-request api-change-approve api-change-reject api-change-withdraw",
    ),
    (LOOKED, "api-fabric-lint api-scenarios-check"),
    (ByService((Act.MODEL_TESTED,)), "model-test api-model-test"),
    (ByService((Act.MODEL_KEY_STORED,)), "model-key api-model-key"),
    (ByService((Act.MODEL_KEY_DELETED,)), "model-key-delete api-model-key-delete"),
    (ByService((Act.BREAKER_OPENED, Act.BREAKER_RESET)), "breaker api-breakers-open api-breakers-reset"),
    (
        ByService((Act.MEMORY_WRITTEN, Act.MEMORY_DELETED)),
        "fabric-memory api-fabric-memory-write api-fabric-memory-delete",
    ),
    (ByService((Act.MEMORY_EXPORTED,)), "fabric-memory-export api-fabric-memories-export"),
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
    (ByService((Act.DECISION_SENT,)), "decide reviews-together api-escalation-decision api-escalations-decide"),
    (ByService((Act.DECISION_TAKEN_BACK,)), "decision-undo api-escalation-undo"),
    (ByService((Act.DECISION_HASTENED,)), "decision-continue api-escalation-continue"),
    (
        ByService((Act.REVIEW_CLAIMED, Act.REVIEW_TAKEN_OVER)),
        "reviews-next review-claim api-escalation-next api-escalation-claim",
    ),
    (ByService((Act.REVIEW_RELEASED,)), "review-release api-escalation-release"),
    (ByService((Act.REVIEW_REASSIGNED,)), "review-reassign api-escalation-reassign"),
    (LEASE, "review-beat api-escalation-heartbeat"),
    (LOOKED, "review-changes"),
    (ByService((Act.TICKET_CLOSED,)), "review-close api-escalation-close"),
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
"""By route name."""
