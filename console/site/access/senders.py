"""Recognises a known sender by the request's head: by an accepted token, or a session that was not ended."""

from __future__ import annotations

import logging
from typing import Any

from channels.db import database_sync_to_async
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, parse_cookie

from console.site.access.callers import read_holder
from console.site.access.sessions import PROVIDER_AWAY, SignedInMiddleware, is_provider_away
from console.site.errors.pages import STATUS
from console.site.errors.problems import RETRY_AFTER, Problem
from fabric.selectors.errors import Refused

log = logging.getLogger(__name__)


async def is_known(scope: Any) -> bool | Problem:
    """Return True if a known caller sends the request.

    A Problem is returned if its token is not accepted, or if the database or the identity provider does not answer.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    found: bool | Problem = await database_sync_to_async(_look, thread_sensitive=False)(
        headers.get(b"authorization", "") if scope["path"].startswith("/api/") else "", headers.get(b"cookie", "")
    )
    return found


def _look(authorization: str, cookie: str) -> bool | Problem:
    try:
        if authorization:
            read_holder(authorization)
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
    """Return True if the cookie is signed in, by the middleware of every request."""
    request = HttpRequest()
    request.COOKIES = parse_cookie(cookie)
    for middleware in (SessionMiddleware, SignedInMiddleware):
        middleware(lambda _: HttpResponse()).process_request(request)
    known = bool(request.user.is_authenticated and request.user.is_active)
    if not known and is_provider_away(request):
        return Problem(503, PROVIDER_AWAY, headers={"Retry-After": RETRY_AFTER})
    return known
