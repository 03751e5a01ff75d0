"""Closes follow-ups: a person notes how they dealt with the remains of an ended run. No run changes."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.words import instant
from fabric.models import FollowUpClosure
from fabric.runtime.ports.journal import JournalStore, Nudge
from fabric.selectors.reviews.eligibility import may_answer, who_is_asked
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import ClosureView, find_closure
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.runs.forks import ForkEdit, run_fork

NOTE_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpClosed:
    """A closed follow-up. ``created`` False: this person had closed it with this note before."""

    closure: ClosureView
    created: bool


def close_follow_up(*, actor: Actor, review_id: str, note: str, fork_run_id: str = "") -> FollowUpClosed:
    """Close a follow-up with a note: for the people asked, and for owners and operators. ``fork_run_id``: the run that
    was started from it.

    Raises Refused: not_found, forbidden, invalid (no follow-up, no note), too_large, conflict (it was closed in another
    way).
    """
    item = _get_follow_up(actor, review_id)
    said = _note(note)
    with transaction.atomic():
        row, created = FollowUpClosure.objects.get_or_create(
            review=item.id,
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
            audit_record(actor=actor, act=Act.FOLLOW_UP_CLOSED, subject=item.run_id, **more)
    if not created and (row.closed_by, row.note, row.fork_run_id) != (actor.name, said, fork_run_id):
        raise _closed_before(item, row.closed_by, row.closed_at)
    closure = find_closure(actor, item.id)
    assert closure is not None
    return FollowUpClosed(closure=closure, created=created)


def fork_follow_up(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    review_id: str,
    note: str,
    seq: int,
    edit: ForkEdit | None = None,
) -> FollowUpClosed:
    """Fork the follow-up's run after event ``seq``, and close the follow-up with a note and the fork. A repeated call
    returns the first fork.

    Raises Refused as ``close_follow_up`` and ``run_fork`` do.
    """
    item = _get_follow_up(actor, review_id)
    said = _note(note)
    closed = find_closure(actor, item.id)
    # A person who closed it without a run wanted none: no run is started first and refused afterwards.
    if closed is not None and (closed.closed_by, closed.note, bool(closed.fork_run_id)) != (actor.name, said, True):
        raise _closed_before(item, closed.closed_by, closed.closed_at)
    ports = {"store": store, "nudge": nudge}
    started = run_fork(**ports, actor=actor, run_id=item.run_id, seq=seq, edit=edit, start_key=f"follow-up-{item.id}")  # type: ignore[arg-type]
    return close_follow_up(actor=actor, review_id=item.id, note=said, fork_run_id=started.run_id)


def may_close(actor: Actor, item: ReviewView) -> bool:
    """Return True if the actor may close a follow-up: people asked, owners and operators may."""
    return may_answer(item, actor) or may(actor, Right.OPERATE, item.fabric_name)


def _get_follow_up(actor: Actor, review_id: str) -> ReviewView:
    item = get_review(actor, review_id)
    if not item.follow_up:
        message = f"review {item.id} is no follow-up, a run waits with it: answer it instead"
        raise Refused(message, code="invalid", field="review")
    if actor.kind != "person" or not may_close(actor, item):
        message = f"{actor.name} may not close review {item.id}: that is for {who_is_asked(item)}, and for owners and operators"
        raise Refused(message, code="forbidden", field="actor")
    return item


def _note(note: str) -> str:
    said = clean_text(note)[0].strip()
    if not said:
        message = "a follow-up is closed with a note: say what became of it"
        raise Refused(message, code="invalid", field="message")
    if len(said) > NOTE_CHARS_MAX:
        message = f"the note has {len(said):,} characters; at most {NOTE_CHARS_MAX:,} are taken; make it shorter"
        raise Refused(message, code="too_large", field="message")
    return said


def _closed_before(item: ReviewView, by: str, at: int) -> Refused:
    return Refused(f"review {item.id} was closed by {by} at {instant(at)}", code="conflict", field="review")
