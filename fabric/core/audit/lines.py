"""Defines lines of the audit stream, its cuts and its checkpoints, byte by byte (docs/specification/durability.md).

- A workspace's stream is a chain of its own. It has the acts that no journal records, and those that people sent to
  runs.
- A checkpoint is signed. It records the ends of the stream and the journals, so that a cut-off end is found.
- A cut is the signed marker in place of removed lines. Without it the chain would have a gap that means tampering.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256

import msgspec

from fabric.core.values.fingerprint import encode
from fabric.core.values.frozen import value

FORMAT = 1


class Act(StrEnum):
    """Name of an act in an audit line."""

    WORKSPACE_CREATED = "workspace_created"
    USER_CREATED = "user_created"
    RETENTION_SET = "retention_set"
    BUDGET_SET = "budget_set"
    FABRIC_PUBLISHED = "fabric_published"
    FABRIC_REVERTED = "fabric_reverted"
    """An older revision became the published one again, by its number."""
    FABRIC_WITHDRAWN = "fabric_withdrawn"
    """A drill's version of a fabric is no longer published."""
    DRAFT_DISCARDED = "draft_discarded"
    """A person discarded their unpublished version of a fabric."""
    CHANGE_REQUESTED = "change_requested"
    """A person requests a second person's agreement to publish a fabric."""
    PUBLICATION_SCHEDULED = "publication_scheduled"
    """A person scheduled the publication of a fabric; they cancel it as they withdraw a change."""
    PUBLICATION_FAILED = "publication_failed"
    """The time of a scheduled publication came, and it could not be published; the line has the reason."""
    CHANGE_REJECTED = "change_rejected"
    CHANGE_WITHDRAWN = "change_withdrawn"
    """The author of the request withdrew it."""
    CHANGE_VOIDED = "change_voided"
    """The subject of the request was changed, so it can no longer be approved."""
    TOKEN_CREATED = "token_created"  # noqa: S105 - The name of an act.
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - The same.
    LOGIN_LINK_CREATED = "login_link_created"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - The same.
    """A person changed their password; their other sign-ins and their open sign-in links end."""
    SIGN_INS_ENDED = "sign_ins_ended"
    """The subject's sign-ins ended: they or an owner ended them, or their password or a factor changed."""
    SIGN_IN_REFUSED = "sign_in_refused"
    """The identity provider admitted a person without a place here, or removed a member; the line has the reason."""
    PASSWORD_LINK_SENT = "password_link_sent"  # noqa: S105 - The same.
    """A link to choose another password was mailed to a member."""
    FACTOR_ADDED = "factor_added"
    """A person set up a second factor."""
    FACTOR_REMOVED = "factor_removed"
    """A second factor was removed: by its owner, or all of a person's by an owner of the workspace."""
    RECOVERY_CODES_MADE = "recovery_codes_made"
    """Codes that replace a second factor were made; older ones no longer work."""
    INVITATION_CREATED = "invitation_created"
    """A link was made by which one person may become a member."""
    INVITATION_REVOKED = "invitation_revoked"
    INVITATION_ACCEPTED = "invitation_accepted"
    """The invited person accepted, and is a member from then on."""
    SERVICE_ACCOUNT_CREATED = "service_account_created"
    MEMBER_ROLES_SET = "member_roles_set"
    MEMBER_REMOVED = "member_removed"
    """A member was removed; their sign-ins and tokens end."""
    MEMBER_READMITTED = "member_readmitted"
    """A removed person may come in again by the identity provider."""
    DECISION_SENT = "decision_sent"
    """A person's answer was put into the inbox of its run; what became of it the journal says."""
    DECISION_TAKEN_BACK = "decision_taken_back"
    """An answer was withdrawn before its run took it."""
    DECISION_HASTENED = "decision_hastened"
    """A reviewer gave up the remaining time for withdrawing an answer."""
    DECISIONS_EXPORTED = "decisions_exported"
    """Decisions were exported; the subject is the person whose decisions they are, or * for all."""
    REVIEW_CLAIMED = "review_claimed"
    """A person claimed the assignment of a review."""
    REVIEW_TAKEN_OVER = "review_taken_over"
    """A person claimed an assignment whose lease had lapsed for another person."""
    REVIEW_RELEASED = "review_released"
    REVIEW_REASSIGNED = "review_reassigned"
    """A review was reassigned to another person."""
    FOLLOW_UP_CLOSED = "follow_up_closed"
    """A follow-up was closed with a note; no run was changed."""
    REVIEW_COMMENTED = "review_commented"
    """A person commented on a review; the line has the mentioned members, and not the words."""
    REVIEW_ASSIGNED_TO_ROLE = "review_assigned_to_role"
    """A review was assigned to the holders of a role."""
    REVIEW_SNOOZED = "review_snoozed"
    """A person hid a review from their own list until a time."""
    REVIEW_SNOOZE_ENDED = "review_snooze_ended"
    """A person put a review back into their own list."""
    CHAT_ROUTE_ADDED = "chat_route_added"
    """Reviews of a fabric, or of a member, go to a channel of a chat from then on."""
    CHAT_ROUTE_REMOVED = "chat_route_removed"
    FAILURES_ACKNOWLEDGED = "failures_acknowledged"
    """A person acknowledged the failures of one fabric and cause on the overview."""
    CANCEL_SENT = "cancel_sent"
    TERMINATE_SENT = "terminate_sent"
    PAUSE_SENT = "pause_sent"
    RESUME_SENT = "resume_sent"
    MESSAGE_SENT = "message_sent"
    """A person sent a message into a run's conversation."""
    CONTEXT_SENT = "context_sent"
    """An outsider changed context variables of a run's conversation."""
    NEW_RUNS_STOPPED = "new_runs_stopped"
    """New runs of a fabric or of the workspace are refused from now on. The line has the reason and the given end."""
    NEW_RUNS_ALLOWED = "new_runs_allowed"
    """A person lifted a stop of new runs; the line tells if the runs that it paused are resumed."""
    STOP_EXPIRED = "stop_expired"
    """A stop of new runs reached its given end."""
    RUN_LABELLED = "run_labelled"
    """A person set or removed labels of a run."""
    RUN_JOB_BEGUN = "run_job_begun"
    """A person began one action on many runs; the line has their number, and each run has its own line."""
    RUN_JOB_STOPPED = "run_job_stopped"
    """A person stopped such a job; it ends after its present batch."""
    RUN_JOB_ENDED = "run_job_ended"
    """A job acted on its last run, or ended after its stop. The line has the counts."""
    VIEW_SAVED = "view_saved"
    """A member saved a view of the list of runs; the line says whether others see it."""
    VIEW_RENAMED = "view_renamed"
    VIEW_DELETED = "view_deleted"
    RUN_ERASED = "run_erased"
    """The contents of an ended run were erased, as its workspace's retention says."""
    RUN_EXPORTED = "run_exported"
    """The journal of a run was taken away byte for byte, as a bundle or as lines."""
    CONTENT_REVEALED = "content_revealed"
    """A person revealed hidden parts of a review or of an event."""
    BREAKER_OPENED = "breaker_opened"
    """A person opened a circuit breaker; it stays open until a person resets it."""
    BREAKER_RESET = "breaker_reset"
    BREAKER_MOVED = "breaker_moved"
    """A call of a run, or a decision of one, moved a circuit breaker. The line names the run and the counts."""
    MEMORY_WRITTEN = "memory_written"
    """A person wrote into a fabric's memory."""
    MEMORY_DELETED = "memory_deleted"
    """A person deleted a fabric's memory of a key."""
    MEMORY_EXPORTED = "memory_exported"
    MEMORY_PRUNED = "memory_pruned"
    """Entries of a memory that are no longer needed, their values erased before, were removed from its ledger."""
    SECRETS_SEALED_ANEW = "secrets_sealed_anew"
    """Stored secrets were encrypted again under the first key of the key ring. The line has its id, and their
    number.
    """
    BACKUP_TAKEN = "backup_taken"
    """A backup of everything was taken in one file; the line tells if it has the keys."""
    BACKUP_RESTORED = "backup_restored"
    """This installation was made from a backup; the line says of when."""
    ACCESS_REVOKED = "access_revoked"
    """All sign-ins, tokens, open invitations and sign-in links were ended at once."""
    PROJECTION_REBUILT = "projection_rebuilt"
    NOTIFICATION_RESENT = "notification_resent"
    """A notification was put back to be sent, by hand."""
    MODEL_KEY_STORED = "model_key_stored"
    """A key of a model endpoint was stored or replaced; the line has its host and last four characters."""
    MODEL_KEY_DELETED = "model_key_deleted"
    POLICY_SET = "policy_set"
    """The workspace's policy was set; the line has it as it was before and as it is after."""
    MODEL_TESTED = "model_tested"
    """A person tested a model with one call, which belongs to no run."""
    TOOL_TESTED = "tool_tested"
    """A person sent one request of a draft's HTTP tool, which belongs to no run."""
    AGENT_ASKED = "agent_asked"
    """A person sends one prompt to a draft's agent, which belongs to no run; the line has its largest cost."""
    AGENT_ANSWERED = "agent_answered"
    """That prompt's call ended; the line has its cost."""
    DRILLS_ASKED = "drills_asked"
    """Cells of a fabric's decision table are to be drilled."""
    DRILLS_STOPPED = "drills_stopped"
    SCENARIO_SAVED = "scenario_saved"
    """A scenario was written, imported, copied or captured from a run."""
    SCENARIO_CHANGED = "scenario_changed"
    SCENARIO_DELETED = "scenario_deleted"
    DRILL_STOP_PULLED = "drill_stop_pulled"
    """All drills of the workspace were ended, and none is begun until the drill stop is released."""
    DRILL_STOP_RELEASED = "drill_stop_released"
    SCHEDULE_CREATED = "schedule_created"
    """Drills of a fabric are to be asked for again and again."""
    SCHEDULE_CHANGED = "schedule_changed"
    SCHEDULE_PAUSED = "schedule_paused"
    SCHEDULE_RESUMED = "schedule_resumed"
    SCHEDULE_DELETED = "schedule_deleted"
    RUN_STARTED = "run_started"
    RUN_FORKED = "run_forked"
    DRAFT_BEGUN = "draft_begun"
    DRAFT_CHANGED = "draft_changed"
    """A person changed their unpublished version of a fabric; the changes of ten minutes are one record with their
    number.
    """
    MAIL_SET = "mail_set"
    """A person chose their mails, or their address."""
    ACCOUNT_CHANGED = "account_changed"
    REQUEST_REFUSED = "request_refused"
    """A known person requested an act that they may not do, or that contradicts the present state."""
    CALLER_REFUSED = "caller_refused"
    """A caller presented a token that is not valid (any more)."""
    SIGN_IN_FAILED = "sign_in_failed"
    """Name and password, or a link, did not fit. The attempts of ten minutes with one name from one address are one
    record with their number.
    """
    AUDIT_EXPORTED = "audit_exported"
    AUDIT_RULE_SET = "audit_rule_set"
    """The number of days for records of one kind was set."""
    AUDIT_CUT = "audit_cut"
    """Records older than their rule allows were removed, and replaced by a signed marker."""
    HOLD_PLACED = "hold_placed"
    """From now on nothing of a run, a fabric or a person is removed."""
    HOLD_LIFTED = "hold_lifted"


@value(kw_only=True)
class AuditEntry:
    """An act, to be inserted in the transaction that does it. ``body``: JSON without any content of a run."""

    entry_id: str
    actor: str
    act: Act
    subject: str
    """Id or name of the act's subject."""
    via: str = ""
    body: bytes = b"{}"
    address: str = ""
    """Address of the request, if known; ``body`` has it too, which the chain covers."""


def line_hash(
    prev: bytes, seq: int, *, workspace_id: str, line_id: str, at: int, actor: str, via: str, act: str, subject: str, body: bytes
) -> bytes:  # fmt: skip
    """Return the hash of a line in the stream's chain, 32 bytes. It covers the line before and each field of this line,
    with its length.
    """
    texts = (workspace_id, line_id, str(at), actor, via, act, subject)
    parts = (prev, str(seq).encode(), *(text.encode("utf-8", "surrogatepass") for text in texts), body)
    return sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


@value()
class ChainEnd:
    """End of a chain: its last seq, and that line's hash in hex."""

    seq: int
    head: str


@value(kw_only=True)
class CheckpointBody:
    """Signed contents of a checkpoint. ``runs``: those whose journals grew since the checkpoint before."""

    workspace: str
    number: int
    at: int
    prev: str
    """SHA-256 of the body before, in hex; 64 zeros in the first."""
    key: str
    """The public key whose signature it bears, in hex."""
    stream: ChainEnd
    runs: tuple[tuple[str, int, str], ...]
    """``(run id, last seq, hash in hex)``."""
    whole: bool = True
    """False: further runs grew too: more checkpoints of this moment follow, or it was made for one run's export."""
    format: int = FORMAT


FIRST_PREV = "0" * 64
_read = msgspec.json.Decoder(CheckpointBody).decode


def checkpoint_bytes(body: CheckpointBody) -> bytes:
    """Return the signed bytes: canonical JSON."""
    return encode(msgspec.to_builtins(body) | {"format": body.format, "whole": body.whole})


def checkpoint_read(raw: bytes) -> CheckpointBody:
    """Return the body of a checkpoint; raises ValueError for other bytes."""
    try:
        body = _read(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"its body cannot be read: {error}") from error
    if body.format != FORMAT:
        raise ValueError(f"it is of format {body.format}, this program knows {FORMAT}: upgrade it")
    return body


def checkpoint_digest(raw: bytes) -> str:
    """Return the digest that the next checkpoint names as ``prev``."""
    return sha256(raw).hexdigest()


CUT_FORMAT = 1


@value(kw_only=True)
class CutBody:
    """Signed contents of a marker. The chain reached it with ``prev`` and goes on with ``head``."""

    workspace: str
    first: int
    """Position of the first removed line."""
    last: int
    """Position of the last removed line."""
    prev: str
    """Hash before the first, in hex."""
    head: str
    """Hash of the last, in hex."""
    at: int
    key: str
    """The public key whose signature it bears, in hex."""
    format: int = CUT_FORMAT


_cut_read = msgspec.json.Decoder(CutBody).decode


def cut_bytes(body: CutBody) -> bytes:
    """Return the signed bytes: canonical JSON."""
    return encode(msgspec.to_builtins(body) | {"format": body.format})


def cut_read(raw: bytes) -> CutBody:
    """Return the body of a marker; raises ValueError for other bytes."""
    try:
        body = _cut_read(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"its body cannot be read: {error}") from error
    if body.format != CUT_FORMAT:
        raise ValueError(f"it is of format {body.format}, this program knows {CUT_FORMAT}: upgrade it")
    return body
