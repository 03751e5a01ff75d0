"""Finds the signed-in user in Django's session, as long as the sign-in that it names goes on.

Sessions are signed cookies (docs/specification/durability.md), so a stolen cookie is still well signed. Therefore
each sign-in has a row, which ends (``fabric.services.people.sign_in.sessions``). A session without one is refused
(OWASP ASVS 5.0 7.4.1).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib import auth
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.site.requests.client_address import build_address
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor
from fabric.services.people.identities import ProviderAway, identity_goes_on
from fabric.services.people.sign_in.second_factors import SECOND_FACTOR, enrol_wanted
from fabric.services.people.sign_in.sessions import sign_in_begin, sign_in_works

BACKEND = "django.contrib.auth.backends.ModelBackend"
ACTOR, SIGNED_IN_AT, BEHIND = "fabric_actor", "fabric_signed_in_at", "fabric_behind"
FRESH_AT, ENROLS = "fabric_fresh_at", "fabric_enrols"
"""Attributes of a request's user, which live as long as the request:

1. the actor
2. the begin of the sign-in (microseconds; 0: unknown)
3. the author of the link by which they signed in
4. the instant at which the provider saw the person (None: no sign-in by a provider)
5. True if a second factor has to be set up first
"""
SSO = "sso"
"""Name of the sign-in by the identity provider."""
QUIET = frozenset({"live", "news", "beat", "card"})
"""Last part of the names of routes that pages poll every few seconds."""
PROVIDER_AWAY = "Your organisation's sign-in does not respond, so your access cannot be checked: try again in a minute."
ENROL_FIRST = "this installation requires a second factor: set one up to continue"


def actor_in(user: AbstractBaseUser | AnonymousUser, *, enrolling: bool = False) -> Actor:
    """Return the actor of a request's signed-in user; looked up once for each request.

    Raises Refused forbidden for a user who is no member, and for one who has to set up a second factor first, unless
    ``enrolling``.
    """
    if getattr(user, ENROLS, False) and not enrolling:
        raise Refused(ENROL_FIRST, code="forbidden", field=SECOND_FACTOR)
    found: Actor | None = getattr(user, ACTOR, None)
    if found is None:
        found = find_actor(user, signed_in_at=getattr(user, SIGNED_IN_AT, None))
        if (seen := getattr(user, FRESH_AT, None)) is not None:
            found = replace(found, signed_in_at=min(found.signed_in_at, seen))
        if behind := getattr(user, BEHIND, ""):
            found = replace(found, behind=(behind,))
        setattr(user, ACTOR, found)
    return found


def actor_at(user: AbstractBaseUser | AnonymousUser, actor: Actor) -> None:
    """Replace the actor of a request's user, for example by the actor at the request's fabric."""
    setattr(user, ACTOR, actor)


def find_session_user(user: Any, session: SessionBase) -> Any:
    """Return the user of a session, with the begin of the sign-in."""
    if user.is_authenticated:
        setattr(user, SIGNED_IN_AT, session.get("signed_in_at", 0))
        setattr(user, BEHIND, session.get("behind", ""))
        setattr(user, FRESH_AT, session.get("fresh_at"))
        setattr(user, ENROLS, bool(session.get("enrols")) and enrol_wanted(user))
    return user


def sign_in(request: HttpRequest, user: Any, behind: str = "", *, way: str, fresh_at: int | None = None) -> None:
    """Sign a user in.

    ``behind``: author of the link that they used, if another person. ``fresh_at``: instant at which a provider saw
    them, 0 if it does not say; None: just now, here. A user who was signed in already keeps the mark by which signing
    out ends the sign-in and closes its sockets.
    """
    again = request.user.is_authenticated and request.user.pk == user.pk
    mark = request.session.get("mark", "") if again else ""
    auth.login(request, user, backend=BACKEND)
    browser = request.headers.get("User-Agent", "")
    # Not the session's key: with signed cookies that is the cookie itself.
    mark = sign_in_begin(user=user, way=way, browser=browser, address=build_address(request), mark=mark)
    request.session["mark"], request.session["signed_in_at"] = mark, time.time_ns() // 1_000
    request.session["behind"] = behind
    for name, value in (("fresh_at", fresh_at), ("enrols", enrol_wanted(user) or None)):
        request.session.pop(name, None)
        if value is not None:
            request.session[name] = value


def read_mark(request: HttpRequest) -> str:
    """Return the mark of the request's sign-in."""
    return str(request.session.get("mark", ""))


def is_provider_away(request: HttpRequest) -> bool:
    """Return True if a sign-in does not count because the identity provider does not answer. Read the user first."""
    return bool(getattr(request, "provider_away", False))


class SignedInMiddleware(AuthenticationMiddleware):
    """Django's middleware, which also checks that the sign-in goes on.

    It reads the row only if a view uses the user, so a public address costs no read.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Set ``request.user``."""
        super().process_request(request)
        found = request.user

        def still() -> Any:
            if not found.is_authenticated:
                return found
            way = sign_in_works(
                read_mark(request), found.pk, address=build_address(request), used=not _is_quiet(request)
            )
            if not way:
                return AnonymousUser()
            try:
                if SSO in way and not identity_goes_on(found.pk):
                    return AnonymousUser()
            except ProviderAway:
                request.provider_away = True  # type: ignore[attr-defined]
                return AnonymousUser()
            return find_session_user(found, request.session)

        request.user = SimpleLazyObject(still)  # type: ignore[assignment]
        request.auser = sync_to_async(still)


def _is_quiet(request: HttpRequest) -> bool:
    """Return True if a page polls by itself. Such requests do not prolong a sign-in, because the user may be away."""
    name = (request.resolver_match.view_name or "") if request.resolver_match else ""
    return name == "frame" or name.rpartition("-")[2] in QUIET
