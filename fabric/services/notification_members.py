"""Telling members of the questions that ask them, by e-mail: who is asked by role or name, has an address and has not turned it off.

Events are looked at once each (``NotificationRead``), behind a cursor as the operator's targets have one. A member's address is not in the
outbox: it is looked up when a message is sent, and so is whether they still want it. Of changes of fabrics: ``notification_changes``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.eligibility import REVIEWER, Asked, Person, is_asked
from fabric.core.fingerprint import digest, encode
from fabric.core.frozen import replace
from fabric.core.notifications import CALLING, MEMBERS_TOLD, Channel, Target, Told, key_of
from fabric.core.reach import roles_at
from fabric.core.roles import held_in
from fabric.models import (
    Escalation,
    Event,
    Fabric,
    Member,
    Notification,
    NotificationPreference,
    NotificationRead,
    NotificationTarget,
    Run,
)
from fabric.models.journal import NOTIFIED
from fabric.runtime.batch_parts import names_of
from fabric.services.errors import Refused
from fabric.services.notifications import DRILLS, EVENTS_MAX, LOOKBACK_US, about_run, said_of
from fabric.services.rights import fresh_wanted

MEMBERS = digest("target", "members")
"""Whose cursor it is."""
PEOPLE_MAX = 500
"""Members of a workspace who are looked through."""
EMAIL_CHARS_MAX = 254


def mails() -> bool:
    """Whether the operator has named a mail server: without one no member is told anything."""
    return bool(settings.EMAIL_HOST and settings.DEFAULT_FROM_EMAIL)


def members_wanted() -> bool:
    """Whether there is an event to be looked at: a read or two."""
    read_to = NotificationTarget.objects.filter(id=MEMBERS).values_list("read_to", flat=True).first()
    return read_to is None or _unread(read_to).exists()


def members_notify(*, now: int) -> int:
    """Makes the rows that are missing; how many. ``now``: microseconds since the epoch on the database's clock. Right however many do it at once."""
    made = 0
    known, _ = NotificationTarget.objects.get_or_create(id=MEMBERS, defaults={"since_at": now, "read_to": now})
    while found := list(_unread(known.read_to)[:EVENTS_MAX]):
        made += _made(found, now)
        if len(found) < EVENTS_MAX:
            break
    NotificationTarget.objects.filter(id=MEMBERS, read_to__lt=now).update(read_to=now)
    return made


def member_target(member_id: str, told: str = Told.QUESTION) -> Target | None:
    """Where a member's mail of that kind goes at this moment; None: nowhere (any more)."""
    if told in _unwanted([member_id]).get(member_id, ()):
        return None
    row = _mailed().filter(id=member_id).values_list("user__email", flat=True).first()
    return None if row is None else Target(channel=Channel.EMAIL, address=row)


def _unread(read_to: int) -> QuerySet[Event]:
    """Events that call people and were not looked at yet, the oldest first."""
    since = NotificationTarget.objects.filter(id=MEMBERS).values("since_at")
    read = NotificationRead.objects.filter(run_id=OuterRef("run_id"), seq=OuterRef("seq"))
    found = Event.objects.filter(NOTIFIED, ~Exists(read), at__gte=read_to - LOOKBACK_US, kind__in=CALLING)
    return found.filter(at__gte=since[:1]).exclude(workspace_id__in=DRILLS).order_by("at")


def _mailed() -> QuerySet[Member]:
    """People who are mailed of questions that ask them, of all workspaces."""
    off = NotificationPreference.objects.filter(member=OuterRef("id"), questions=False)
    rows = Member.objects.filter(removed_at__isnull=True, service=False, user__is_active=True)
    return rows.exclude(user__email="").filter(~Exists(off))


def _made(found: Sequence[Event], now: int) -> int:
    runs = {run.id: run for run in Run.objects.filter(id__in={one.run_id for one in found}).select_related("fabric")}
    people = {space: people_mailed(space) for space in {one.workspace_id for one in found}}
    rows = [
        row
        for event in found
        if event.run_id in runs
        for row in _rows(event, runs[event.run_id], people[event.workspace_id], now)
    ]
    read = [
        NotificationRead(id=key_of(one.run_id, one.seq, MEMBERS), run_id=one.run_id, seq=one.seq, at=one.at)
        for one in found
    ]
    with transaction.atomic():
        Notification.objects.bulk_create(rows, ignore_conflicts=True)
        NotificationRead.objects.bulk_create(read, ignore_conflicts=True)
    return len(rows)


@dataclass(frozen=True, slots=True)
class Mailed:
    """A member who is mailed, and what they do not want to be told."""

    id: str
    person: Person
    unwanted: frozenset[str]

    def at(self, fabric: str) -> Person:
        """The same with the roles that hold at a fabric."""
        return replace(self.person, roles=roles_at(self.person.roles, fabric))

    @property
    def target(self) -> str:
        """What stands in the outbox for their mailbox."""
        return digest("target", "member", self.id)


def people_mailed(workspace_id: str, name: str = "") -> list[Mailed]:
    """The people of a workspace who have an address and want any mail, with the roles that they hold somewhere (``Mailed.at``); ``name``: only them. Two statements."""
    found = _mailed().filter(workspace_id=workspace_id, **({"name": name} if name else {}))
    rows = list(found.order_by("name").values_list("id", "name", "roles")[:PEOPLE_MAX])
    but = _unwanted([key for key, _, _ in rows])
    return [
        Mailed(key, Person(name=name, roles=held_in(roles)), but.get(key, frozenset())) for key, name, roles in rows
    ]


def _unwanted(members: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """What members do not want to be told, by their ids; one who wants all is left out."""
    rows = NotificationPreference.objects.filter(member__in=members).exclude(unwanted="")
    return {member: frozenset(text.split(",")) for member, text in rows.values_list("member", "unwanted")}


def _rows(event: Event, run: Run, people: Sequence[Mailed], now: int) -> list[Notification]:
    told, said = said_of(event)
    item = Escalation.objects.filter(id=said.get("escalation_id", ""), run_id=run.id).first()
    if item is None or not people:
        return []
    fabric = Fabric.objects.filter(id=run.fabric_id).values_list("name", flat=True).first() or ""
    asked = Asked(
        required_role=REVIEWER,
        reviewers=names_of(item.asked) or (item.required_role or REVIEWER,),
        onward=told is Told.ONWARD,
        onward_to=names_of(item.onward_to),
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
    return [
        Notification(
            id=key_of(run.id, event.seq, one.target), target=one.target, member=one.id, shown=one.person.name, **same
        )
        for one in people
        if told not in one.unwanted and is_asked(asked, one.at(fabric))
    ]


# -- what somebody wants ------------------------------------------------------------------------------------------------


def notification_preference_set(*, actor: Actor, wants: Collection[str], email: str | None = None) -> None:
    """What the actor wants to be told by e-mail, of ``MEMBERS_TOLD``, and where; an empty address: nothing reaches them, None: it stays.

    Raises Refused: forbidden (no person; a token, or an old sign-in, that would change the address), invalid (no address, no such kind), not_found (no member).
    """
    if actor.kind != "person" or (actor.via and email is not None):
        message = "where somebody is mailed is for themselves to say, signed in; a token cannot"
        raise Refused(message, code="forbidden", field="actor")
    if unknown := [one for one in wants if one not in MEMBERS_TOLD]:
        message = f"nobody is mailed {unknown[0][:40]!r}; there are: {', '.join(MEMBERS_TOLD)}"
        raise Refused(message, code="invalid", field="wants")
    address = None if email is None else _address(email.strip())
    mine = Q(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    with transaction.atomic():
        member = Member.objects.select_related("user").filter(mine).first()
        if member is None:
            raise Refused(f"{actor.name} is no member of this workspace", code="not_found", field="actor")
        if member.service:
            message = f"{actor.name} is an account of programs, which nobody mails"
            raise Refused(message, code="forbidden", field="actor")
        if address is not None and address != member.user.email:
            fresh_wanted(actor, "change where you are mailed")
            member.user.email = address
            member.user.save(update_fields=["email"])
        said = {
            "workspace_id": actor.workspace_id,
            "questions": bool(wants),
            "unwanted": ",".join(one for one in MEMBERS_TOLD if one not in wants) if wants else "",
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
