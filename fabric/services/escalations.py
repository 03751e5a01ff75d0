"""Answering questions. A decision is an input to the run; what follows from it is decided, and journaled, by the run's owner.

A question takes one answer. Which of several that come at once is that one the inbox says: they all go for the same row, named by the
question and by how many answers its run has taken, and the row is inserted once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fabric.core.actor import Actor
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.questions import SYSTEM
from fabric.core.text import clean_text
from fabric.runtime.ports import JournalStore, Nudge
from fabric.selectors.answers import Answer, answer_of, answers_taken, input_id
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.services.errors import Refused, store_answers

MESSAGE_CHARS_MAX = 4_000
UNDO_S_MAX = 60.0
TRIES = 5
"""How often an answer is tried again that met another one which was gone when it was looked at: taken back, or refused by the run."""
US = 1_000_000


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """An answer that was recorded. ``created`` False: the same person gave the same answer before."""

    run_id: str
    escalation_id: str
    verb: str
    created: bool


def escalation_decide(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    escalation_id: str,
    verb: str,
    message: str = "",
    digest: str = "",
    undo_s: float = 0.0,
) -> DecisionTaken:
    """Records a person's answer and wakes the run's host. ``digest``: what the person was shown; empty: what the item asks now.

    ``undo_s``: seconds in which the answer may still be taken back. The same answer of one person again (verb, message and digest) is one
    decision, also once the run has taken it. Raises Refused: not_found, forbidden, invalid (verb, or a rejection without its reason), too_large (message), conflict
    (answered otherwise, withdrawn, or about something else by now), unavailable.
    """
    _may_decide(actor)
    for _ in range(TRIES):
        # Counted before the question is read: an answer that the run takes in between is met at the insert, not passed over.
        number = answers_taken(actor, escalation_id)
        item = escalation_get(actor, escalation_id)
        mine = DecisionMade(
            input_id=input_id(item.id, number),
            escalation_id=item.id,
            verb=verb,  # type: ignore[arg-type]
            actor=actor.name,
            digest=digest or item.digest,
            message=_message(message),
        )
        given = answer_of(item)
        if given is not None:
            if not _same(item, given, mine):
                raise _answered(item, given)
            nudge.wake(item.run_id)
            return DecisionTaken(item.run_id, item.id, verb, created=False)
        _possible(item, mine)
        if _put(store, item, mine, undo_s):
            nudge.wake(item.run_id)
            _counts(actor, mine)
            return DecisionTaken(item.run_id, item.id, verb, created=True)
    message_ = f"item {escalation_id[:80]} is being answered by others at this moment; look at it again"
    raise Refused(message_, code="unavailable", field="escalation")


def _put(store: JournalStore, item: EscalationView, decision: DecisionMade, undo_s: float) -> bool:
    delay = min(max(undo_s, 0.0), UNDO_S_MAX)
    with store_answers():
        return store.put_input(item.run_id, decision.input_id, INBOX.dump_json(decision), delay_s=delay)


def _may_decide(actor: Actor) -> None:
    """People decide. Who of them may decide what is for roles to say, which come in with the actor."""
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people decide: log in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if actor.name == SYSTEM:
        # The journal marks what the system decides by this name.
        raise Refused(
            f"nobody may decide under the name {SYSTEM!r}; log in under another", code="forbidden", field="actor"
        )


def _message(message: str) -> str:
    cleaned = clean_text(message)[0].strip()
    if len(cleaned) > MESSAGE_CHARS_MAX:
        sentence = (
            f"the message has {len(cleaned):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken; make it shorter"
        )
        raise Refused(sentence, code="too_large", field="message")
    return cleaned


def _possible(item: EscalationView, decision: DecisionMade) -> None:
    """Refuses what is no answer to the question, or was meant for another one."""
    if decision.verb not in item.verbs:
        message = f"{decision.verb[:40]!r} is no answer to item {item.id}; possible are: {', '.join(item.verbs)}"
        raise Refused(message, code="invalid", field="verb")
    if decision.digest != item.digest:
        message = f"item {item.id} asks about something else by now; look at it again before you decide"
        raise Refused(message, code="conflict", field="digest")
    if decision.verb == "reject" and not decision.message:
        message = "a rejection needs a reason: say why in the message, it is kept with the run"
        raise Refused(message, code="invalid", field="message")


def _same(item: EscalationView, given: Answer, mine: DecisionMade) -> bool:
    """Whether the answer that a question has is this very one."""
    if given.by_system or (given.decided_by, given.verb, item.digest) != (mine.actor, mine.verb, mine.digest):
        return False
    return given.message is None or given.message == mine.message


def _counts(actor: Actor, mine: DecisionMade) -> None:
    """Refuses an answer that came too late after all: the question was closed while it was on its way."""
    item = escalation_get(actor, mine.escalation_id)
    given = None if item.open else answer_of(item)
    if given is not None and not _same(item, given, mine):
        raise _answered(item, given)


def _answered(item: EscalationView, given: Answer) -> Refused:
    when = f"{datetime.fromtimestamp(given.decided_at / US, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if given.verb == "withdrawn":
        said = f"was withdrawn at {when}: {given.decided_by}"
    elif given.by_system:
        said = f"was decided by the system at {when}: {given.verb}, since nobody answered in time"
    else:
        said = f"was answered by {given.decided_by} at {when}: {given.verb}"
    return Refused(f"item {item.id} {said}", code="conflict", field="escalation")
