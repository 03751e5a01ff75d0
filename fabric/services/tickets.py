"""Closing tickets: what was left behind by a run that has ended is dealt with, and somebody says how. No run is changed by it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db import transaction

from fabric.core.actor import Actor, may
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.core.words import instant
from fabric.models import TicketClosure
from fabric.runtime.ports import JournalStore, Nudge
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.review_asked import may_answer, who_is_asked
from fabric.selectors.tickets import ClosureView, closure_of
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.forks import Edit, run_fork

NOTE_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketClosed:
    """A ticket that is closed. ``created`` False: the same person had closed it with the same note before."""

    closure: ClosureView
    created: bool


def ticket_close(*, actor: Actor, escalation_id: str, note: str, fork_run_id: str = "") -> TicketClosed:
    """Closes a ticket with a note: for whoever is asked, and for owners and operators. ``fork_run_id``: the run that was started from it.

    Raises Refused: not_found, forbidden, invalid (no ticket, no note), too_large, conflict (it is closed otherwise).
    """
    item = _ticket(actor, escalation_id)
    said = _note(note)
    with transaction.atomic():
        row, created = TicketClosure.objects.get_or_create(
            escalation=item.id,
            defaults={
                "workspace_id": actor.workspace_id,
                "run_id": item.run_id,
                "closed_at": time.time_ns() // 1_000,
                "closed_by": actor.name,
                "note": said,
                "fork_run_id": fork_run_id,
            },
        )
        if created:
            more = {"item": item.id, "fork": fork_run_id or None}
            audit_record(actor=actor, act=Act.TICKET_CLOSED, subject=item.run_id, **more)
    if not created and (row.closed_by, row.note, row.fork_run_id) != (actor.name, said, fork_run_id):
        raise _closed_before(item, row.closed_by, row.closed_at)
    closure = closure_of(actor, item.id)
    assert closure is not None
    return TicketClosed(closure=closure, created=created)


def ticket_fork(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    escalation_id: str,
    note: str,
    seq: int,
    edit: Edit | None = None,
) -> TicketClosed:
    """Starts a run that goes on from event ``seq`` of the ticket's run, and closes the ticket with a note and that run. Twice the same is one run.

    Raises Refused as ``ticket_close`` and ``run_fork`` do.
    """
    item = _ticket(actor, escalation_id)
    said = _note(note)
    closed = closure_of(actor, item.id)
    # Whoever closed it without a run meant none: it is not started first and refused afterwards.
    if closed is not None and (closed.closed_by, closed.note, bool(closed.fork_run_id)) != (actor.name, said, True):
        raise _closed_before(item, closed.closed_by, closed.closed_at)
    ports = {"store": store, "nudge": nudge}
    started = run_fork(**ports, actor=actor, run_id=item.run_id, seq=seq, edit=edit, start_key=f"ticket-{item.id}")  # type: ignore[arg-type]
    return ticket_close(actor=actor, escalation_id=item.id, note=said, fork_run_id=started.run_id)


def may_close(actor: Actor, item: EscalationView) -> bool:
    """Whether somebody may close a ticket: who is asked, and owners and operators."""
    return may_answer(item, actor) or may(actor, Right.OPERATE, item.fabric_name)


def _ticket(actor: Actor, escalation_id: str) -> EscalationView:
    item = escalation_get(actor, escalation_id)
    if not item.ticket:
        message = f"item {item.id} is no ticket, a run waits with it: answer it instead"
        raise Refused(message, code="invalid", field="escalation")
    if actor.kind != "person" or not may_close(actor, item):
        message = (
            f"{actor.name} may not close item {item.id}: that is for {who_is_asked(item)}, and for owners and operators"
        )
        raise Refused(message, code="forbidden", field="actor")
    return item


def _note(note: str) -> str:
    said = clean_text(note)[0].strip()
    if not said:
        message = "a ticket is closed with a note: say what became of it"
        raise Refused(message, code="invalid", field="message")
    if len(said) > NOTE_CHARS_MAX:
        message = f"the note has {len(said):,} characters; at most {NOTE_CHARS_MAX:,} are taken; make it shorter"
        raise Refused(message, code="too_large", field="message")
    return said


def _closed_before(item: EscalationView, by: str, at: int) -> Refused:
    return Refused(f"item {item.id} was closed by {by} at {instant(at)}", code="conflict", field="escalation")
