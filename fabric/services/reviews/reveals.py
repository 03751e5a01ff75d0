"""Reveals the masked parts of one content to a person who has to judge it. The audit stream records each reveal."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.memories.lookup import KeyHistory, memory_history
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.events.moments import EventRecord, event_get
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted

REVEALING = "see what is withheld"


@transaction.atomic
def reveal_review(*, actor: Actor, review_id: str) -> ReviewView:
    """Return the review with its masked parts. Raises Refused: not_found, forbidden, conflict (nothing is masked)."""
    item = get_review(actor, review_id)
    _may(actor, f"review {item.id}", withheld=item.withheld)
    audit_record(actor=actor, act=Act.CONTENT_REVEALED, subject=item.id, run=item.run_id)
    return replace(item, revealed=True)


@transaction.atomic
def event_reveal(*, actor: Actor, run_id: str, seq: int) -> EventRecord:
    """Return the event with the masked parts of its content. Raises Refused: not_found, forbidden, conflict (nothing
    is masked).
    """
    _may(actor, f"event {seq}", withheld=event_get(actor, run_id, seq).withheld)
    audit_record(actor=actor, act=Act.CONTENT_REVEALED, subject=run_id, seq=seq)
    return event_get(actor, run_id, seq, revealed=True)


@transaction.atomic
def memory_reveal(*, actor: Actor, fabric: str, memory: str, key: str, version: int) -> KeyHistory:
    """Return the history of a key with one version unmasked. Raises Refused: not_found, forbidden, conflict (nothing
    is masked).
    """
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
