"""Exports the audit stream as a file. The export itself is recorded in the stream."""

from __future__ import annotations

from dataclasses import asdict

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.selectors.audit.files import AuditLines
from fabric.selectors.audit.lookup import AuditFilter
from fabric.services.acts import audit_record
from fabric.services.audit.checkpoints import audit_seal

EVERYTHING = "*"
"""Subject of the audit line for an export of the whole stream."""


def audit_export(*, actor: Actor, wanted: AuditFilter, form: str) -> AuditLines:
    """Return the lines of an export, its own record among them. ``form``: ``csv`` or ``ndjson``. Raises Refused:
    forbidden, invalid.
    """
    lines = AuditLines(actor, wanted, form)
    narrowed = {name: value for name, value in asdict(wanted).items() if value}
    subject = EVERYTHING if wanted.empty else "part"
    audit_record(actor=actor, act=Act.AUDIT_EXPORTED, subject=subject, form=form, filter=narrowed or None)
    audit_seal()
    return lines
