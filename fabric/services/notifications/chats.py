"""Notifies channels of chats of the reviews of a fabric, or of those that ask a member.

``chat_rows`` makes the rows in the pass that finds the members to be mailed. A channel's address is a secret: it is
opened when a message is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.views.decorators.debug import sensitive_variables

from fabric.core.people.eligibility import Person, ReviewAsked, is_asked
from fabric.core.people.roles import held_in, roles_at
from fabric.core.texts.notifications import CHATS, Channel, Delivery, NotificationHappening, Target, build_key
from fabric.models import ChatRoute, Event, Member, Notification, NotificationPreference
from fabric.models.chat_routes import STANDING
from fabric.secrets.known_secrets import KNOWN, list_webhook_secrets
from fabric.secrets.secret_box import CHAT_ADDRESS, SecretBox, SecretUnsealable

OF_WORKSPACE_MAX = 200
"""Routes of one workspace: each pass reads them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedChat:
    """A standing route, with its member where it is a person's own."""

    id: str
    fabric: str
    channel: str
    host: str
    added_at: int
    member: str = ""
    person: Person | None = None
    unwanted: frozenset[str] = frozenset()

    def wants(self, told: str, fabric: str, asked: ReviewAsked) -> bool:
        """Return True if a notification about a review of that fabric goes to this channel."""
        if self.person is None:
            return self.fabric == fabric
        here = Person(name=self.person.name, roles=roles_at(self.person.roles, fabric))
        return told not in self.unwanted and is_asked(asked, here)


def chats_routed() -> bool:
    """Return True if there is any route. One statement."""
    return ChatRoute.objects.filter(STANDING).exists()


def list_chats(workspace_id: str) -> list[RoutedChat]:
    """Return the routes of a workspace, those of its present members included. At most three statements."""
    rows = list(ChatRoute.objects.filter(STANDING, workspace_id=workspace_id).order_by("added_at")[:OF_WORKSPACE_MAX])
    people = _read_people([row.member for row in rows if row.member])
    return [
        RoutedChat(
            id=row.id,
            fabric=row.fabric,
            channel=row.channel,
            host=row.host,
            added_at=row.added_at,
            member=row.member,
            person=people[row.member][0] if row.member else None,
            unwanted=people[row.member][1] if row.member else frozenset(),
        )
        for row in rows
        if not row.member or row.member in people
    ]


def _read_people(members: Sequence[str]) -> Mapping[str, tuple[Person, frozenset[str]]]:
    """Return the present ones of these members who want notifications, with the kinds that they do not want."""
    if not members:
        return {}
    said = {one.member: one for one in NotificationPreference.objects.filter(member__in=members)}
    present = Member.objects.filter(id__in=members, removed_at__isnull=True, user__is_active=True)
    return {
        key: (
            Person(name=name, roles=held_in(roles)),
            frozenset(said[key].unwanted.split(",")) if key in said else frozenset(),
        )
        for key, name, roles in present.values_list("id", "name", "roles")
        if key not in said or said[key].mailed
    }


def chat_rows(
    event: Event, fabric: str, asked: ReviewAsked, chats: Sequence[RoutedChat], same: Mapping[str, object]
) -> list[Notification]:
    """Return the rows of an event's notification for chats. ``same``: the fields that are equal for all targets.

    A route hears of no event before it was added.
    """
    told = str(same["told"])
    return [
        Notification(
            id=build_key(event.run_id, event.seq, one.id),
            **{**same, "channel": one.channel},
            target=one.id,
            member=one.member,
            shown=one.person.name if one.person else one.host,
        )
        for one in chats
        if event.at >= one.added_at and one.wants(told, fabric, asked)
    ]


@sensitive_variables("address")
def find_chat(row: Notification, box: SecretBox | None) -> Target | Delivery | None:
    """Return the present target of a routed notification, or the reason why it is not sent.

    None: no route made it. ``box``: opens the address; None: this process opens none.
    """
    route = ChatRoute.objects.filter(id=row.target).first() if box is not None and row.channel in CHATS else None
    if route is None or box is None:
        return None
    if route.removed_at is not None or (route.member and route.member not in _read_people([route.member])):
        return Delivery(NotificationHappening.ANSWERED, f"{row.shown} gets no messages here any more")
    try:
        address = box.open(bytes(route.sealed), *CHAT_ADDRESS.list_bindings(route))
    except SecretUnsealable:
        message = "the channel's stored address does not open: remove the channel, and add it again"
        return Delivery(NotificationHappening.REFUSED, message)
    KNOWN.add("chat routes", list_webhook_secrets(address))
    return Target(channel=Channel(route.channel), address=address, workspace_id=route.workspace_id, vetted=True)
