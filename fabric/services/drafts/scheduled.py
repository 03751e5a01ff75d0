"""Publishes fabrics at a time that their author chose: one content over one revision, as a change request.

1. The content is judged when it is scheduled, and again at its time, with the rights that its author has then.
2. It is not published where it no longer passes, where another revision was published meanwhile, and where a second
   person has to agree. Its author is told why, and the fabric's page shows it.
3. A change of the draft voids it. Its author cancels it as they withdraw a request; another editor rejects it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.values.units import US
from fabric.core.values.words import instant
from fabric.selectors.drafts.change_requests import ChangeState, ChangeView, change_request_get, publications_due
from fabric.services.actors import actor_named, system_actor
from fabric.services.acts import audit_record
from fabric.services.drafts.change_requests import check_open, close_change, read_change, read_request, store_request
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import PublicationTerms, alone, clean_message, fabric_publish_read, second_person
from fabric.services.notifications.change_mail import change_ended
from fabric.worker.process.duties import database_us

log = logging.getLogger(__name__)
AHEAD_DAYS = 366
"""Most days between now and a scheduled publication."""
AT_ONCE = 20
"""Number of publications of one look; the next look has the rest."""
TIME_CHARS_MIN = 11
"""Characters of the shortest date with a time, ``20261201T18``; a date alone is no time."""


def publication_schedule(
    *,
    actor: Actor,
    source: str,
    publish_at: int,
    origin: str = "",
    message: str = "",
    providers: Collection[str] = (),
    expect: int | None = None,
) -> ChangeView:
    """Schedule the publication of this text. ``publish_at``: microseconds since the epoch. It replaces the author's
    last request.

    Raises Refused as ``change_request_open``; invalid for a time that is past or too far away; conflict where a
    second person has to agree.
    """
    said = clean_message(message, "message")
    _check_time(publish_at)
    read, standing = read_change(actor, source, origin, providers, expect)
    if tiers := second_person(actor, read.spec):
        raise alone(read.spec.name, tiers)
    return store_request(actor, read, standing, said, publish_at)


def read_time(text: str, zone: tzinfo) -> int:
    """Return a written date and time, microseconds since the epoch. ``zone``: its zone where it names none. Raises
    Refused invalid.
    """
    try:
        found = datetime.fromisoformat(text.strip())
        if len(text.strip()) < TIME_CHARS_MIN:
            raise ValueError
        return int((found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()) * US
    except (ValueError, OverflowError):
        message = f"{text[:40]!r} is no date and time: write it as 2026-12-01T18:00"
        raise Refused(message, code="invalid", field="publish_at") from None


def _check_time(at: int) -> None:
    now = database_us()
    if at <= now:
        raise Refused(f"{instant(at)} is past: choose a later time", code="invalid", field="publish_at")
    if at > now + AHEAD_DAYS * 86_400 * US:
        message = f"{instant(at)} is more than a year away: choose an earlier time"
        raise Refused(message, code="invalid", field="publish_at")


# -- at their time -----------------------------------------------------------------------------------------------------


def publications_carry_out(providers: Collection[str] = (), *, now: int | None = None) -> int:
    """Publish what is due, at most ``AT_ONCE``; return the number of published ones. ``now``: microseconds since the
    epoch; default: the database's clock.
    """
    rows = publications_due(database_us() if now is None else now).order_by("publish_at", "id")
    due = list(rows.values_list("workspace_id", "id")[:AT_ONCE])
    return sum(_carry_out(system_actor(workspace_id), request_id, providers) for workspace_id, request_id in due)


def _carry_out(system: Actor, request_id: str, providers: Collection[str]) -> bool:
    """Publish one, or record why not; return True if it was published."""
    found = change_request_get(system, request_id)
    try:
        _publish(found, system.workspace_id, providers)
    except Refused as refusal:
        said = refusal.problems[0] if refusal.problems else refusal.message
    except Exception as error:
        log.exception("scheduled publication %s failed", request_id)
        said = f"it could not be published ({type(error).__name__}): the worker's log says why"
    else:
        return True
    with transaction.atomic():
        if change_ended(actor=system, request_id=request_id, state=ChangeState.FAILED, reason=said):
            told = {"request": request_id, "author": found.author, "reason": said}
            audit_record(actor=system, act=Act.PUBLICATION_FAILED, subject=found.name, **told)
    return False


def _publish(found: ChangeView, workspace_id: str, providers: Collection[str]) -> None:
    check_open(found, stale=False)
    author = replace(actor_named(workspace_id, found.author), via=f"schedule:{found.id}", behind=found.caused_by)
    terms = PublicationTerms(message=found.message, also=partial(close_change, author, found))
    fabric_publish_read(
        actor=author, read=read_request(found), providers=providers, expect=found.base or 0, terms=terms
    )
