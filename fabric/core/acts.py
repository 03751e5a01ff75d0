"""The table of acts: what each audit line says, what it is about, and which of its fields stood before and stand after (total by test)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from fabric.core.audit import Act
from fabric.core.frozen import value


class Outcome(StrEnum):
    """What came of what somebody wanted."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    """Nobody knows who it was: a sign-in or a token that does not fit."""


class About(StrEnum):
    """What an audit line's subject names."""

    RUN = "run"
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
class Said:
    """A row of the table."""

    sentence: str
    """What the actor did, in the past: ``ana started a run`` is the actor and this."""
    about: About
    outcome: Outcome = Outcome.DONE
    before: tuple[str, ...] = ()
    """Fields of the line's body that say what stood before..."""
    after: tuple[str, ...] = ()
    """...and what stands from then on. A field that is in both lists has the same name on both sides."""
    kept: bool = False
    """True: no rule of retention removes it, since verifying or erasing goes by it."""


def _run(sentence: str, *, after: tuple[str, ...] = ()) -> Said:
    return Said(sentence=sentence, about=About.RUN, after=after)


ACTS: Mapping[Act, Said] = {
    Act.WORKSPACE_CREATED: Said(sentence="made the workspace", about=About.WORKSPACE, kept=True),
    Act.USER_CREATED: Said(sentence="made the local owner", about=About.PERSON),
    Act.RETENTION_SET: Said(
        sentence="set how long contents are kept", about=About.WORKSPACE, before=("before_days",), after=("days",)
    ),
    Act.BUDGET_SET: Said(
        sentence="set a budget", about=About.BUDGET, before=("was",), after=("usd_micros", "tokens")
    ),
    Act.FABRIC_PUBLISHED: Said(
        sentence="published a fabric", about=About.FABRIC, before=("was",), after=("revision", "digest")
    ),
    Act.FABRIC_REVERTED: Said(
        sentence="made an older revision the published one", about=About.FABRIC, before=("was",), after=("revision", "digest")
    ),
    Act.FABRIC_WITHDRAWN: Said(sentence="withdrew a fabric that a drill had made", about=About.FABRIC),
    Act.DRAFT_BEGUN: Said(sentence="began a draft", about=About.FABRIC),
    Act.DRAFT_CHANGED: Said(sentence="changed a draft", about=About.FABRIC),
    Act.DRAFT_DISCARDED: Said(sentence="discarded a draft", about=About.FABRIC),
    Act.CHANGE_REQUESTED: Said(sentence="asked for agreement to a change", about=About.FABRIC, after=("digest",)),
    Act.CHANGE_REJECTED: Said(sentence="rejected a change", about=About.FABRIC),
    Act.CHANGE_WITHDRAWN: Said(sentence="withdrew a change", about=About.FABRIC),
    Act.CHANGE_VOIDED: Said(sentence="made a request void by changing its draft", about=About.FABRIC),
    Act.TOKEN_CREATED: Said(
        sentence="made a token", about=About.TOKEN, after=("user", "scopes", "expires_at")
    ),
    Act.TOKEN_REVOKED: Said(sentence="revoked a token", about=About.TOKEN),
    Act.LOGIN_LINK_CREATED: Said(sentence="made a sign-in link", about=About.PERSON, after=("expires_at",)),
    Act.SIGNED_IN: Said(sentence="signed in", about=About.PERSON),
    Act.SIGNED_OUT: Said(sentence="signed out", about=About.PERSON),
    Act.SIGN_IN_FAILED: Said(sentence="failed to sign in", about=About.PERSON, outcome=Outcome.FAILED),
    Act.CALLER_REFUSED: Said(
        sentence="presented a token that is not valid", about=About.TOKEN, outcome=Outcome.FAILED
    ),
    Act.REQUEST_REFUSED: Said(sentence="was refused", about=About.ADDRESS, outcome=Outcome.REFUSED),
    Act.PASSWORD_CHANGED: Said(sentence="changed their password", about=About.PERSON),
    Act.PASSWORD_LINK_SENT: Said(sentence="asked for a link to choose another password", about=About.PERSON),
    Act.FACTOR_ADDED: Said(sentence="set up a second factor", about=About.PERSON, after=("factor",)),
    Act.FACTOR_REMOVED: Said(sentence="took a second factor away", about=About.PERSON, before=("factor",)),
    Act.RECOVERY_CODES_MADE: Said(sentence="made recovery codes", about=About.PERSON),
    Act.SIGN_INS_ENDED: Said(sentence="ended sign-ins", about=About.PERSON, before=("how_many",)),
    Act.SIGN_IN_REFUSED: Said(
        sentence="refused a sign-in by the provider of identities", about=About.PERSON, outcome=Outcome.REFUSED
    ),
    Act.MEMBER_READMITTED: Said(sentence="let a removed member come in again", about=About.PERSON),
    Act.POLICY_SET: Said(
        sentence="set the workspace's policy", about=About.WORKSPACE, before=("before",), after=("after",)
    ),
    Act.SECRETS_SEALED_ANEW: Said(
        sentence="sealed stored secrets anew under another key", about=About.WORKSPACE, after=("resealed", "unopened")
    ),
    Act.BACKUP_TAKEN: Said(sentence="took a backup", about=About.WORKSPACE, after=("keys",)),
    Act.BACKUP_RESTORED: Said(sentence="made this installation from a backup", about=About.WORKSPACE, kept=True),
    Act.ACCESS_REVOKED: Said(
        sentence="ended all sign-ins, tokens and open links", about=About.WORKSPACE, before=("people", "tokens", "invitations", "links")
    ),
    Act.ACCOUNT_CHANGED: Said(sentence="changed their account", about=About.PERSON),
    Act.MAIL_SET: Said(sentence="chose which mail they get", about=About.PERSON),
    Act.INVITATION_CREATED: Said(sentence="invited somebody", about=About.INVITATION, after=("roles", "expires_at")),
    Act.INVITATION_REVOKED: Said(sentence="revoked an invitation", about=About.INVITATION),
    Act.INVITATION_ACCEPTED: Said(sentence="accepted an invitation", about=About.INVITATION, after=("roles",)),
    Act.SERVICE_ACCOUNT_CREATED: Said(sentence="made an account of programs", about=About.PERSON, after=("roles",)),
    Act.MEMBER_ROLES_SET: Said(
        sentence="gave a member other roles", about=About.PERSON, before=("before",), after=("roles",)
    ),
    Act.MEMBER_REMOVED: Said(sentence="removed a member", about=About.PERSON, before=("roles",)),
    Act.DECISION_SENT: _run("answered a question", after=("verb", "digest")),
    Act.DECISION_TAKEN_BACK: _run("took an answer back"),
    Act.DECISION_HASTENED: _run("gave up the time to take an answer back"),
    Act.DECISIONS_EXPORTED: Said(sentence="exported decisions", about=About.PERSON),
    Act.REVIEW_CLAIMED: _run("claimed a question"),
    Act.REVIEW_TAKEN_OVER: _run("took a question over"),
    Act.REVIEW_RELEASED: _run("released a question"),
    Act.REVIEW_REASSIGNED: _run("handed a question to somebody else", after=("to",)),
    Act.TICKET_CLOSED: _run("closed a ticket"),
    Act.RUN_STARTED: _run("started a run", after=("tier", "revision")),
    Act.RUN_FORKED: _run("forked a run", after=("fork", "seq")),
    Act.CANCEL_SENT: _run("cancelled a run"),
    Act.TERMINATE_SENT: _run("terminated a run"),
    Act.PAUSE_SENT: _run("paused a run"),
    Act.RESUME_SENT: _run("resumed a run"),
    Act.MESSAGE_SENT: _run("spoke in a run's conversation"),
    Act.CONTEXT_SENT: _run("changed a run's context"),
    Act.RUN_ERASED: Said(
        sentence="erased the contents of a run", about=About.RUN, after=("events", "documents", "memories"), kept=True
    ),
    Act.RUN_EXPORTED: _run("exported a run"),
    Act.CONTENT_REVEALED: _run("looked at withheld content"),
    Act.BREAKER_OPENED: Said(sentence="opened a circuit breaker", about=About.BREAKER, before=("was",), after=("is",)),
    Act.BREAKER_RESET: Said(sentence="reset a circuit breaker", about=About.BREAKER, before=("was",), after=("is",)),
    Act.BREAKER_MOVED: Said(
        sentence="moved a circuit breaker", about=About.BREAKER, before=("was",), after=("is", "trips", "counted")
    ),
    Act.MEMORY_WRITTEN: Said(sentence="wrote into a memory", about=About.FABRIC, after=("version",)),
    Act.MEMORY_DELETED: Said(sentence="deleted from a memory", about=About.FABRIC, before=("version",)),
    Act.MEMORY_EXPORTED: Said(sentence="exported memories", about=About.FABRIC),
    Act.MEMORY_PRUNED: Said(sentence="removed erased entries of a memory", about=About.FABRIC),
    Act.PROJECTION_REBUILT: _run("rebuilt a run's row"),
    Act.NOTIFICATION_RESENT: Said(sentence="had a notification sent again", about=About.NOTIFICATION),
    Act.MODEL_KEY_STORED: Said(sentence="stored a model's key", about=About.MODEL, after=("last_four",)),
    Act.MODEL_KEY_DELETED: Said(sentence="deleted a model's key", about=About.MODEL, before=("last_four",)),
    Act.MODEL_TESTED: Said(sentence="tested a model", about=About.MODEL),
    Act.DRILLS_ASKED: Said(sentence="asked for drills", about=About.FABRIC),
    Act.DRILLS_STOPPED: Said(sentence="stopped drills", about=About.DRILL),
    Act.SCENARIO_SAVED: Said(sentence="saved a scenario", about=About.SCENARIO, after=("version",)),
    Act.SCENARIO_CHANGED: Said(sentence="changed a scenario", about=About.SCENARIO, after=("version",)),
    Act.SCENARIO_DELETED: Said(sentence="deleted a scenario", about=About.SCENARIO),
    Act.DRILL_LEVER_PULLED: Said(sentence="pulled the lever on all drills", about=About.DRILL),
    Act.DRILL_LEVER_RELEASED: Said(sentence="released the lever", about=About.DRILL),
    Act.SCHEDULE_CREATED: Said(sentence="made a schedule", about=About.SCHEDULE),
    Act.SCHEDULE_CHANGED: Said(sentence="changed a schedule", about=About.SCHEDULE),
    Act.SCHEDULE_PAUSED: Said(sentence="paused a schedule", about=About.SCHEDULE),
    Act.SCHEDULE_RESUMED: Said(sentence="resumed a schedule", about=About.SCHEDULE),
    Act.SCHEDULE_DELETED: Said(sentence="deleted a schedule", about=About.SCHEDULE),
    Act.AUDIT_EXPORTED: Said(sentence="exported the audit stream", about=About.AUDIT),
    Act.AUDIT_RULE_SET: Said(
        sentence="set how long audit records are kept", about=About.AUDIT, before=("before_days",), after=("days",), kept=True
    ),
    Act.AUDIT_CUT: Said(sentence="removed old audit records", about=About.AUDIT, after=("lines",), kept=True),
    Act.HOLD_PLACED: Said(sentence="placed a legal hold", about=About.AUDIT, kept=True),
    Act.HOLD_LIFTED: Said(sentence="lifted a legal hold", about=About.AUDIT, kept=True),
}  # fmt: skip
"""Every act."""

OF_OUTCOME: Mapping[Outcome, frozenset[str]] = {
    outcome: frozenset(act.value for act, said in ACTS.items() if said.outcome is outcome) for outcome in Outcome
}
"""The kinds of lines by what came of them."""
