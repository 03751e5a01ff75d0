"""Sign-ins that were ended, remembered in the database: every server finds them at its next look, whatever became of a message.

They are rows among the sessions, under keys that no session has. Each sign-out takes those away that nobody could use any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

PREFIX = "ended."


def remember(mark: str) -> None:
    """Remembers a sign-in that was ended for as long as a cookie of it could be shown."""
    now = timezone.now()
    Session.objects.filter(session_key__startswith=PREFIX, expire_date__lt=now).delete()
    expires = now + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    Session.objects.update_or_create(session_key=PREFIX + mark, defaults={"session_data": "", "expire_date": expires})


def ended_among(marks: Iterable[str]) -> set[str]:
    """Those of the sign-ins that were ended."""
    keys = [PREFIX + mark for mark in marks if mark]
    found = Session.objects.filter(session_key__in=keys).values_list("session_key", flat=True) if keys else ()
    return {key.removeprefix(PREFIX) for key in found}
