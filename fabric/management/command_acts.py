"""Which acts each command of this machine writes into the audit stream; total by test."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.audit import Act

LOOKS = "it looks, and changes nothing"
MEASURES = "it measures or plays in an installation of its own"
MACHINE = "it sets up the machine; what it makes in a workspace tells of itself"

COMMAND_ACTS: Mapping[str, tuple[Act, ...] | str] = {
    "audit": (Act.AUDIT_EXPORTED, Act.HOLD_PLACED, Act.HOLD_LIFTED, Act.AUDIT_RULE_SET, Act.AUDIT_CUT),
    "bootstrap": (Act.LOGIN_LINK_CREATED, Act.WORKSPACE_CREATED, Act.USER_CREATED),
    "breakers": (Act.BREAKER_OPENED, Act.BREAKER_RESET),
    "budget": (Act.BUDGET_SET,),
    "decide": (Act.DECISION_SENT, Act.DECISION_TAKEN_BACK, Act.DECISION_HASTENED),
    "evaluate_detectors": LOOKS,
    "explain": LOOKS,
    "export_run": (Act.RUN_EXPORTED,),
    "fabric": (
        Act.FABRIC_PUBLISHED, Act.FABRIC_REVERTED, Act.CHANGE_REQUESTED, Act.CHANGE_REJECTED, Act.CHANGE_WITHDRAWN, Act.DRAFT_DISCARDED,
    ),
    "graph": LOOKS,
    "member": (
        Act.INVITATION_CREATED, Act.INVITATION_REVOKED, Act.MEMBER_ROLES_SET, Act.MEMBER_REMOVED, Act.SERVICE_ACCOUNT_CREATED,
        Act.LOGIN_LINK_CREATED, Act.FACTOR_REMOVED, Act.SIGN_INS_ENDED, Act.MEMBER_READMITTED,
    ),
    "memory": (Act.MEMORY_WRITTEN, Act.MEMORY_DELETED, Act.MEMORY_EXPORTED),
    "model": (Act.MODEL_KEY_STORED, Act.MODEL_KEY_DELETED, Act.MODEL_TESTED),
    "notifications": (Act.NOTIFICATION_RESENT,),
    "policy": (Act.POLICY_SET,),
    "rekey": (Act.SECRETS_SEALED_ANEW,),
    "rebuild_projections": (Act.PROJECTION_REBUILT,),
    "replay_run": LOOKS,
    "retention": (Act.RETENTION_SET, Act.RUN_ERASED, Act.MEMORY_PRUNED),
    "review": (Act.REVIEW_CLAIMED, Act.REVIEW_TAKEN_OVER, Act.REVIEW_RELEASED, Act.REVIEW_REASSIGNED, Act.TICKET_CLOSED),
    "review_history": (Act.DECISIONS_EXPORTED,),
    "run": (
        Act.RUN_STARTED, Act.RUN_FORKED, Act.CANCEL_SENT, Act.TERMINATE_SENT, Act.PAUSE_SENT, Act.RESUME_SENT, Act.MESSAGE_SENT,
        Act.CONTEXT_SENT,
    ),
    "token": (Act.TOKEN_CREATED, Act.TOKEN_REVOKED),
    "verify_audit": LOOKS,
    "prepare": MACHINE,
    "backup": (Act.BACKUP_TAKEN,),
    "restore": (Act.BACKUP_RESTORED, Act.ACCESS_REVOKED),
    "revoke_access": (Act.ACCESS_REVOKED,),
    "doctor": LOOKS,
    "bench": MEASURES,
    "booking": MEASURES,
    "chaos": MEASURES,
    "scoreboard": MEASURES,
    "simulate": MEASURES,
    "simulate_endpoint": MEASURES,
    "drill": (Act.DRILLS_ASKED, Act.DRILLS_STOPPED, Act.FABRIC_WITHDRAWN),
    "drill_batch": "a worker's process plays what somebody asked for, which is recorded",
    "drill_lever": (Act.DRILL_LEVER_PULLED, Act.DRILL_LEVER_RELEASED),
    "scenario": (Act.SCENARIO_SAVED, Act.SCENARIO_CHANGED, Act.SCENARIO_DELETED, Act.DRILLS_ASKED),
}  # fmt: skip
"""By the command's name."""
