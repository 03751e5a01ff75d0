"""How far the audit stream was sent to its receivers, for pages, programs and health."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from fabric.core.actor import Actor
from fabric.models import AuditForward, AuditLine
from fabric.selectors.audit import stream_end
from fabric.selectors.audit_list import audit_wanted

SYSLOG, OTLP = "syslog", "otlp"
TARGETS = (SYSLOG, OTLP)
BEHIND_MAX = 1_000
"""Records that a receiver may lack before the page and health say that it is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """One receiver. Instants are microseconds since the epoch, UTC."""

    target: str
    address: str
    seq: int
    """Place of the last record that it took."""
    behind: int
    """Sealed records that it lacks."""
    sent_at: int
    failures: int
    """Tries in a row that failed."""
    next_at: int
    said: str
    """Why the last try failed."""

    @property
    def failing(self) -> bool:
        """Whether the last try failed, or it lacks more than it should."""
        return self.failures > 0 or self.behind > BEHIND_MAX


def receivers() -> dict[str, str]:
    """The receivers that the operator has named: kind and address."""
    named = {SYSLOG: settings.FABRIC_AUDIT_SYSLOG, OTLP: settings.FABRIC_AUDIT_OTLP}
    return {target: address for target, address in named.items() if address}


def forwards_standing(actor: Actor) -> tuple[Forwarded, ...]:
    """Where each receiver of the actor's workspace's stream stands. Refused forbidden."""
    audit_wanted(actor)
    end = stream_end(actor.workspace_id)[0] if receivers() else 0
    rows = {row.target: row for row in AuditForward.objects.filter(workspace_id=actor.workspace_id)}
    found = []
    for target, address in receivers().items():
        row = rows.get(target) or AuditForward(target=target, seq=0, sent_at=0, failures=0, next_at=0)
        known = {name: getattr(row, name) for name in ("seq", "sent_at", "failures", "next_at", "said")}
        found.append(Forwarded(target=target, address=address, behind=max(0, end - row.seq), **known))
    return tuple(found)


def forwarding_ok() -> bool:
    """Whether no receiver fails: for health, which says no more."""
    return not AuditForward.objects.filter(target__in=receivers(), failures__gt=0).exists()


def unsealed_count() -> int:
    """Records that wait to be sealed, and so to be sent."""
    return AuditLine.objects.filter(seq__isnull=True).count()
