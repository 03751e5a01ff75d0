"""Exporting who decided what: everybody their own decisions, and whoever reads the audit stream all of them."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right, holders
from fabric.selectors.decision_export import DecisionLines
from fabric.selectors.decision_history import HistoryFilter
from fabric.services.audit import audit_record
from fabric.services.errors import Refused

EVERYBODY = "*"
"""The audit line's subject where the export is of everybody's decisions."""


def may_export_all(actor: Actor) -> bool:
    """Whether somebody may export others' decisions too."""
    return actor.may(Right.AUDIT)


def decisions_export(*, actor: Actor, wanted: HistoryFilter, form: str) -> DecisionLines:
    """The lines of an export, which the audit stream tells. ``form``: ``csv`` or ``ndjson``.

    Raises Refused: forbidden (others' decisions), invalid (no such form).
    """
    if wanted.by != actor.name and not may_export_all(actor):
        who = holders(Right.AUDIT)
        message = f"{actor.name} may export their own decisions and not those of others: that is for {who}; ask for by={actor.name}"
        raise Refused(message, code="forbidden", field="by")
    lines = DecisionLines(actor, wanted, form)
    kept = {"form": form, "since": wanted.since, "until": wanted.until}
    audit_record(actor=actor, act=Act.DECISIONS_EXPORTED, subject=wanted.by or EVERYBODY, **kept)
    return lines
