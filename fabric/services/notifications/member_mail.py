"""Messages to members about reviews that ask them, unless they have turned them off, and to the chats of fabrics.

Events are looked at once each (``NotificationRead``), behind a cursor like that of the operator's targets. A member's
address is not in the outbox: it is looked up when a message is sent, and so are the wanted kinds.
``change_mail`` reports changes of fabrics.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import REVIEWER, Person, ReviewAsked, is_asked
from fabric.core.people.roles import held_in, roles_at
from fabric.core.texts.notifications import CALLING, MEMBER_KINDS, Channel, NotificationKind, Target, build_key
from fabric.core.values.fingerprint import digest, encode
from fabric.core.values.frozen import replace
from fabric.models import (
    Event,
    Fabric,
    Member,
    Notification,
    NotificationPreference,
    NotificationRead,
    NotificationTarget,
    Review,
    Run,
)
from fabric.models.runs.journal import NOTIFIED
from fabric.runtime.ports.batch_parts import list_names
from fabric.services.errors import Refused
from fabric.services.notifications.chats import RoutedChat, chat_rows, chats_routed, list_chats
from fabric.services.notifications.creation import DRILLS, EVENTS_MAX, LOOKBACK_US, about_run, describe_event
from fabric.services.rights import fresh_wanted
from fabric.worker.process.duties import database_us

MEMBERS = digest("target", "members")
"""Id of the cursor for members' mail."""
PEOPLE_MAX = 500
"""Largest number of members of a workspace that are read."""
EMAIL_CHARS_MAX = 254


def mails() -> bool:
    """Return True if the operator has named a mail server: without one no member gets mail."""
    return bool(settings.EMAIL_HOST and settings.DEFAULT_FROM_EMAIL)


def members_reached() -> bool:
    """Return True if a message may reach a member, or the chat of a fabric."""
    return mails() or chats_routed()


def members_wanted() -> bool:
    """Return True if an event waits to be looked at: a read or two."""
    read_to = NotificationTarget.objects.filter(id=MEMBERS).values_list("read_to", flat=True).first()
    return read_to is None or _unread(read_to).exists()


def members_notify(*, now: int, mailed: bool = True) -> int:
    """Create the missing rows, and return their number. Several workers may call it at once.

    ``now``: microseconds since the epoch on the database's clock. ``mailed`` False: rows for chats alone.
    """
    made = 0
    known, _ = NotificationTarget.objects.get_or_create(id=MEMBERS, defaults={"since_at": now, "read_to": now})
    while found := list(_unread(known.read_to)[:EVENTS_MAX]):
        made += _make_rows(found, now, mailed=mailed)
        if len(found) < EVENTS_MAX:
            break
    NotificationTarget.objects.filter(id=MEMBERS, read_to__lt=now).update(read_to=now)
    return made


def member_target(member_id: str, told: str = NotificationKind.REVIEW) -> Target | None:
    """Return the present target of a member's mail of that kind; None: there is none (any more)."""
    if told in _read_unwanted([member_id]).get(member_id, ()):
        return None
    row = _query_mailed().filter(id=member_id).values_list("user__email", flat=True).first()
    return None if row is None else Target(channel=Channel.EMAIL, address=row)


def _unread(read_to: int) -> QuerySet[Event]:
    """Return events that ask people and were not looked at yet, the oldest first."""
    since = NotificationTarget.objects.filter(id=MEMBERS).values("since_at")
    read = NotificationRead.objects.filter(run_id=OuterRef("run_id"), seq=OuterRef("seq"))
    found = Event.objects.filter(NOTIFIED, ~Exists(read), at__gte=read_to - LOOKBACK_US, kind__in=CALLING)
    return found.filter(at__gte=since[:1]).exclude(workspace_id__in=DRILLS).order_by("at")


def _query_mailed() -> QuerySet[Member]:
    """Return the members of all workspaces who get mail about reviews."""
    off = NotificationPreference.objects.filter(member=OuterRef("id"), mailed=False)
    rows = Member.objects.filter(removed_at__isnull=True, service=False, user__is_active=True)
    return rows.exclude(user__email="").filter(~Exists(off))


def _make_rows(found: Sequence[Event], now: int, *, mailed: bool) -> int:
    runs = {run.id: run for run in Run.objects.filter(id__in={one.run_id for one in found}).select_related("fabric")}
    spaces = {one.workspace_id for one in found}
    people = {space: people_mailed(space) if mailed else [] for space in spaces}
    chats = {space: list_chats(space) for space in spaces}
    rows = [
        row
        for event in found
        if event.run_id in runs
        for row in _rows(event, runs[event.run_id], people[event.workspace_id], chats[event.workspace_id], now)
    ]
    read = [
        NotificationRead(id=build_key(one.run_id, one.seq, MEMBERS), run_id=one.run_id, seq=one.seq, at=one.at)
        for one in found
    ]
    with transaction.atomic():
        Notification.objects.bulk_create(rows, ignore_conflicts=True)
        NotificationRead.objects.bulk_create(read, ignore_conflicts=True)
    return len(rows)


@dataclass(frozen=True, slots=True)
class MailedMember:
    """A member who gets mail, with the kinds that they do not want."""

    id: str
    person: Person
    unwanted: frozenset[str]

    def place_at(self, fabric: str) -> Person:
        """Return this member with the roles that apply at a fabric."""
        return replace(self.person, roles=roles_at(self.person.roles, fabric))

    @property
    def target(self) -> str:
        """Return the id of their mailbox in the outbox."""
        return digest("target", "member", self.id)


def people_mailed(workspace_id: str, name: str = "") -> list[MailedMember]:
    """Return the people of a workspace who have an address and want any mail. Takes two statements.

    They have all their roles; ``MailedMember.place_at`` narrows these to a fabric. ``name``: only this person.
    """
    found = _query_mailed().filter(workspace_id=workspace_id, **({"name": name} if name else {}))
    rows = list(found.order_by("name").values_list("id", "name", "roles")[:PEOPLE_MAX])
    but = _read_unwanted([key for key, _, _ in rows])
    return [
        MailedMember(key, Person(name=name, roles=held_in(roles)), but.get(key, frozenset()))
        for key, name, roles in rows
    ]


def _read_unwanted(members: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the unwanted kinds of members, by id; a member who wants all is left out."""
    rows = NotificationPreference.objects.filter(member__in=members).exclude(unwanted="")
    return {member: frozenset(text.split(",")) for member, text in rows.values_list("member", "unwanted")}


def _rows(
    event: Event, run: Run, people: Sequence[MailedMember], chats: Sequence[RoutedChat], now: int
) -> list[Notification]:
    told, said = describe_event(event)
    item = Review.objects.filter(id=said.get("review_id", ""), run_id=run.id).first()
    if item is None or not (people or chats):
        return []
    fabric = Fabric.objects.filter(id=run.fabric_id).values_list("name", flat=True).first() or ""
    asked = ReviewAsked(
        required_role=REVIEWER,
        reviewers=list_names(item.asked) or (item.required_role or REVIEWER,),
        onward=told is NotificationKind.ONWARD,
        onward_to=list_names(item.onward_to),
    )
    same = {
        "workspace_id": run.workspace_id,
        "run_id": run.id,
        "seq": event.seq,
        "told": told,
        "channel": Channel.EMAIL,
        "content": encode(about_run(run) | said),
        "at": event.at,
        "made_at": now,
        "next_at": now,
    }
    mailed = [
        Notification(
            id=build_key(run.id, event.seq, one.target), target=one.target, member=one.id, shown=one.person.name, **same
        )
        for one in people
        if told not in one.unwanted and is_asked(asked, one.place_at(fabric))
    ]
    return [*mailed, *chat_rows(event, fabric, asked, chats, same)]


# -- preferences -----------------------------------------------------------------------------------------------------


def notification_preference_set(*, actor: Actor, wants: Collection[str], email: str | None = None) -> None:
    """Set the kinds of mail that the actor wants, out of ``MEMBER_KINDS``, and the address. Empty: no mail reaches
    them; None: it stays.

    Raises Refused: forbidden (no person; a token, or an old sign-in, that would change the address), invalid (no
    address, no such kind), not_found (no member).
    """
    if actor.kind != "person" or (actor.via and email is not None):
        message = "members change their mail address themselves, signed in; a token cannot"
        raise Refused(message, code="forbidden", field="actor")
    if unknown := [one for one in wants if one not in MEMBER_KINDS]:
        message = f"there is no mail about {unknown[0][:40]!r}; there are: {', '.join(MEMBER_KINDS)}"
        raise Refused(message, code="invalid", field="wants")
    address = None if email is None else _address(email.strip())
    mine = Q(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    with transaction.atomic():
        member = Member.objects.select_related("user").filter(mine).first()
        if member is None:
            raise Refused(f"{actor.name} is no member of this workspace", code="not_found", field="actor")
        if member.service:
            message = f"{actor.name} is a service account, which gets no mail"
            raise Refused(message, code="forbidden", field="actor")
        if address is not None and address != member.user.email:
            fresh_wanted(actor, "change where you are mailed")
            member.user.email = address
            member.user.save(update_fields=["email"])
        said = {
            "workspace_id": actor.workspace_id,
            "mailed": bool(wants),
            "unwanted": ",".join(one for one in MEMBER_KINDS if one not in wants) if wants else "",
            "changed_at": database_us(),
        }
        NotificationPreference.objects.update_or_create(member=member.id, defaults=said)


def _address(email: str) -> str:
    if email:
        try:
            validate_email(email[: EMAIL_CHARS_MAX + 1])
        except ValidationError:
            message = f"{email[:80]!r} is no e-mail address; write one such as ana@example.org"
            raise Refused(message, code="invalid", field="email") from None
    return email
