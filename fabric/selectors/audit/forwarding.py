"""Progress of forwarding the audit stream to its receivers, for pages, programs and health."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from fabric.core.people.actor import Actor
from fabric.models import AuditForward
from fabric.selectors.audit.lookup import audit_wanted, stream_end

SYSLOG, OTLP = "syslog", "otlp"
TARGETS = (SYSLOG, OTLP)
BEHIND_MAX = 1_000
"""Number of missing records from which on the page and health report a receiver as behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardProgress:
    """One receiver. Instants are microseconds since the epoch, UTC."""

    target: str
    address: str
    seq: int
    """Place of the last record that it took."""
    behind: int
    """Sealed records that it lacks."""
    sent_at: int
    failures: int
    """Number of successive failed tries."""
    next_at: int
    said: str
    """Reason of the last failure."""

    @property
    def failing(self) -> bool:
        """Return True if the last try failed, or the receiver lags too far behind."""
        return self.failures > 0 or self.behind > BEHIND_MAX


def receivers() -> dict[str, str]:
    """Return the operator's receivers: kind and address."""
    named = {SYSLOG: settings.FABRIC_AUDIT_SYSLOG, OTLP: settings.FABRIC_AUDIT_OTLP}
    return {target: address for target, address in named.items() if address}


def forwards_standing(actor: Actor) -> tuple[ForwardProgress, ...]:
    """Return the progress of each receiver of the actor's workspace. Raises Refused forbidden."""
    audit_wanted(actor)
    end = stream_end(actor.workspace_id)[0] if receivers() else 0
    rows = {row.target: row for row in AuditForward.objects.filter(workspace_id=actor.workspace_id)}
    found = []
    for target, address in receivers().items():
        row = rows.get(target) or AuditForward(target=target, seq=0, sent_at=0, failures=0, next_at=0)
        known = {name: getattr(row, name) for name in ("seq", "sent_at", "failures", "next_at", "said")}
        found.append(ForwardProgress(target=target, address=address, behind=max(0, end - row.seq), **known))
    return tuple(found)


def is_forwarding_healthy() -> bool:
    """Return True if no receiver fails: for health, which shows no more."""
    return not AuditForward.objects.filter(target__in=receivers(), failures__gt=0).exists()
