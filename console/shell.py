"""What every page's frame shows."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.access import actor_of
from fabric.models import Escalation

COUNTED = 100
"""Open questions are counted so far; what is more is said to be more."""


def shell(request: HttpRequest) -> dict[str, Any]:
    """The nonce of script elements and, for who is signed in, how many questions are open; counted when a template asks."""
    return {
        "csp_nonce": getattr(request, "csp_nonce", ""),
        "open_questions": SimpleLazyObject(lambda: _open_questions(request)),
        "open_questions_max": COUNTED,
    }


def _open_questions(request: HttpRequest) -> int:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return 0
    try:
        rows = Escalation.objects.filter(workspace_id=actor_of(user).workspace_id, decided_at__isnull=True)
        return rows.values("id")[: COUNTED + 1].count()
    except DatabaseError:
        return 0  # The frame stands even around the page that says the database is away.
