"""Acknowledges failures: they leave the overview's list until another one of the same fabric and cause comes."""

from __future__ import annotations

import time

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.models import FailureAcknowledgement
from fabric.selectors.overview.failures import find_failures
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted

NOTE_CHARS_MAX = 1_000


def failures_acknowledge(*, actor: Actor, fabric: str, cause: str, until: int, note: str = "") -> int:
    """Acknowledge the failures of a fabric and cause that the actor has seen: those that ended up to ``until``.
    ``until``: microseconds since the epoch. Returns the number of failures that were shown.

    Raises Refused: forbidden, not_found (nothing to acknowledge), too_large (the note).
    """
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people acknowledge failures: sign in as a person"
        raise Refused(message, code="forbidden", field="actor")
    right_wanted(actor.place_at(fabric), Right.CONTROL, "acknowledge failures")
    said = clean_text(note)[0].strip()
    if len(said) > NOTE_CHARS_MAX:
        message = f"the note has {len(said):,} characters; at most {NOTE_CHARS_MAX:,} are taken; make it shorter"
        raise Refused(message, code="too_large", field="note")
    now = time.time_ns() // 1_000
    group = find_failures(actor, fabric, cause, now)
    if group is None or until < group.first_at:
        message = f"no failure of {fabric[:60]} with this cause waits to be acknowledged; look at the overview"
        raise Refused(message, code="not_found", field="fabric")
    with transaction.atomic():
        FailureAcknowledgement.objects.update_or_create(
            workspace_id=actor.workspace_id,
            fabric_id=group.fabric_id,
            cause=cause,
            defaults={"until_at": min(until, group.newest_at), "by": actor.name, "note": said, "at": now},
        )
        audit_record(actor=actor, act=Act.FAILURES_ACKNOWLEDGED, subject=fabric, cause=cause or None, count=group.count)
    return group.count
