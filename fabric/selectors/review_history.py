"""What has become of a question so far: what its run's journal says of it, and the answers that were taken back before the run saw them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.envelope import from_row
from fabric.models import AuditLine, Event
from fabric.selectors.answers import answers_sent
from fabric.selectors.contents import fact_shown, header_for
from fabric.selectors.display import summary_of
from fabric.selectors.escalations import EscalationView

KINDS = (
    "escalation_opened",
    "escalation_reminded",
    "escalation_approved",
    "escalation_edited",
    "escalation_decided",
    "escalation_withdrawn",
    "cap_raised",
    "budget_raised",
)
"""Kinds of events that name the question they are about."""
EVENTS_MAX = 200
HANDS: Mapping[Act, str] = {
    Act.REVIEW_CLAIMED: "{actor} claimed it",
    Act.REVIEW_TAKEN_OVER: "{actor} took it over from {other}",
    Act.REVIEW_RELEASED: "{actor} released it",
    Act.REVIEW_REASSIGNED: "{actor} handed it to {other}",
    Act.TICKET_CLOSED: "{actor} closed it",
}
"""What the acts of people about a question are told as."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of the history."""

    at: int
    """Microseconds since the epoch, UTC."""
    says: str
    seq: int = 0
    """Of the event that says so; 0: no event does."""


def review_history(actor: Actor, item: EscalationView) -> list[Happened]:
    """The question's history, the newest first. ``item``: as the actor was shown it."""
    assert item.workspace_id == actor.workspace_id, "a question of another workspace"
    rows = Event.objects.filter(run_id=item.run_id, kind__in=KINDS, at__gte=item.opened_at).order_by("seq")
    found = []
    mark = item.id.encode()
    for seq, kind, version, at, header in rows.values_list("seq", "kind", "version", "at", "header")[:EVENTS_MAX]:
        raw = bytes(header)
        if mark in raw:
            try:
                says = summary_of(kind, fact_shown(from_row(seq, kind, version, header_for(raw, reads=item.reads))))
            except (ValueError, LookupError, TypeError) as error:
                says = str(error)
            found.append(Happened(at, says, seq))
    found += _hands(item)
    found += [
        Happened(sent.sent_at, f"{sent.decision.actor} answered ({sent.decision.verb}) and took it back")
        for sent in answers_sent(item)
        if sent.decision is not None and sent.fate == "taken_back"
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)


def _hands(item: EscalationView) -> Iterator[Happened]:
    """Who had it in hand, as the audit stream says."""
    kinds = [act.value for act in HANDS]
    lines = AuditLine.objects.filter(workspace_id=item.workspace_id, subject=item.run_id, kind__in=kinds)
    for at, actor, kind, body in lines.order_by("-at").values_list("at", "actor", "kind", "body")[:EVENTS_MAX]:
        line = json.loads(bytes(body))
        if line.get("item") == item.id:
            yield Happened(at, HANDS[Act(kind)].format(actor=actor, other=line.get("to") or line.get("from") or ""))
