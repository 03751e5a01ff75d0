"""Telling the audit stream what was done (design.md 5 "What belongs to no run"): in the transaction that does it, so that neither is there alone."""

from __future__ import annotations

import time
from typing import Any

from fabric.core.actor import Actor
from fabric.core.audit import Act, AuditEntry
from fabric.core.fingerprint import encode
from fabric.models import AuditLine, new_id
from fabric.services.audit_origin import origin_said

SYSTEM = "system"
"""Who acts where nobody does: a duty."""


def audit_record(*, actor: Actor, act: Act, subject: str, **more: Any) -> None:
    """Inserts one line into the actor's workspace's stream, unsealed. ``more``: the rest, JSON; never what a run says or was given.

    Called inside the acting transaction. The line is chained by ``services.sealing`` once it has committed.
    """
    entry = audit_entry(actor=actor, act=act, subject=subject, **more)
    AuditLine.objects.create(
        id=entry.entry_id,
        workspace_id=actor.workspace_id,
        at=time.time_ns() // 1_000,
        actor=entry.actor,
        via=entry.via,
        kind=entry.act.value,
        subject=entry.subject,
        body=entry.body,
        address=entry.address or None,
    )


def audit_entry(*, actor: Actor, act: Act, subject: str, **more: Any) -> AuditEntry:
    """The same as a value, for a store that inserts it in a transaction of its own."""
    body: dict[str, Any] = {name: value for name, value in more.items() if value is not None}
    if said := origin_said(actor):
        body["origin"] = said
    return AuditEntry(
        entry_id=new_id(),
        actor=actor.name,
        via=actor.via,
        act=act,
        subject=subject,
        body=encode(body),
        address=said.get("address", ""),
    )
