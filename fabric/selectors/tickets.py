"""Tickets that were dealt with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fabric.core.actor import Actor
from fabric.models import TicketClosure
from fabric.selectors.contents import line_for


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureView:
    """That a ticket was closed. Instants are microseconds since the epoch, UTC."""

    escalation_id: str
    closed_at: int
    closed_by: str
    note: str
    fork_run_id: str
    """The run that was started from it; empty: none was."""


def closures_of(actor: Actor, escalation_ids: Collection[str]) -> Mapping[str, ClosureView]:
    """What became of those tickets, by their ids; one that nobody has closed is left out."""
    if not escalation_ids:
        return {}
    rows = TicketClosure.objects.filter(workspace_id=actor.workspace_id, escalation__in=list(escalation_ids))
    columns = ("escalation", "closed_at", "closed_by", "note", "fork_run_id")
    return {row[0]: ClosureView(**dict(zip(_FIELDS, row, strict=True))) for row in rows.values_list(*columns)}


_FIELDS = ("escalation_id", "closed_at", "closed_by", "note", "fork_run_id")


def for_reader(closure: ClosureView | None, *, reads: bool) -> ClosureView | None:
    """The same as a reader may read it: a note may quote what the ticket is about."""
    return None if closure is None else replace(closure, note=line_for(closure.note, reads=reads))


def closure_of(actor: Actor, escalation_id: str) -> ClosureView | None:
    """What became of one ticket; None: it is open."""
    return closures_of(actor, [escalation_id]).get(escalation_id)
