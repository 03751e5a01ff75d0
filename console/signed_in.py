"""Who is signed in: as Django finds it in the session, unless that sign-in was ended.

Sessions are signed cookies (docs/design.md 5), so a cookie that was kept from before a sign-out is still well signed. The sign-outs that the live
sockets go by (``console.live.ended``) hold for every request too (OWASP ASVS 5.0 7.4.1).
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.live.ended import ended_among


class SignedInMiddleware(AuthenticationMiddleware):
    """Django's, with the sign-outs. It asks when somebody asks for the user; an address for everybody costs no read."""

    def process_request(self, request: HttpRequest) -> None:
        """Sets ``request.user``."""
        super().process_request(request)
        found = request.user

        def still() -> Any:
            mark = request.session.get("mark", "")
            return AnonymousUser() if found.is_authenticated and mark and ended_among([mark]) else found

        request.user = SimpleLazyObject(still)  # type: ignore[assignment]
        request.auser = sync_to_async(still)
