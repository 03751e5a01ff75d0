"""Finds the whole id of a row from a part that begins or ends no other.

Pages and lists show the last twelve digits of an id.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Model, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.models import ChangeRequest, Notification, Review, Run
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible

TAIL_CHARS = 12
"""Lists show the last so many digits."""
SHOWN = 5
WHOLE_CHARS = 36


def short_id(whole: str) -> str:
    """Return the end of an id, as lists show it."""
    return whole[-TAIL_CHARS:]


def whole_run_id(actor: Actor, given: str) -> str:
    """Return a run's whole id. One that no run has is returned as it is. Raises Refused invalid if several match."""
    # The runs of drills have pages too.
    seen = match_visible(actor, Run) | Q(workspace_id=actor.drills_id or actor.workspace_id)
    return complete_id(Run.objects.filter(seen), given, "run")


def whole_review_id(actor: Actor, given: str) -> str:
    """Return a review's whole id, as ``whole_run_id`` does a run's."""
    return complete_id(Review.objects.filter(match_visible(actor, Review)), given, "review")


def whole_change_id(actor: Actor, given: str) -> str:
    """Return a change request's whole id, as ``whole_run_id`` does a run's."""
    return complete_id(ChangeRequest.objects.filter(match_visible(actor, ChangeRequest)), given, "change request")


def whole_notification_id(actor: Actor, given: str) -> str:
    """Return a notification's whole id, as ``whole_run_id`` does a run's."""
    return complete_id(Notification.objects.filter(match_visible(actor, Notification)), given, "notification")


def complete_id(rows: QuerySet[Model, Any], given: str, noun: str) -> str:
    """Return the id of the one row that has it, or whose id begins or ends so. Raises Refused as ``whole_run_id``."""
    part = clean_text(given)[0].strip()
    if not part or len(part) >= WHOLE_CHARS or rows.filter(pk=part).exists():
        return part
    matches = rows.filter(Q(pk__startswith=part) | Q(pk__endswith=part)).order_by("-pk")
    found = [str(one) for one in matches.values_list("pk", flat=True)[: SHOWN + 1]]
    if len(found) > 1:
        more = " and more" if len(found) > SHOWN else ""
        message = f"several {noun}s have an id that begins or ends with {part[:40]!r}: {', '.join(found[:SHOWN])}{more}; give one of them"
        raise Refused(message, code="invalid", field=noun)
    return found[0] if found else part
