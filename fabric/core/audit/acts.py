"""Table of acts: the sentence of each audit line, its subject, and its fields before and after (total by test)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from fabric.core.audit.lines import Act
from fabric.core.values.frozen import value


class Outcome(StrEnum):
    """Outcome of an attempted act."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    """The actor is unknown: a sign-in or a token that does not fit."""


class SubjectKind(StrEnum):
    """Kind of an audit line's subject."""

    RUN = "run"
    RUN_JOB = "run_job"
    VIEW = "view"
    FABRIC = "fabric"
    PERSON = "person"
    WORKSPACE = "workspace"
    TOKEN = "token"  # noqa: S105 - The name of an object.
    INVITATION = "invitation"
    BREAKER = "breaker"
    BUDGET = "budget"
    MODEL = "model"
    NOTIFICATION = "notification"
    DRILL = "drill"
    SCENARIO = "scenario"
    SCHEDULE = "schedule"
    AUDIT = "audit"
    ADDRESS = "address"
    """A page, an operation of the API, or a command."""


@value(kw_only=True)
class ActSentence:
    """A row of the table."""

    sentence: str
    """The act in the past tense: ``ana started a run`` is the actor and this."""
    about: SubjectKind
    outcome: Outcome = Outcome.DONE
    before: tuple[str, ...] = ()
    """Fields of the line's body with the values before the act."""
    after: tuple[str, ...] = ()
    """Fields with the values after the act. A field in both lists has one name on both sides."""
    kept: bool = False
    """True: no rule of retention removes it, since verifying or erasing needs it."""


def _run(sentence: str, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> ActSentence:
    return ActSentence(sentence=sentence, about=SubjectKind.RUN, before=before, after=after)


ACTS: Mapping[Act, ActSentence] = {
    Act.WORKSPACE_CREATED: ActSentence(sentence="made the workspace", about=SubjectKind.WORKSPACE, kept=True),
    Act.USER_CREATED: ActSentence(sentence="made the local owner", about=SubjectKind.PERSON),
    Act.RETENTION_SET: ActSentence(
        sentence="set how long contents are kept", about=SubjectKind.WORKSPACE, before=("before_days",), after=("days",)
    ),
    Act.BUDGET_SET: ActSentence(
        sentence="set a budget", about=SubjectKind.BUDGET, before=("was",), after=("usd_micros", "tokens")
    ),
    Act.FABRIC_PUBLISHED: ActSentence(
        sentence="published a fabric", about=SubjectKind.FABRIC, before=("was",), after=("revision", "digest")
    ),
    Act.FABRIC_REVERTED: ActSentence(
        sentence="made an older revision the published one", about=SubjectKind.FABRIC, before=("was",), after=("revision", "digest")
    ),
    Act.FABRIC_WITHDRAWN: ActSentence(sentence="withdrew a fabric that a drill had made", about=SubjectKind.FABRIC),
    Act.DRAFT_BEGUN: ActSentence(sentence="began a draft", about=SubjectKind.FABRIC),
    Act.DRAFT_CHANGED: ActSentence(sentence="changed a draft", about=SubjectKind.FABRIC),
    Act.DRAFT_DISCARDED: ActSentence(sentence="discarded a draft", about=SubjectKind.FABRIC),
    Act.CHANGE_REQUESTED: ActSentence(sentence="asked for agreement to a change", about=SubjectKind.FABRIC, after=("digest",)),
    Act.PUBLICATION_SCHEDULED: ActSentence(sentence="scheduled a publication", about=SubjectKind.FABRIC, after=("digest", "publish_at")),
    Act.PUBLICATION_FAILED: ActSentence(sentence="could not publish a fabric at its time", about=SubjectKind.FABRIC, outcome=Outcome.FAILED),
    Act.CHANGE_REJECTED: ActSentence(sentence="rejected a change", about=SubjectKind.FABRIC),
    Act.CHANGE_WITHDRAWN: ActSentence(sentence="withdrew a change", about=SubjectKind.FABRIC),
    Act.CHANGE_VOIDED: ActSentence(sentence="made a request void by changing its draft", about=SubjectKind.FABRIC),
    Act.TOKEN_CREATED: ActSentence(
        sentence="made a token", about=SubjectKind.TOKEN, after=("user", "scopes", "expires_at")
    ),
    Act.TOKEN_REVOKED: ActSentence(sentence="revoked a token", about=SubjectKind.TOKEN),
    Act.LOGIN_LINK_CREATED: ActSentence(sentence="made a sign-in link", about=SubjectKind.PERSON, after=("expires_at",)),
    Act.SIGNED_IN: ActSentence(sentence="signed in", about=SubjectKind.PERSON),
    Act.SIGNED_OUT: ActSentence(sentence="signed out", about=SubjectKind.PERSON),
    Act.SIGN_IN_FAILED: ActSentence(sentence="failed to sign in", about=SubjectKind.PERSON, outcome=Outcome.FAILED),
    Act.CALLER_REFUSED: ActSentence(
        sentence="presented a token that is not valid", about=SubjectKind.TOKEN, outcome=Outcome.FAILED
    ),
    Act.REQUEST_REFUSED: ActSentence(sentence="was refused", about=SubjectKind.ADDRESS, outcome=Outcome.REFUSED),
    Act.PASSWORD_CHANGED: ActSentence(sentence="changed their password", about=SubjectKind.PERSON),
    Act.PASSWORD_LINK_SENT: ActSentence(sentence="asked for a link to choose another password", about=SubjectKind.PERSON),
    Act.FACTOR_ADDED: ActSentence(sentence="set up a second factor", about=SubjectKind.PERSON, after=("factor",)),
    Act.FACTOR_REMOVED: ActSentence(sentence="took a second factor away", about=SubjectKind.PERSON, before=("factor",)),
    Act.RECOVERY_CODES_MADE: ActSentence(sentence="made recovery codes", about=SubjectKind.PERSON),
    Act.SIGN_INS_ENDED: ActSentence(sentence="ended sign-ins", about=SubjectKind.PERSON, before=("how_many",)),
    Act.SIGN_IN_REFUSED: ActSentence(
        sentence="refused a sign-in by the provider of identities", about=SubjectKind.PERSON, outcome=Outcome.REFUSED
    ),
    Act.MEMBER_READMITTED: ActSentence(sentence="let a removed member come in again", about=SubjectKind.PERSON),
    Act.POLICY_SET: ActSentence(
        sentence="set the workspace's policy", about=SubjectKind.WORKSPACE, before=("before",), after=("after",)
    ),
    Act.SECRETS_SEALED_ANEW: ActSentence(
        sentence="encrypted stored secrets with another key", about=SubjectKind.WORKSPACE, after=("resealed", "unopened")
    ),
    Act.BACKUP_TAKEN: ActSentence(sentence="took a backup", about=SubjectKind.WORKSPACE, after=("keys",)),
    Act.BACKUP_RESTORED: ActSentence(sentence="made this installation from a backup", about=SubjectKind.WORKSPACE, kept=True),
    Act.ACCESS_REVOKED: ActSentence(
        sentence="ended all sign-ins, tokens and open links", about=SubjectKind.WORKSPACE, before=("people", "tokens", "invitations", "links")
    ),
    Act.ACCOUNT_CHANGED: ActSentence(sentence="changed their account", about=SubjectKind.PERSON),
    Act.MAIL_SET: ActSentence(sentence="chose which mail they get", about=SubjectKind.PERSON),
    Act.INVITATION_CREATED: ActSentence(sentence="invited a person", about=SubjectKind.INVITATION, after=("roles", "expires_at")),
    Act.INVITATION_REVOKED: ActSentence(sentence="revoked an invitation", about=SubjectKind.INVITATION),
    Act.INVITATION_ACCEPTED: ActSentence(sentence="accepted an invitation", about=SubjectKind.INVITATION, after=("roles",)),
    Act.SERVICE_ACCOUNT_CREATED: ActSentence(sentence="made an account of programs", about=SubjectKind.PERSON, after=("roles",)),
    Act.MEMBER_ROLES_SET: ActSentence(
        sentence="gave a member other roles", about=SubjectKind.PERSON, before=("before",), after=("roles",)
    ),
    Act.MEMBER_REMOVED: ActSentence(sentence="removed a member", about=SubjectKind.PERSON, before=("roles",)),
    Act.DECISION_SENT: _run("answered a review", after=("verb", "digest")),
    Act.DECISION_TAKEN_BACK: _run("took an answer back"),
    Act.DECISION_HASTENED: _run("gave up the time to take an answer back"),
    Act.DECISIONS_EXPORTED: ActSentence(sentence="exported decisions", about=SubjectKind.PERSON),
    Act.REVIEW_CLAIMED: _run("claimed a review"),
    Act.REVIEW_TAKEN_OVER: _run("took a review over"),
    Act.REVIEW_RELEASED: _run("released a review"),
    Act.REVIEW_REASSIGNED: _run("assigned a review to another person", after=("to",)),
    Act.FOLLOW_UP_CLOSED: _run("closed a follow-up"),
    Act.REVIEW_COMMENTED: _run("commented on a review"),
    Act.REVIEW_ASSIGNED_TO_ROLE: _run("assigned a review to a role", after=("to",)),
    Act.REVIEW_SNOOZED: _run("snoozed a review for themselves", after=("until",)),
    Act.REVIEW_SNOOZE_ENDED: _run("ended their snooze of a review"),
    Act.CHAT_ROUTE_ADDED: ActSentence(
        sentence="routed reviews to a chat", about=SubjectKind.NOTIFICATION, after=("channel", "host")
    ),
    Act.CHAT_ROUTE_REMOVED: ActSentence(
        sentence="removed a channel of a chat", about=SubjectKind.NOTIFICATION, before=("channel", "host")
    ),
    Act.FAILURES_ACKNOWLEDGED: ActSentence(sentence="acknowledged failures", about=SubjectKind.FABRIC, after=("cause",)),
    Act.RUN_STARTED: _run("started a run", after=("tier", "revision")),
    Act.RUN_FORKED: _run("forked a run", after=("fork", "seq")),
    Act.CANCEL_SENT: _run("cancelled a run"),
    Act.TERMINATE_SENT: _run("terminated a run"),
    Act.PAUSE_SENT: _run("paused a run"),
    Act.RESUME_SENT: _run("resumed a run"),
    Act.MESSAGE_SENT: _run("spoke in a run's conversation"),
    Act.CONTEXT_SENT: _run("changed a run's context"),
    Act.NEW_RUNS_STOPPED: ActSentence(
        sentence="stopped new runs", about=SubjectKind.WORKSPACE, after=("running", "until_at", "reason")
    ),
    Act.NEW_RUNS_ALLOWED: ActSentence(sentence="allowed new runs again", about=SubjectKind.WORKSPACE, after=("resume",)),
    Act.STOP_EXPIRED: ActSentence(sentence="ended a stop of new runs at its given end", about=SubjectKind.WORKSPACE),
    Act.RUN_LABELLED: _run("changed a run's labels", before=("before",), after=("after",)),
    Act.RUN_JOB_BEGUN: ActSentence(sentence="began a run job", about=SubjectKind.RUN_JOB, after=("action", "runs")),
    Act.RUN_JOB_STOPPED: ActSentence(sentence="stopped a run job", about=SubjectKind.RUN_JOB, after=("action",)),
    Act.RUN_JOB_ENDED: ActSentence(
        sentence="ended a run job", about=SubjectKind.RUN_JOB, after=("action", "done", "refused", "left")
    ),
    Act.VIEW_SAVED: ActSentence(sentence="saved a view of runs", about=SubjectKind.VIEW, after=("shared",)),
    Act.VIEW_RENAMED: ActSentence(sentence="renamed a view of runs", about=SubjectKind.VIEW),
    Act.VIEW_DELETED: ActSentence(sentence="deleted a view of runs", about=SubjectKind.VIEW),
    Act.RUN_ERASED: ActSentence(
        sentence="erased the contents of a run", about=SubjectKind.RUN, after=("events", "documents", "memories"), kept=True
    ),
    Act.RUN_EXPORTED: _run("exported a run"),
    Act.CONTENT_REVEALED: _run("looked at withheld content"),
    Act.BREAKER_OPENED: ActSentence(sentence="opened a circuit breaker", about=SubjectKind.BREAKER, before=("was",), after=("is",)),
    Act.BREAKER_RESET: ActSentence(sentence="reset a circuit breaker", about=SubjectKind.BREAKER, before=("was",), after=("is",)),
    Act.BREAKER_MOVED: ActSentence(
        sentence="moved a circuit breaker", about=SubjectKind.BREAKER, before=("was",), after=("is", "trips", "counted")
    ),
    Act.MEMORY_WRITTEN: ActSentence(sentence="wrote into a memory", about=SubjectKind.FABRIC, after=("version",)),
    Act.MEMORY_DELETED: ActSentence(sentence="deleted from a memory", about=SubjectKind.FABRIC, before=("version",)),
    Act.MEMORY_EXPORTED: ActSentence(sentence="exported memories", about=SubjectKind.FABRIC),
    Act.MEMORY_PRUNED: ActSentence(sentence="removed erased entries of a memory", about=SubjectKind.FABRIC),
    Act.PROJECTION_REBUILT: _run("rebuilt a run's row"),
    Act.NOTIFICATION_RESENT: ActSentence(sentence="had a notification sent again", about=SubjectKind.NOTIFICATION),
    Act.MODEL_KEY_STORED: ActSentence(sentence="stored a model's key", about=SubjectKind.MODEL, after=("last_four",)),
    Act.MODEL_KEY_DELETED: ActSentence(sentence="deleted a model's key", about=SubjectKind.MODEL, before=("last_four",)),
    Act.MODEL_TESTED: ActSentence(sentence="tested a model", about=SubjectKind.MODEL),
    Act.TOOL_TESTED: ActSentence(sentence="sent a test request of a tool", about=SubjectKind.FABRIC),
    Act.AGENT_ASKED: ActSentence(sentence="sent a prompt to a drafted agent", about=SubjectKind.FABRIC, after=("agent", "model", "reserved_usd_micros")),
    Act.AGENT_ANSWERED: ActSentence(
        sentence="paid for a prompt to a drafted agent", about=SubjectKind.FABRIC, after=("agent", "cost_usd_micros", "input_tokens", "output_tokens")
    ),
    Act.DRILLS_ASKED: ActSentence(sentence="asked for drills", about=SubjectKind.FABRIC),
    Act.DRILLS_STOPPED: ActSentence(sentence="stopped drills", about=SubjectKind.DRILL),
    Act.SCENARIO_SAVED: ActSentence(sentence="saved a scenario", about=SubjectKind.SCENARIO, after=("version",)),
    Act.SCENARIO_CHANGED: ActSentence(sentence="changed a scenario", about=SubjectKind.SCENARIO, after=("version",)),
    Act.SCENARIO_DELETED: ActSentence(sentence="deleted a scenario", about=SubjectKind.SCENARIO),
    Act.DRILL_STOP_PULLED: ActSentence(sentence="stopped all drills", about=SubjectKind.DRILL),
    Act.DRILL_STOP_RELEASED: ActSentence(sentence="allowed drills again", about=SubjectKind.DRILL),
    Act.SCHEDULE_CREATED: ActSentence(sentence="made a schedule", about=SubjectKind.SCHEDULE),
    Act.SCHEDULE_CHANGED: ActSentence(sentence="changed a schedule", about=SubjectKind.SCHEDULE),
    Act.SCHEDULE_PAUSED: ActSentence(sentence="paused a schedule", about=SubjectKind.SCHEDULE),
    Act.SCHEDULE_RESUMED: ActSentence(sentence="resumed a schedule", about=SubjectKind.SCHEDULE),
    Act.SCHEDULE_DELETED: ActSentence(sentence="deleted a schedule", about=SubjectKind.SCHEDULE),
    Act.AUDIT_EXPORTED: ActSentence(sentence="exported the audit stream", about=SubjectKind.AUDIT),
    Act.AUDIT_RULE_SET: ActSentence(
        sentence="set how long audit records are kept", about=SubjectKind.AUDIT, before=("before_days",), after=("days",), kept=True
    ),
    Act.AUDIT_CUT: ActSentence(sentence="removed old audit records", about=SubjectKind.AUDIT, after=("lines",), kept=True),
    Act.HOLD_PLACED: ActSentence(sentence="placed a legal hold", about=SubjectKind.AUDIT, kept=True),
    Act.HOLD_LIFTED: ActSentence(sentence="lifted a legal hold", about=SubjectKind.AUDIT, kept=True),
}  # fmt: skip
"""Every act."""

OF_OUTCOME: Mapping[Outcome, frozenset[str]] = {
    outcome: frozenset(act.value for act, said in ACTS.items() if said.outcome is outcome) for outcome in Outcome
}
"""The kinds of lines by outcome."""
