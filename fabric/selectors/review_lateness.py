"""Decides if a question takes an answer: none is on its way to its run, and its time is not over by the rule by which its run judges an answer."""

from __future__ import annotations

from django.db.models import Q

from fabric.core.questions import NEVER_LATE, is_late
from fabric.core.words import instant_exact
from fabric.selectors.answers import Answer, answered, answers_waiting
from fabric.selectors.escalations import EscalationView
from fabric.selectors.store_time import StoreNow, store_now


def is_over(item: EscalationView, now: int | None = None) -> bool:
    """Returns True where an answer to an open question comes too late. ``now``: microseconds since the epoch, UTC; None: the database is asked."""
    if not item.open or item.item in NEVER_LATE:
        return False
    return is_late(item.item, item.due_at, store_now() if now is None else now)


def in_time() -> Q:
    """The questions that can still be answered, as far as their time goes."""
    return Q(item__in=sorted(NEVER_LATE)) | Q(due_at__gt=StoreNow())


def takes_none(item: EscalationView, waiting: Answer | None, now: int) -> str:
    """Returns why an open question takes no answer from anybody, one sentence; empty: it takes one.

    ``waiting``: the answer that is on its way to its run. ``now``: microseconds since the epoch, UTC.
    """
    if waiting is not None:
        return answered(item, waiting, now)
    return too_late(item) if is_over(item, now) else ""


def takes_none_now(item: EscalationView) -> str:
    """Returns the same of one question, as the database has it now."""
    return takes_none(item, answers_waiting([item]).get(item.id), store_now())


def too_late(item: EscalationView) -> str:
    """Returns why a question that is over takes no answer, one sentence."""
    expiry = str(item.content.get("expiry") or "rejected by the system")
    return f"item {item.id} was due at {instant_exact(item.due_at)}, and an answer comes too late: {expiry}"
