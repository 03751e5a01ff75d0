"""Reveals what pages and programs withhold of one content, to whoever has to judge it. The audit stream is told of each look."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.fabrics import fabric_get
from fabric.selectors.memory_history import History, memory_history
from fabric.selectors.moments import EventRecord, event_get
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted

REVEALING = "see what is withheld"


@transaction.atomic
def question_reveal(*, actor: Actor, escalation_id: str) -> EscalationView:
    """Returns the question with what is withheld of it. Raises Refused: not_found, forbidden, conflict (nothing is withheld)."""
    item = escalation_get(actor, escalation_id)
    _may(actor, f"item {item.id}", withheld=item.withheld)
    audit_record(actor=actor, act=Act.CONTENT_REVEALED, subject=item.id, run=item.run_id)
    return replace(item, revealed=True)


@transaction.atomic
def event_reveal(*, actor: Actor, run_id: str, seq: int) -> EventRecord:
    """Returns the event with what is withheld of its content. Raises Refused: not_found, forbidden, conflict (nothing is withheld)."""
    _may(actor, f"event {seq}", withheld=event_get(actor, run_id, seq).withheld)
    audit_record(actor=actor, act=Act.CONTENT_REVEALED, subject=run_id, seq=seq)
    return event_get(actor, run_id, seq, revealed=True)


@transaction.atomic
def memory_reveal(*, actor: Actor, fabric: str, memory: str, key: str, version: int) -> History:
    """What was written under a key, one version of it with what is withheld. Raises Refused: not_found, forbidden, conflict (nothing is withheld)."""
    right_wanted(actor, Right.REVEAL, REVEALING)
    found = memory_history(actor, fabric, memory, key)
    withheld = any(one.withheld for one in found.entries if one.version == version)
    _something(f"version {version} of {key[:100]!r}", withheld=withheld)
    subject = fabric_get(actor, fabric).id
    audit_record(actor=actor, act=Act.CONTENT_REVEALED, subject=subject, memory=memory, key=key, version=version)
    return memory_history(actor, fabric, memory, key, revealed=version)


def _may(actor: Actor, what: str, *, withheld: bool) -> None:
    right_wanted(actor, Right.REVEAL, REVEALING)
    _something(what, withheld=withheld)


def _something(what: str, *, withheld: bool) -> None:
    if not withheld:
        raise Refused(f"nothing of {what} is withheld; look at it as it is", code="conflict", field="content")
