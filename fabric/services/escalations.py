"""Answering questions. A decision is an input to the run; what follows from it is decided, and journaled, by the run's owner.

A question takes one answer. Which of several that come at once is that one the inbox says: they all go for the same row, named by the
question and by how many answers were settled before (taken by the run, or taken back), and the row is inserted once. Until the run takes it,
whoever gave it may take it back, or let it count at once; which of the run and the person was first the inbox says as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core.actor import Actor
from fabric.core.audit import Act, AuditEntry
from fabric.core.budget_caps import NamedCap
from fabric.core.eligibility import STOPS
from fabric.core.frozen import replace
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import JournalStore, Nudge, Withdrawn
from fabric.runtime.quarantine import WAKES_QUARANTINED
from fabric.selectors.answers import Answer, SentAnswer, answer_of, answered, answers_sent, answers_settled, input_id
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.shown_before import names
from fabric.selectors.store_time import store_now
from fabric.services.answer_checks import (
    EDITED_BYTES_MAX,
    MESSAGE_CHARS_MAX,
    edited_of,
    fresh_enough,
    may_decide,
    message_of,
    possible,
)
from fabric.services.audit import audit_entry
from fabric.services.claims import claims_let_go
from fabric.services.errors import Refused, store_answers
from fabric.services.tickets import ticket_close

__all__ = ["EDITED_BYTES_MAX", "MESSAGE_CHARS_MAX"]

JSON = Any
UNDO_S_MAX = 60.0
TRIES = 5
"""How often an answer is tried again that met another one which was gone when it was looked at: taken back, or refused by the run."""
BUSY = "item {} is being answered by others at this moment; look at it again"
US = 1_000_000


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """An answer that was recorded. ``created`` False: the same person gave the same answer before."""

    run_id: str
    escalation_id: str
    verb: str
    created: bool
    second_wanted: bool = False
    """Whether a second person has to agree before anything follows from it."""


@dataclass(frozen=True, slots=True)
class DecisionUndone:
    """An answer that does not count. ``recorded`` False: it had been taken back before."""

    run_id: str
    escalation_id: str
    verb: str
    message: str
    recorded: bool


def escalation_decide(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    escalation_id: str,
    verb: str,
    message: str = "",
    digest: str = "",
    edited: JSON = None,
    cap_usd_micros: int | None = None,
    caps: Sequence[NamedCap] = (),
    model: str = "",
    tool: str = "",
    undo_s: float = 0.0,
    claim_lease: int = 0,
) -> DecisionTaken:
    """Records a person's answer and wakes the run's host. ``digest``: that of the content that the person was shown, or at least its first 8 characters; a rejection needs none.

    ``edited``: with ``edit``, the content to put in place of the shown one. ``cap_usd_micros``: with ``approve`` of a cost overrun, most the run may spend from
    now on, altogether; ``caps``: other caps that the question names (its ``takes_caps``). ``model``: with ``approve`` of a failed call, the one that it names.
    ``tool``: with ``edit`` of a call, another tool that is called with ``edited`` in its place; empty: the one that was shown.
    ``undo_s``: seconds in which the answer may be taken back. ``claim_lease``: the claim under which it is given; 0: none in particular. The same answer of one
    person again is one decision, also once the run has taken it. Raises Refused: not_found, forbidden, invalid, too_large, conflict, unavailable.
    """
    may_decide(actor)
    given = DecisionMade(
        input_id="",
        escalation_id=escalation_id,
        verb=verb,  # type: ignore[arg-type]
        actor=actor.name,
        digest=digest,
        message=message_of(message),
        edited=edited_of(verb, edited),
        cap_usd_micros=cap_usd_micros,
        caps=tuple(caps),
        model=model,
        tool=tool,
    )
    for _ in range(TRIES):
        if (taken := _try(store, nudge, actor, given, undo_s, claim_lease)) is not None:
            return taken
    raise Refused(BUSY.format(escalation_id[:80]), code="unavailable", field="escalation")


def _try(
    store: JournalStore, nudge: Nudge, actor: Actor, given: DecisionMade, undo_s: float, claim_lease: int
) -> DecisionTaken | None:
    """Sends an answer to the question as it stands; None: another one was there first, and nobody has looked at it yet."""
    # Counted before the question is read: an answer that the run takes in between is met at the insert, not passed over.
    number = answers_settled(actor, given.escalation_id)
    item = escalation_get(actor, given.escalation_id)
    if item.ticket and given.verb in item.verbs:
        # It parks nothing: its answer is the note with which it is closed.
        closed = ticket_close(actor=actor, escalation_id=item.id, note=given.message)
        return DecisionTaken(item.run_id, item.id, given.verb, closed.created)
    mine = replace(given, input_id=input_id(item.id, number), escalation_id=item.id, digest=_digest(item, given))
    if (before := answer_of(item)) is not None and not _same(item, before, mine):
        raise _answered(item, before)
    if before is not None or _counted(item, mine):
        return _taken(nudge, item, mine, created=False)
    possible(actor, item, mine, claim_lease)
    if not _put(store, actor, item, mine, undo_s):
        return None
    claims_let_go(actor=actor, escalation_id=item.id)
    taken = _taken(nudge, item, mine, created=True)
    _counts(actor, mine)
    return taken


def _digest(item: EscalationView, given: DecisionMade) -> str:
    """The whole digest, where the answer names the beginning of the question's present one. What lets nothing pass needs none."""
    unnamed = not given.digest and given.verb in STOPS
    return item.digest if unnamed or names(given.digest, item.digest) else given.digest


def _taken(nudge: Nudge, item: EscalationView, mine: DecisionMade, *, created: bool) -> DecisionTaken:
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, mine.verb, created, second_wanted=_wants_second(item, mine))


def _wants_second(item: EscalationView, mine: DecisionMade) -> bool:
    """Whether the question stays open with this answer, as far as can be told before its run takes it."""
    if mine.verb == "edit":
        return item.approvals > 1 or item.tier == Tier.HIGH_STAKES
    return mine.verb == "approve" and len({*item.agreed, mine.actor}) < item.approvals


def _counted(item: EscalationView, mine: DecisionMade) -> bool:
    """Whether this very answer is one that the run has taken and that left the question open: the first of two approvals, or a proposal."""
    if mine.actor not in item.agreed and mine.actor not in (item.proposed_by, item.given.get("edited_by")):
        return False
    same = ("verb", "actor", "digest", "message", "edited", "cap_usd_micros", "caps", "model", "tool")
    taken = [one.decision for one in answers_sent(item) if one.fate == "taken" and one.decision is not None]
    return bool(taken) and all(getattr(taken[-1], name) == getattr(mine, name) for name in same)


def _put(store: JournalStore, actor: Actor, item: EscalationView, decision: DecisionMade, undo_s: float) -> bool:
    delay = min(max(undo_s, 0.0), UNDO_S_MAX)
    act = _told(actor, Act.DECISION_SENT, item, decision)
    wakes = WAKES_QUARANTINED if item.item == "quarantine" else 1
    body, format = INBOX.dump_json(decision), INBOX.format_of(decision)
    with store_answers():
        return store.put_input(
            item.run_id, decision.input_id, body, delay_s=delay, wakes=wakes, format=format, audit=act
        )


def escalation_undo(
    *, store: JournalStore, nudge: Nudge, actor: Actor, escalation_id: str, answer_id: str = ""
) -> DecisionUndone:
    """Takes an answer back that its run has not taken yet; the question is open again. Whoever gave it may, once or more often.

    ``answer_id``: the answer that was looked at; empty: the last one. Raises Refused: not_found, forbidden (another one's), conflict (the
    run was faster, or there is nothing to take back), unavailable.
    """
    item, sent, given = _last_of(actor, escalation_id, answer_id)
    if sent.fate == "waiting":
        act = _told(actor, Act.DECISION_TAKEN_BACK, item, given)
        with store_answers():
            fate = store.withdraw_input(item.run_id, sent.input_id, audit=act)
        nudge.wake(item.run_id)
        if fate is Withdrawn.GONE:
            return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=True)
        item, sent, _ = _last_of(actor, escalation_id, sent.input_id)
    if sent.fate == "taken_back":
        return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=False)
    raise _too_late(actor, item.id, "it cannot be taken back any more")


def escalation_decide_now(
    *, store: JournalStore, nudge: Nudge, actor: Actor, escalation_id: str, answer_id: str = ""
) -> DecisionTaken:
    """Lets an answer count at once which could still be taken back. ``created`` False: there was nothing to wait for any more.

    ``answer_id`` and what is raised: as for ``escalation_undo``; conflict also for an answer that was taken back.
    """
    item, sent, given = _last_of(actor, escalation_id, answer_id)
    fresh_enough(actor, item)
    if sent.fate == "taken_back":
        message = f"you took this answer to item {item.id} back: answer it anew"
        raise Refused(message, code="conflict", field="escalation")
    act = _told(actor, Act.DECISION_HASTENED, item, given)
    with store_answers():
        hastened = sent.fate == "waiting" and store.hasten_input(item.run_id, sent.input_id, audit=act)
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, given.verb, created=hastened)


def _last_of(actor: Actor, escalation_id: str, answer_id: str) -> tuple[EscalationView, SentAnswer, DecisionMade]:
    """The question, and the answer that is meant. Refused where there is none, or it is another one's."""
    may_decide(actor)
    item = escalation_get(actor, escalation_id)
    sent = [one for one in answers_sent(item) if one.input_id == answer_id or not answer_id]
    if not sent or sent[-1].decision is None:
        if not item.open:
            raise _too_late(actor, item.id, "there is nothing to take back")
        message = f"nobody has answered item {item.id}, so there is nothing to take back"
        raise Refused(message, code="conflict", field="escalation")
    given = sent[-1].decision
    if given.actor != actor.name:
        message = f"item {item.id} was answered by {given.actor}: only who gave an answer takes it back, or lets it count at once"
        raise Refused(message, code="forbidden", field="actor")
    return item, sent[-1], given


def _too_late(actor: Actor, escalation_id: str, so: str) -> Refused:
    item = escalation_get(actor, escalation_id)  # Read after its answers: the run may have taken one in between.
    answer = answer_of(item)
    if actor.name in item.agreed:
        message = f"your word on item {item.id} counts already, and a second person is waited for; {so}"
        return Refused(message, code="conflict", field="escalation")
    if answer is None or item.open:
        message = f"the run has looked at this answer to item {item.id}, and the question is still open: answer it anew"
        return Refused(message, code="conflict", field="escalation")
    return Refused(f"{_answered(item, answer).message}; {so}", code="conflict", field="escalation")


def _told(actor: Actor, act: Act, item: EscalationView, given: DecisionMade) -> AuditEntry:
    more = {"item": item.id, "verb": given.verb, "digest": given.digest, "input_id": given.input_id}
    return audit_entry(actor=actor, act=act, subject=item.run_id, **more)


def _same(item: EscalationView, given: Answer, mine: DecisionMade) -> bool:
    """Whether the answer that a question has is this very one."""
    if given.by_system or (given.decided_by, given.verb, item.digest) != (mine.actor, mine.verb, mine.digest):
        return False
    parts = ("message", "edited", "cap_usd_micros", "caps", "model", "tool")
    return given.message is None or all(getattr(given, name) == getattr(mine, name) for name in parts)


def _counts(actor: Actor, mine: DecisionMade) -> None:
    """Refuses an answer that came too late after all: the question was closed while it was on its way."""
    item = escalation_get(actor, mine.escalation_id)
    given = None if item.open else answer_of(item)
    if given is not None and not _same(item, given, mine):
        raise _answered(item, given)


def _answered(item: EscalationView, given: Answer) -> Refused:
    return Refused(answered(item, given, store_now()), code="conflict", field="escalation")
