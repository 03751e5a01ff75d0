"""What was answered to a question: by the journal, or by an answer that is still on its way to the run."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from fabric.core.actor import Actor
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.text import clean_text
from fabric.models import Escalation, Inbox
from fabric.selectors.escalations import EscalationView, escalation_get


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who answered what, and when (microseconds since the epoch, UTC)."""

    verb: str
    decided_by: str
    decided_at: int
    by_system: bool
    """The question expired and its declared answer was taken, or it was withdrawn."""
    message: str | None = None
    """What was said with it; None: that is not known any more."""


def input_id(escalation_id: str, number: int) -> str:
    """Id of the input that carries an answer. ``number``: how many answers to this question the run has taken before."""
    return f"decision:{escalation_id}:{number}"


def escalation_answer(actor: Actor, escalation_id: str) -> Answer | None:
    """The answer a question has; None while nobody has given one. Refused not_found."""
    return answer_of(escalation_get(actor, escalation_id))


def answer_of(item: EscalationView) -> Answer | None:
    """The answer that a question has, as it was read; None while nobody has given one."""
    if item.decided_at is None:
        return _on_its_way(item)
    taken = _answers(item.workspace_id, item.id).filter(run_id=item.run_id, consumed_seq__isnull=False)
    given = [_decision(bytes(body)) for body in taken.order_by("-created_at").values_list("body", flat=True)]
    said = [one.message for one in given if (one.actor, one.verb) == (item.decided_by, item.verb)]
    return Answer(
        verb=item.verb,
        decided_by=item.decided_by,
        decided_at=item.decided_at,
        by_system=item.by_system,
        message=said[0] if said else None,
    )


def answers_taken(actor: Actor, escalation_id: str) -> int:
    """How many answers to a question its run has taken. All but the last were refused by the run: the question stayed open."""
    named = clean_text(escalation_id)[0]
    run = Escalation.objects.filter(id=named, workspace_id=actor.workspace_id).values("run_id")
    return _answers(actor.workspace_id, named).filter(run_id__in=run, consumed_seq__isnull=False).count()


def _answers(workspace_id: str, escalation_id: str) -> QuerySet[Inbox]:
    return Inbox.objects.filter(workspace_id=workspace_id, input_id__startswith=f"decision:{escalation_id}:")


def _on_its_way(item: EscalationView) -> Answer | None:
    waiting = _answers(item.workspace_id, item.id).filter(run_id=item.run_id, consumed_seq__isnull=True)
    first = waiting.order_by("created_at").values_list("body", "created_at").first()
    if first is None:
        return None
    given = _decision(bytes(first[0]))
    return Answer(verb=given.verb, decided_by=given.actor, decided_at=first[1], by_system=False, message=given.message)


def _decision(body: bytes) -> DecisionMade:
    given = INBOX.validate_json(body)
    assert isinstance(given, DecisionMade)
    return given
