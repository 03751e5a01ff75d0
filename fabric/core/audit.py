"""What the audit stream and its checkpoints are made of, byte by byte (design.md 5 "What belongs to no run").

A workspace's stream is a chain of its own over the acts that no journal tells of, and over those that people sent to runs. A checkpoint is
signed and says how far stream and journals reached, so that an end that was cut off shows.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256

import msgspec

from fabric.core.fingerprint import encode
from fabric.core.frozen import value

FORMAT = 1


class Act(StrEnum):
    """What was done, as an audit line names it."""

    WORKSPACE_CREATED = "workspace_created"
    USER_CREATED = "user_created"
    RETENTION_SET = "retention_set"
    BUDGET_SET = "budget_set"
    FABRIC_PUBLISHED = "fabric_published"
    FABRIC_REVERTED = "fabric_reverted"
    """An older revision became the published one again, by its number."""
    FABRIC_WITHDRAWN = "fabric_withdrawn"
    """What a drill had made of a fabric is published no more."""
    DRAFT_DISCARDED = "draft_discarded"
    """Somebody threw their unpublished version of a fabric away."""
    CHANGE_REQUESTED = "change_requested"
    """Somebody asks for a second person who agrees to publishing a fabric."""
    CHANGE_REJECTED = "change_rejected"
    CHANGE_WITHDRAWN = "change_withdrawn"
    """Who had asked for it took it back."""
    CHANGE_VOIDED = "change_voided"
    """What it was about was changed, so nobody can agree to it any more."""
    TOKEN_CREATED = "token_created"  # noqa: S105 - The name of an act.
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - The same.
    LOGIN_LINK_CREATED = "login_link_created"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    PASSWORD_CHANGED = "password_changed"  # noqa: S105 - The same.
    """Somebody changed their own; their other sign-ins and their open sign-in links are over."""
    SIGN_INS_ENDED = "sign_ins_ended"
    """Sign-ins of the subject were ended, by themselves or by an owner; or because their password or a factor changed."""
    SIGN_IN_REFUSED = "sign_in_refused"
    """The provider of identities let somebody in who has no place here, or took a member out; the line says why."""
    PASSWORD_LINK_SENT = "password_link_sent"  # noqa: S105 - The same.
    """A link to choose another password was mailed to a member."""
    FACTOR_ADDED = "factor_added"
    """Somebody set up a second factor of theirs."""
    FACTOR_REMOVED = "factor_removed"
    """The same, taken away: by themselves, or all of them by an owner."""
    RECOVERY_CODES_MADE = "recovery_codes_made"
    """Codes that stand in for a second factor were made; older ones work no more."""
    INVITATION_CREATED = "invitation_created"
    """A link was made by which one person may become a member."""
    INVITATION_REVOKED = "invitation_revoked"
    INVITATION_ACCEPTED = "invitation_accepted"
    """Who accepted it is a member from then on."""
    SERVICE_ACCOUNT_CREATED = "service_account_created"
    MEMBER_ROLES_SET = "member_roles_set"
    MEMBER_REMOVED = "member_removed"
    """Sign-ins and tokens of who was removed are over."""
    MEMBER_READMITTED = "member_readmitted"
    """Somebody who was removed may come in again by the provider of identities."""
    DECISION_SENT = "decision_sent"
    """A person's answer was put into the inbox of its run; what became of it the journal says."""
    DECISION_TAKEN_BACK = "decision_taken_back"
    """An answer was withdrawn before its run took it."""
    DECISION_HASTENED = "decision_hastened"
    """The rest of the time in which an answer could be taken back was given up."""
    DECISIONS_EXPORTED = "decisions_exported"
    """Who decided what was exported; the subject is whose decisions, or * for everybody's."""
    REVIEW_CLAIMED = "review_claimed"
    """Somebody took a question in hand."""
    REVIEW_TAKEN_OVER = "review_taken_over"
    """The same, from somebody whose lease had lapsed."""
    REVIEW_RELEASED = "review_released"
    REVIEW_REASSIGNED = "review_reassigned"
    """A question was handed to somebody else."""
    TICKET_CLOSED = "ticket_closed"
    """A ticket was closed with a note; no run was changed."""
    CANCEL_SENT = "cancel_sent"
    TERMINATE_SENT = "terminate_sent"
    PAUSE_SENT = "pause_sent"
    RESUME_SENT = "resume_sent"
    MESSAGE_SENT = "message_sent"
    """A person sent a message into a run's conversation."""
    CONTEXT_SENT = "context_sent"
    """Somebody outside changed context variables of a run's conversation."""
    RUN_ERASED = "run_erased"
    """The contents of an ended run were erased, as its workspace's retention says."""
    RUN_EXPORTED = "run_exported"
    """The journal of a run was taken away byte for byte, as a bundle or as lines."""
    CONTENT_REVEALED = "content_revealed"
    """Somebody looked at what is withheld of a question or of an event."""
    BREAKER_OPENED = "breaker_opened"
    """A circuit breaker was opened by hand: it stays so until somebody resets it."""
    BREAKER_RESET = "breaker_reset"
    BREAKER_MOVED = "breaker_moved"
    """A call of a run, or a decision of one, moved a circuit breaker; the line names the run, and what was counted."""
    MEMORY_WRITTEN = "memory_written"
    """Something was written by hand into what a fabric remembers."""
    MEMORY_DELETED = "memory_deleted"
    """What a fabric remembered under a key was deleted by hand."""
    MEMORY_EXPORTED = "memory_exported"
    MEMORY_PRUNED = "memory_pruned"
    """Entries of a memory whose values had been erased, and that nothing needs any more, were taken out of its ledger."""
    SECRETS_SEALED_ANEW = "secrets_sealed_anew"
    """Stored secrets were sealed anew under the first key of the key ring; the line has its id, and how many."""
    BACKUP_TAKEN = "backup_taken"
    """Everything was taken away in one file; the line says whether its keys were."""
    BACKUP_RESTORED = "backup_restored"
    """This installation was made from a backup; the line says of when."""
    ACCESS_REVOKED = "access_revoked"
    """All sign-ins, tokens, open invitations and sign-in links were ended at once."""
    PROJECTION_REBUILT = "projection_rebuilt"
    NOTIFICATION_RESENT = "notification_resent"
    """A notification was put back to be sent, by hand."""
    MODEL_KEY_STORED = "model_key_stored"
    """A key of a model endpoint was stored, or took the place of one; the line has its host and last four characters."""
    MODEL_KEY_DELETED = "model_key_deleted"
    POLICY_SET = "policy_set"
    """The workspace's policy was set; the line has it as it was before and as it is after."""
    MODEL_TESTED = "model_tested"
    """A model was asked once, by hand: a call that belongs to no run."""
    DRILLS_ASKED = "drills_asked"
    """Cells of a fabric's decision table are to be drilled."""
    DRILLS_STOPPED = "drills_stopped"
    SCENARIO_SAVED = "scenario_saved"
    """A scenario was written, imported, copied or captured from a run."""
    SCENARIO_CHANGED = "scenario_changed"
    SCENARIO_DELETED = "scenario_deleted"
    DRILL_LEVER_PULLED = "drill_lever_pulled"
    """All drills of the workspace were ended, and none is begun until the lever is released."""
    DRILL_LEVER_RELEASED = "drill_lever_released"
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
    """Somebody changed their unpublished version of a fabric; the changes of ten minutes are one record with their number."""
    MAIL_SET = "mail_set"
    """Somebody chose which mail they get, or where."""
    ACCOUNT_CHANGED = "account_changed"
    REQUEST_REFUSED = "request_refused"
    """Somebody who is known asked for what they may not do, or for what contradicts what stands."""
    CALLER_REFUSED = "caller_refused"
    """A token that is not valid (any more) was presented."""
    SIGN_IN_FAILED = "sign_in_failed"
    """Name and password, or a link, did not fit; the tries of ten minutes with one name from one address are one record with their number."""
    AUDIT_EXPORTED = "audit_exported"
    AUDIT_RULE_SET = "audit_rule_set"
    """How many days records of one kind are kept."""
    AUDIT_CUT = "audit_cut"
    """Records that were older than their rule says were removed; a signed marker stands in their place."""
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
    """Id or name of what it was done to."""
    via: str = ""
    body: bytes = b"{}"
    address: str = ""
    """From which address it was asked for, where that is known; it stands in ``body`` too, which the chain covers."""


def line_hash(
    prev: bytes, seq: int, *, workspace_id: str, line_id: str, at: int, actor: str, via: str, act: str, subject: str, body: bytes
) -> bytes:  # fmt: skip
    """The stream's chain, 32 bytes: over the line before and everything that the line says, each part with its length."""
    texts = (workspace_id, line_id, str(at), actor, via, act, subject)
    parts = (prev, str(seq).encode(), *(text.encode("utf-8", "surrogatepass") for text in texts), body)
    return sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


@value()
class Reach:
    """How far a chain reached: its last seq, and that one's hash in hex."""

    seq: int
    head: str


@value(kw_only=True)
class CheckpointBody:
    """What a checkpoint signs. ``runs``: those whose journals grew since the checkpoint before."""

    workspace: str
    number: int
    at: int
    prev: str
    """SHA-256 of the body before, in hex; 64 zeros in the first."""
    key: str
    """The public key whose signature it bears, in hex."""
    stream: Reach
    runs: tuple[tuple[str, int, str], ...]
    """``(run id, last seq, hash in hex)``."""
    whole: bool = True
    """False: others grew as well: more of the same moment follow, or it was made for one run's export."""
    format: int = FORMAT


FIRST_PREV = "0" * 64
_read = msgspec.json.Decoder(CheckpointBody).decode


def checkpoint_bytes(body: CheckpointBody) -> bytes:
    """What is signed: canonical JSON."""
    return encode(msgspec.to_builtins(body) | {"format": body.format, "whole": body.whole})


def checkpoint_read(raw: bytes) -> CheckpointBody:
    """The body of a checkpoint; ValueError for bytes that are none."""
    try:
        body = _read(raw)
    except msgspec.DecodeError as error:
        raise ValueError(f"its body cannot be read: {error}") from error
    if body.format != FORMAT:
        raise ValueError(f"it is of format {body.format}, this program knows {FORMAT}: upgrade it")
    return body


def checkpoint_digest(raw: bytes) -> str:
    """What the next checkpoint names as ``prev``."""
    return sha256(raw).hexdigest()
