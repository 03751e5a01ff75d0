"""Who is signed in: as Django finds it in the session, unless that sign-in was ended.

Sessions are signed cookies (docs/design.md 5), so a cookie that was kept from before a sign-out is still well signed. The sign-outs that the live
sockets go by (``console.live.ended``) hold for every request too (OWASP ASVS 5.0 7.4.1).
"""

from __future__ import annotations

import secrets
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

from console.live.ended import ended_among
from fabric.core.actor import Actor
from fabric.services.workspaces import actor_of

BACKEND = "django.contrib.auth.backends.ModelBackend"
ACTOR, SIGNED_IN_AT, BEHIND = "fabric_actor", "fabric_signed_in_at", "fabric_behind"
"""What is kept with the user of a request, who lives no longer than it: the actor, when the sign-in began (microseconds; 0: not known), and who made its link."""


def actor_in(user: AbstractBaseUser | AnonymousUser) -> Actor:
    """The actor whom the signed-in user of a request is: looked up once for it. Refused forbidden for who is no member."""
    found: Actor | None = getattr(user, ACTOR, None)
    if found is None:
        found = actor_of(user, signed_in_at=getattr(user, SIGNED_IN_AT, None))
        if behind := getattr(user, BEHIND, ""):
            found = replace(found, behind=(behind,))
        setattr(user, ACTOR, found)
    return found


def actor_at(user: AbstractBaseUser | AnonymousUser, actor: Actor) -> None:
    """From here on the user of a request acts as this one: the same at the fabric that the request is about."""
    setattr(user, ACTOR, actor)


def signed_in_by(user: Any, session: SessionBase) -> Any:
    """The user of a session, who knows from when the sign-in is."""
    if user.is_authenticated:
        setattr(user, SIGNED_IN_AT, session.get("signed_in_at", 0))
        setattr(user, BEHIND, session.get("behind", ""))
    return user


def sign_in(request: HttpRequest, user: Any, behind: str = "") -> None:
    """Signs somebody in, from now on. ``behind``: who made the link that they come by, where it was somebody else. Who was signed in already and does it again keeps what signing out ends it and closes its sockets by."""
    again = request.user.is_authenticated and request.user.pk == user.pk
    mark = request.session.get("mark", "") if again else ""
    auth.login(request, user, backend=BACKEND)
    # Not the session's key: with signed cookies that is the cookie itself.
    request.session["mark"], request.session["signed_in_at"] = mark or secrets.token_hex(8), time.time_ns() // 1_000
    request.session["behind"] = behind


class SignedInMiddleware(AuthenticationMiddleware):
    """Django's, with the sign-outs. It asks when somebody asks for the user; an address for everybody costs no read."""

    def process_request(self, request: HttpRequest) -> None:
        """Sets ``request.user``."""
        super().process_request(request)
        found = request.user

        def still() -> Any:
            mark = request.session.get("mark", "")
            if found.is_authenticated and mark and ended_among([mark]):
                return AnonymousUser()
            return signed_in_by(found, request.session)

        request.user = SimpleLazyObject(still)  # type: ignore[assignment]
        request.auser = sync_to_async(still)
