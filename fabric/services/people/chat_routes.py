"""Routes the reviews of a fabric, or those that ask a member, to channels of chats.

The address of a channel is a secret: each program that has it may write there. It is stored sealed, and is on no page.
"""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from django.db import transaction
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.notifications import CHATS, Channel
from fabric.core.texts.text import clean_text
from fabric.models import ChatRoute, Member, new_id
from fabric.models.chat_routes import STANDING
from fabric.secrets.key_ring import KeyUnusable
from fabric.secrets.secret_box import CHAT_ADDRESS
from fabric.selectors.chat_routes import ChatRouteView, build_route_view
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.installation import facts as here
from fabric.services.notifications.chats import OF_WORKSPACE_MAX
from fabric.services.rights import fresh_wanted, right_wanted

ADDRESS_CHARS_MAX = 2_000
ROUTES_MAX = 5
"""Routes of one fabric, and of one member."""
SEE_CHAT = "copy the webhook's address from Slack or Teams"


@sensitive_variables("address", "said", "sealed")
def chat_route_add(*, actor: Actor, channel: str, address: str, fabric: str = "") -> ChatRouteView:
    """Route the reviews of a fabric to a channel of a chat; without a fabric those that ask the actor.

    Raises Refused: forbidden, not_found (the fabric), invalid (channel, address), conflict (too many), unavailable (no
    key to seal it).
    """
    kind = _read_channel(channel)
    if fabric:
        fabric_get(actor, fabric)
    member = _require_place(actor, fabric, "route reviews to a chat")
    said, host = _read_address(address)
    row = ChatRoute(
        id=new_id(),
        workspace_id=actor.workspace_id,
        fabric=fabric,
        member=member,
        channel=kind,
        host=host,
        added_at=time.time_ns() // 1_000,
        added_by=actor.name,
    )
    try:
        row.sealed = here.secret_box().seal(said, *CHAT_ADDRESS.list_bindings(row))
    except KeyUnusable as error:
        raise Refused(f"the address cannot be stored: {error}", code="unavailable") from error
    with transaction.atomic():
        _require_room(actor, fabric, member)
        row.save(force_insert=True)
        _record(actor, Act.CHAT_ROUTE_ADDED, row)
    return build_route_view(row)


def chat_route_remove(*, actor: Actor, route_id: str) -> ChatRouteView:
    """Remove a route, and erase its address. Waiting messages to it are not sent.

    Raises Refused: not_found, forbidden.
    """
    rows = ChatRoute.objects.filter(STANDING, workspace_id=actor.workspace_id, id=clean_text(route_id)[0])
    row = rows.first()
    if row is None or not _is_seen(actor, row):
        raise Refused(f"there is no channel {route_id[:60]!r} here", code="not_found", field="channel")
    _require_place(actor, row.fabric, "remove channels of chats")
    with transaction.atomic():
        if rows.update(removed_at=time.time_ns() // 1_000, sealed=b""):
            _record(actor, Act.CHAT_ROUTE_REMOVED, row)
    return build_route_view(row)


def _is_seen(actor: Actor, row: ChatRoute) -> bool:
    if row.fabric:
        return actor.place_at(row.fabric).may(Right.LOOK)
    return row.member == _member_id(actor)


def _require_place(actor: Actor, fabric: str, doing: str) -> str:
    """Return the id of the actor's member for a route of their own; empty for a fabric's. Raises Refused."""
    if fabric:
        right_wanted(actor.place_at(fabric), Right.EDIT, doing)
        fresh_wanted(actor, doing, by_token=True)
        return ""
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, which has no reviews of its own: name a fabric"
        raise Refused(message, code="forbidden", field="actor")
    fresh_wanted(actor, doing)
    member = _member_id(actor)
    if not member:
        raise Refused(f"{actor.name} is no member of this workspace", code="not_found", field="actor")
    return member


def _member_id(actor: Actor) -> str:
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    return rows.values_list("id", flat=True).first() or ""


def _require_room(actor: Actor, fabric: str, member: str) -> None:
    standing = ChatRoute.objects.filter(STANDING, workspace_id=actor.workspace_id)
    there = standing.filter(fabric=fabric, member=member).count()
    if there >= ROUTES_MAX:
        whose = f"fabric {fabric}" if fabric else actor.name
        message = f"{whose} has {ROUTES_MAX} channels, the most that there may be: remove one first"
        raise Refused(message, code="conflict", field="channel")
    if standing.count() >= OF_WORKSPACE_MAX:
        message = f"the workspace has {OF_WORKSPACE_MAX} channels, the most that it may have: remove one first"
        raise Refused(message, code="conflict", field="channel")


def _read_channel(channel: str) -> Channel:
    if channel not in CHATS:
        message = f"{channel[:40]!r} is no chat; there are: {', '.join(sorted(CHATS))}"
        raise Refused(message, code="invalid", field="channel")
    return Channel(channel)


@sensitive_variables("address", "said")
def _read_address(address: str) -> tuple[str, str]:
    """Return the address, and the part that people may see. Raises Refused, in a sentence without the address."""
    said = address.strip()
    if not said:
        raise Refused(f"the address is missing: {SEE_CHAT}", code="invalid", field="address")
    if len(said) > ADDRESS_CHARS_MAX:
        message = f"the address has {len(said):,} characters; at most {ADDRESS_CHARS_MAX:,} are taken"
        raise Refused(message, code="invalid", field="address")
    host = _read_host(said)
    if host is None:
        raise Refused(f"the address is no web address: {SEE_CHAT}", code="invalid", field="address")
    if problem := here.installation().gate.problem(host):
        raise Refused(f"the address: {problem}", code="invalid", field="address")
    return said, host


def _read_host(address: str) -> str | None:
    """Return scheme and host of a web address; None: it is none."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - Reading it raises ValueError where it is none.
    except ValueError:
        return None
    plain = address.isascii() and address.isprintable() and " " not in address
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return f"{parts.scheme}://{parts.netloc}" if not parts.fragment else None


def _record(actor: Actor, act: Act, row: ChatRoute) -> None:
    audit_record(actor=actor, act=act, subject=row.fabric or row.added_by, channel=row.channel, host=row.host)
