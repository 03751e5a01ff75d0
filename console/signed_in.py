"""Who is signed in: as Django finds it in the session, as long as the sign-in that it names goes on.

Sessions are signed cookies (docs/design.md 5), so a cookie that was kept is still well signed. Each sign-in has a row, which ends
(``fabric.services.sign_ins``); a session without one lets nobody in (OWASP ASVS 5.0 7.4.1).
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

from console.client_address import address_of
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.services.identities import ProviderAway, identity_goes_on
from fabric.services.second_factors import SECOND_FACTOR, enrol_wanted
from fabric.services.sign_ins import sign_in_begin, sign_in_works
from fabric.services.workspaces import actor_of

BACKEND = "django.contrib.auth.backends.ModelBackend"
ACTOR, SIGNED_IN_AT, BEHIND = "fabric_actor", "fabric_signed_in_at", "fabric_behind"
FRESH_AT, ENROLS = "fabric_fresh_at", "fabric_enrols"
"""What is kept with the user of a request, who lives no longer than it: the actor, when the sign-in began (microseconds; 0: not known), who made its
link, when the provider saw the person (None: it is no sign-in by one), and whether a second factor has to be set up first."""
SSO = "sso"
"""The way of a sign-in by the provider of identities."""
QUIET = frozenset({"live", "news", "beat", "card"})
"""What the names of addresses end in that pages ask every few seconds."""
PROVIDER_AWAY = (
    "The provider of identities does not answer, so it is not known whether you may go on: try again in a minute."
)
ENROL_FIRST = "a second factor is demanded here, and you have none yet: set one up, then go on"


def actor_in(user: AbstractBaseUser | AnonymousUser, *, enrolling: bool = False) -> Actor:
    """The actor whom the signed-in user of a request is: looked up once for it. Refused forbidden for who is no member.

    Who has to set up a second factor first is refused as well, but where they do that (``enrolling``).
    """
    if getattr(user, ENROLS, False) and not enrolling:
        raise Refused(ENROL_FIRST, code="forbidden", field=SECOND_FACTOR)
    found: Actor | None = getattr(user, ACTOR, None)
    if found is None:
        found = actor_of(user, signed_in_at=getattr(user, SIGNED_IN_AT, None))
        if (seen := getattr(user, FRESH_AT, None)) is not None:
            found = replace(found, signed_in_at=min(found.signed_in_at, seen))
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
        setattr(user, FRESH_AT, session.get("fresh_at"))
        setattr(user, ENROLS, bool(session.get("enrols")) and enrol_wanted(user))
    return user


def sign_in(request: HttpRequest, user: Any, behind: str = "", *, way: str, fresh_at: int | None = None) -> None:
    """Signs somebody in, from now on. ``behind``: who made the link that they come by, where it was somebody else.

    ``fresh_at``: when a provider says that it saw them, 0 where it does not say; None: it was just now, here. Who was signed in already and does it
    again keeps what signing out ends it and closes its sockets by.
    """
    again = request.user.is_authenticated and request.user.pk == user.pk
    mark = request.session.get("mark", "") if again else ""
    auth.login(request, user, backend=BACKEND)
    browser = request.headers.get("User-Agent", "")
    # Not the session's key: with signed cookies that is the cookie itself.
    mark = sign_in_begin(user=user, way=way, browser=browser, address=address_of(request), mark=mark)
    request.session["mark"], request.session["signed_in_at"] = mark, time.time_ns() // 1_000
    request.session["behind"] = behind
    for name, value in (("fresh_at", fresh_at), ("enrols", enrol_wanted(user) or None)):
        request.session.pop(name, None)
        if value is not None:
            request.session[name] = value


def mark_of(request: HttpRequest) -> str:
    """What names the sign-in of a request."""
    return str(request.session.get("mark", ""))


def is_provider_away(request: HttpRequest) -> bool:
    """Returns True where a sign-in counts for nothing since the provider of identities does not answer. Ask after the user."""
    return bool(getattr(request, "provider_away", False))


class SignedInMiddleware(AuthenticationMiddleware):
    """Django's, with the sign-ins that ended. It asks when somebody asks for the user; an address for everybody costs no read."""

    def process_request(self, request: HttpRequest) -> None:
        """Sets ``request.user``."""
        super().process_request(request)
        found = request.user

        def still() -> Any:
            if not found.is_authenticated:
                return found
            way = sign_in_works(mark_of(request), found.pk, address=address_of(request), used=not _is_quiet(request))
            if not way:
                return AnonymousUser()
            try:
                if SSO in way and not identity_goes_on(found.pk):
                    return AnonymousUser()
            except ProviderAway:
                request.provider_away = True  # type: ignore[attr-defined]
                return AnonymousUser()
            return signed_in_by(found, request.session)

        request.user = SimpleLazyObject(still)  # type: ignore[assignment]
        request.auser = sync_to_async(still)


def _is_quiet(request: HttpRequest) -> bool:
    """Whether a page asks by itself, while nobody may be sitting before it: that keeps no sign-in alive."""
    name = (request.resolver_match.view_name or "") if request.resolver_match else ""
    return name == "frame" or name.rpartition("-")[2] in QUIET
