"""Taking the audit stream away as a file, which the audit stream tells."""

from __future__ import annotations

from dataclasses import asdict

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.selectors.audit_export import AuditLines
from fabric.selectors.audit_list import AuditFilter
from fabric.services.audit import audit_record
from fabric.services.sealing import audit_seal

EVERYTHING = "*"
"""The audit line's subject where the export is of the whole stream."""


def audit_export(*, actor: Actor, wanted: AuditFilter, form: str) -> AuditLines:
    """The lines of an export, its own record among them. ``form``: ``csv`` or ``ndjson``. Raises Refused: forbidden, invalid."""
    lines = AuditLines(actor, wanted, form)
    narrowed = {name: value for name, value in asdict(wanted).items() if value}
    subject = EVERYTHING if wanted.empty else "part"
    audit_record(actor=actor, act=Act.AUDIT_EXPORTED, subject=subject, form=form, filter=narrowed or None)
    audit_seal()
    return lines
