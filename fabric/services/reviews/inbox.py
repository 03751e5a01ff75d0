"""Marks a person's inbox as seen."""

from __future__ import annotations

import time

from fabric.core.people.actor import Actor
from fabric.models import InboxSeen
from fabric.services.errors import Refused


def inbox_mark_seen(*, actor: Actor, at: int) -> None:
    """Record that the actor has seen their inbox as it was at ``at``, microseconds since the epoch.

    The record is never later than now, and never moves back. Raises Refused forbidden where the actor is no person.
    """
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, which has no inbox: sign in as a person"
        raise Refused(message, code="forbidden", field="actor")
    seen_at = max(0, min(at, time.time_ns() // 1_000))
    mine = {"workspace_id": actor.workspace_id, "name": actor.name}
    _, created = InboxSeen.objects.get_or_create(**mine, defaults={"seen_at": seen_at})
    if not created:
        InboxSeen.objects.filter(**mine, seen_at__lt=seen_at).update(seen_at=seen_at)
