"""Tells whether somebody who is known here sends a request, by its head alone: a token that is accepted, or a session that was not ended."""

from __future__ import annotations

import logging
from typing import Any

from channels.db import database_sync_to_async
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, parse_cookie

from console.api.callers import holder_of
from console.api.problems import RETRY_AFTER, Problem
from console.signed_in import PROVIDER_AWAY, SignedInMiddleware, is_provider_away
from console.views.errors import STATUS
from fabric.selectors.errors import Refused

log = logging.getLogger(__name__)


async def is_known(scope: Any) -> bool | Problem:
    """Whether a known caller sends this. A problem: it carries a token that is not accepted, or the database or the provider of identities does not answer."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    found: bool | Problem = await database_sync_to_async(_look, thread_sensitive=False)(
        headers.get(b"authorization", "") if scope["path"].startswith("/api/") else "", headers.get(b"cookie", "")
    )
    return found


def _look(authorization: str, cookie: str) -> bool | Problem:
    try:
        if authorization:
            holder_of(authorization)
            return True
        return _is_signed_in(cookie)
    except Problem as problem:
        return problem
    except Refused as refusal:
        headers = {"Retry-After": RETRY_AFTER} if refusal.code == "unavailable" else {}
        return Problem(STATUS[refusal.code], refusal.message, headers=headers)
    except DatabaseError as error:
        log.warning("who sends a large request could not be looked up: %s", error)
        return Problem(
            503, "The database does not answer right now: try again in a moment.", headers={"Retry-After": RETRY_AFTER}
        )


def _is_signed_in(cookie: str) -> bool | Problem:
    """As the middleware of every request finds it."""
    request = HttpRequest()
    request.COOKIES = parse_cookie(cookie)
    for middleware in (SessionMiddleware, SignedInMiddleware):
        middleware(lambda _: HttpResponse()).process_request(request)
    known = bool(request.user.is_authenticated and request.user.is_active)
    if not known and is_provider_away(request):
        return Problem(503, PROVIDER_AWAY, headers={"Retry-After": RETRY_AFTER})
    return known
