"""What was answered to a question: by the journal, or by an answer that is still on its way to the run."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.inputs import INBOX, DecisionMade
from fabric.models import Inbox
from fabric.selectors.escalations import escalation_get


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who answered what, and when (microseconds since the epoch, UTC)."""

    verb: str
    decided_by: str
    decided_at: int
    by_system: bool
    """The question expired and its declared answer was taken, or it was withdrawn."""


def escalation_answer(actor: Actor, escalation_id: str) -> Answer | None:
    """The answer a question has; None while nobody has given one. Refused not_found."""
    item = escalation_get(actor, escalation_id)
    if item.decided_at is not None:
        return Answer(verb=item.verb, decided_by=item.decided_by, decided_at=item.decided_at, by_system=item.by_system)
    waiting = Inbox.objects.filter(
        run_id=item.run_id,
        workspace_id=actor.workspace_id,
        consumed_seq__isnull=True,
        input_id__startswith=f"decision:{item.id}:",
    )
    first = waiting.order_by("created_at").values_list("body", "created_at").first()
    if first is None:
        return None
    body, at = first
    given = INBOX.validate_json(bytes(body))
    assert isinstance(given, DecisionMade)
    return Answer(verb=given.verb, decided_by=given.actor, decided_at=at, by_system=False)
