"""Lists channels of chats to which members route reviews. Their addresses are read by no selector."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import ChatRoute, Member
from fabric.models.chat_routes import STANDING

LISTED_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRouteView:
    """A channel as people see it. ``added_at``: microseconds since the epoch, UTC."""

    id: str
    channel: str
    fabric: str
    """Fabric of whose reviews it hears; empty: of the reviews that ask its member."""
    host: str
    """Scheme and host of its address."""
    added_at: int
    added_by: str
    may_remove: bool = True


def list_chat_routes(actor: Actor) -> list[ChatRouteView]:
    """Return the actor's own channels and those of the fabrics that they may see, the oldest first. One statement."""
    member = Member.objects.filter(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    rows = ChatRoute.objects.filter(STANDING, ~Q(fabric="") | Q(member__in=member.values("id")))
    found = rows.filter(workspace_id=actor.workspace_id).order_by("added_at", "id")[:LISTED_MAX]
    seen = [row for row in found if not row.fabric or actor.place_at(row.fabric).may(Right.LOOK)]
    return [
        build_route_view(row, may_remove=not row.fabric or actor.place_at(row.fabric).may(Right.EDIT)) for row in seen
    ]


def build_route_view(row: ChatRoute, *, may_remove: bool = True) -> ChatRouteView:
    """Return a row as people see it."""
    return ChatRouteView(
        id=row.id,
        channel=row.channel,
        fabric=row.fabric,
        host=row.host,
        added_at=row.added_at,
        added_by=row.added_by,
        may_remove=may_remove,
    )
