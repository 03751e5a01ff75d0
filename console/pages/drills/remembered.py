"""Picks the fabric of a page about drills: the named one, else the last one that this browser used."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from fabric.core.people.actor import Actor
from fabric.selectors.fabrics.lookup import FabricView, fabric_get, fabrics_list
from simulator.drills.selectors.drills import drills_recent

LAST = "drills-fabric"
"""Cookie with the name of the fabric that was used last."""
KEPT_S = 31_536_000
"""Lifetime of the cookie, seconds: a year."""


def pick_fabric(request: HttpRequest, actor: Actor, name: str) -> FabricView | None:
    """Return the named fabric. Without a name, return the last used one, else the last drilled one, else the first.

    None: no fabric exists. Raises Refused not_found for an unknown name.
    """
    offered = fabrics_list(actor)
    if not offered:
        return None
    by_name = {one.name: one for one in offered}
    if name:
        return by_name.get(name) or fabric_get(actor, name)
    if (used := by_name.get(request.COOKIES.get(LAST, ""))) is not None:
        return used
    last, _ = drills_recent(actor, limit=1)
    return by_name.get(last[0].fabric, offered[0]) if last else offered[0]


def remember_fabric(request: HttpRequest, response: HttpResponse, fabric: FabricView | None) -> HttpResponse:
    """Keep the fabric as this browser's last used one. A cookie and no row: a page that is asked for writes nothing."""
    if fabric is not None and request.COOKIES.get(LAST) != fabric.name:
        response.set_cookie(LAST, fabric.name, max_age=KEPT_S, httponly=True, samesite="Lax")
    return response
