"""Answering questions. A decision is an input to the run; what follows from it is decided, and journaled, by the run's owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fabric.core.actor import Actor
from fabric.core.fingerprint import digest as digest_of
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.questions import SYSTEM
from fabric.core.text import clean_text
from fabric.models import Inbox
from fabric.runtime.ports import JournalStore, Nudge
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.services.errors import Refused, store_answers

MESSAGE_CHARS_MAX = 4_000
UNDO_S_MAX = 60.0
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

    ``undo_s``: seconds in which the answer may still be taken back. Twice the same answer of one person is one decision. Raises Refused:
    not_found, forbidden, invalid (verb, message), conflict (answered, withdrawn, or about something else by now), unavailable.
    """
    _may_decide(actor)
    item = escalation_get(actor, escalation_id)
    if not item.open:
        raise _closed(item)
    if verb not in item.verbs:
        message_ = f"{verb[:40]!r} is no answer to item {item.id}; possible are: {', '.join(item.verbs)}"
        raise Refused(message_, code="invalid", field="verb")
    if digest and digest != item.digest:
        message_ = f"item {item.id} asks about something else by now; look at it again before you decide"
        raise Refused(message_, code="conflict", field="digest")
    decision = DecisionMade(
        input_id=f"{_prefix(item)}{digest_of(actor.name, verb)}",
        escalation_id=item.id,
        verb=verb,  # type: ignore[arg-type]
        actor=actor.name,
        digest=item.digest,
        message=_message(message),
    )
    _nobody_else(item, decision)
    with store_answers():
        delay = min(max(undo_s, 0.0), UNDO_S_MAX)
        created = store.put_input(item.run_id, decision.input_id, INBOX.dump_json(decision), delay_s=delay)
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, verb, created)


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


def _prefix(item: EscalationView) -> str:
    return f"decision:{item.id}:"


def _message(message: str) -> str:
    cleaned = clean_text(message)[0].strip()
    if len(cleaned) > MESSAGE_CHARS_MAX:
        sentence = (
            f"the message has {len(cleaned):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken; make it shorter"
        )
        raise Refused(sentence, code="too_large", field="message")
    return cleaned


def _closed(item: EscalationView) -> Refused:
    when = _instant(item.decided_at or 0)
    if item.verb == "withdrawn":
        said = f"was withdrawn at {when}: {item.decided_by}"
    elif item.by_system:
        said = f"was decided by the system at {when}: {item.verb}, since nobody answered in time"
    else:
        said = f"was answered by {item.decided_by} at {when}: {item.verb}"
    return Refused(f"item {item.id} {said}", code="conflict", field="escalation")


def _nobody_else(item: EscalationView, mine: DecisionMade) -> None:
    """Refuses a second answer while another one is on its way to the run."""
    waiting = Inbox.objects.filter(run_id=item.run_id, consumed_seq__isnull=True, input_id__startswith=_prefix(item))
    for body, at in (
        waiting.exclude(input_id=mine.input_id).order_by("created_at").values_list("body", "created_at")[:1]
    ):
        other = INBOX.validate_json(bytes(body))
        assert isinstance(other, DecisionMade)
        said = f"was answered by {other.actor} at {_instant(at)}: {other.verb}"
        raise Refused(f"item {item.id} {said}", code="conflict", field="escalation")


def _instant(micros: int) -> str:
    return f"{datetime.fromtimestamp(micros / US, UTC):%Y-%m-%d %H:%M:%S} UTC"
