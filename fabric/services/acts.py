"""Records acts in the audit stream (docs/specification/durability.md), in the transaction of the act.

So neither exists alone. The origin of an act is the request, command or duty that carries it out. It is kept in a
context variable, so that no service needs an argument.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.people.actor import Actor
from fabric.core.values.fingerprint import encode
from fabric.models import AuditLine, new_id

SYSTEM = "system"
"""Actor of duties and of all acts without a person."""


def audit_record(*, actor: Actor, act: Act, subject: str, **more: Any) -> None:
    """Insert one unsealed line into the audit stream of the actor's workspace. ``more``: further JSON, never a run's
    content.

    Called inside the acting transaction. ``services.audit.seals`` chains the line after the commit.
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
    """Return an audit line as a value, for a store that inserts it in a transaction of its own."""
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


By = Literal["session", "token", "cli", "system", "unknown"]
UNKNOWN = "unknown"
"""Actor of acts by unknown people; no member may have this name."""
TOKEN = "token:"  # noqa: S105 - What ``Actor.via`` begins with.


@dataclass(slots=True)
class ActOrigin:
    """Origin of an act, as an audit line shows it."""

    by: By
    address: str = ""
    """The client's address (``console.site.requests.client_address``)."""
    request_id: str = ""
    lines: int = 0
    """Audit lines of this origin so far."""


_current: ContextVar[ActOrigin | None] = ContextVar("fabric_audit_origin", default=None)


@contextmanager
def coming_from(origin: ActOrigin) -> Iterator[ActOrigin]:
    """Set the origin of all acts inside the context."""
    before = _current.set(origin)
    try:
        yield origin
    finally:
        _current.reset(before)


def origin_said(actor: Actor) -> dict[str, str]:
    """Return the origin of an act for its audit line, and count the line; empty where the origin is unknown."""
    origin = _current.get()
    if origin is None:
        return {}
    origin.lines += 1
    by: By = origin.by
    if actor.name == UNKNOWN:
        by = "unknown"
    elif actor.via.startswith(TOKEN):
        by = "token"
    elif actor.kind == "system":
        by = "system"
    said = {"by": by, "address": origin.address, "request": origin.request_id}
    return {name: value for name, value in said.items() if value}
