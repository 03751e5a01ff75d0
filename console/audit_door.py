"""The door of the audit stream: says of every request where it comes from, and records what was refused and what no service records itself.

A refusal is a 403 whoever asks and whatever for, a 409 to what would change something, and a 404 for what somebody's roles or token do not reach; who is not known is recorded where a token was presented.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from console.api.problems import REQUEST_ID
from console.api.responses import id_of
from console.client_address import address_of
from console.refused import sentence_of
from console.route_acts import ROUTE_ACTS, ByDoor
from console.signed_in import actor_in
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.selectors.contents import shown
from fabric.selectors.errors import Refused
from fabric.services.audit_folding import audit_fold, stranger
from fabric.services.audit_origin import Origin, coming_from
from fabric.services.sign_in_tries import network_of

log = logging.getLogger(__name__)
SAID_CHARS = 300
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class AuditDoorMiddleware:
    """Goes around everything that may act."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        with coming_from(Origin("session", address_of(request), id_of(request))) as origin:
            response = self._get_response(request)
            response.headers.setdefault(REQUEST_ID, id_of(request))
            try:
                _record(request, response, origin)
            except (DatabaseError, Refused) as error:
                # What was done is done: a record that cannot be made must not say otherwise.
                log.error("request %s could not be recorded in the audit stream: %s", id_of(request), error)
        return response


def _record(request: HttpRequest, response: HttpResponse, origin: Origin) -> None:
    match = request.resolver_match
    route = match.view_name if match else ""
    changes = request.method not in SAFE
    if response.status_code == 401 and request.headers.get("Authorization"):
        network = network_of(origin.address)
        audit_fold(actor=stranger(), act=Act.CALLER_REFUSED, subject=route or "unknown", at=network)
    elif response.status_code == 403 or (response.status_code == 409 and changes) or _out_of_place(request):
        _refused(request, response, route, origin)
    elif changes and response.status_code < 400 and not origin.lines:
        told = ROUTE_ACTS.get(route)
        actor = _actor(request) if isinstance(told, ByDoor) else None
        if isinstance(told, ByDoor) and actor is not None:
            about = _about(request) or actor.name
            audit_fold(actor=actor, act=told.act, subject=about, at=route, route=route)


def _out_of_place(request: HttpRequest) -> bool:
    """Whether somebody asked for what belongs to a fabric that they do not see: they are answered that it is not there."""
    return bool(getattr(request, "out_of_place", False))


def _refused(request: HttpRequest, response: HttpResponse, route: str, origin: Origin) -> None:
    actor = _actor(request)
    if actor is None:
        return
    why = str(shown(sentence_of(request, response)))[:SAID_CHARS]
    audit_fold(
        actor=actor,
        act=Act.REQUEST_REFUSED,
        subject=route or "unknown",
        at=f"{response.status_code}:{_about(request)}",
        about=_about(request) or None,
        method=request.method,
        status=response.status_code,
        reason=why or None,
    )


def _about(request: HttpRequest) -> str:
    """What the address names: a run, a fabric and so on. A link's token is none."""
    match = request.resolver_match
    named = {name: value for name, value in match.kwargs.items() if name != "token"} if match else {}
    return " ".join(str(value) for value in named.values() if isinstance(value, str | int) or hasattr(value, "hex"))[
        :200
    ]


def _actor(request: HttpRequest) -> Actor | None:
    """Who asked; None: nobody who is known."""
    caller = getattr(request, "caller", None)
    if caller is not None:
        found: Actor = caller.actor
        return found
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or request.path.startswith("/api/"):
        return None
    try:
        return actor_in(user)
    except Refused:
        return Actor(name=user.get_username(), workspace_id=stranger().workspace_id)
