"""Invitations: links by which one person each becomes a member. A link is shown once, works once and for some days,
and can be revoked.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import F
from django.views.decorators.debug import sensitive_variables

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, held_in, write_roles
from fabric.core.values.units import US
from fabric.models import Invitation, Member
from fabric.models.people.members import NAMES_TRIED_MAX
from fabric.program.name import program
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.people.members import member_add, roles_checked, still_may, user_new
from fabric.services.people.sign_in.credentials import password_fits
from fabric.services.rights import fresh_wanted, right_wanted

DAYS, DAYS_MAX = 7, 30
"""Days for which a link works: the default, and the most."""
OPEN_MAX = 200
"""Largest number of open invitations of a workspace."""
NOT_TO_BE_HAD = "this name is not available: choose another one"
TOKEN_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class CreatedInvitation:
    """A new invitation. ``token`` is not stored and cannot be shown again."""

    id: str
    roles: tuple[str, ...]
    email: str
    expires_at: int
    """Microseconds since the epoch, UTC."""
    token: str

    def __repr__(self) -> str:
        return f"CreatedInvitation({self.id!r})"  # A log or a traceback that shows it must not show the token.


def invitation_create(*, actor: Actor, roles: Collection[str], email: str = "", days: int = DAYS) -> CreatedInvitation:
    """Create a link by which one person becomes a member with these roles. ``email``: that person's; nothing is sent
    there.

    Raises Refused: forbidden, invalid (roles, email, days), conflict (too many are open).
    """
    right_wanted(actor, Right.MEMBERS, "invite people")
    fresh_wanted(actor, "invite people", by_token=True)
    wanted, mailbox = roles_checked(roles), email.strip()
    if mailbox:
        try:
            validate_email(mailbox)
        except ValidationError:
            message = f"{mailbox[:80]!r} is no e-mail address: correct it, or leave it out"
            raise Refused(message, code="invalid", field="email") from None
    if not 1 <= days <= DAYS_MAX:
        raise Refused(
            f"an invitation cannot expire in {days:,} days; give 1 to {DAYS_MAX}", code="invalid", field="days"
        )
    token, now = secrets.token_urlsafe(32), _now()
    expires_at = now + days * 24 * 3_600 * US
    with transaction.atomic():
        still_may(actor, Right.MEMBERS, "invite people")
        if _open(actor.workspace_id, now).count() >= OPEN_MAX:
            message = f"{OPEN_MAX} invitations are open, which is all there can be: revoke one first"
            raise Refused(message, code="conflict", field="invitation")
        row = Invitation.objects.create(
            workspace_id=actor.workspace_id,
            token_hash=_hash(token),
            email=mailbox,
            roles=write_roles(wanted),
            created_at=now,
            created_by=actor.name,
            expires_at=expires_at,
        )
        details = {"roles": sorted(wanted), "email": mailbox or None, "expires_at": expires_at}
        audit_record(actor=actor, act=Act.INVITATION_CREATED, subject=row.id, **details)
    return CreatedInvitation(row.id, tuple(sorted(wanted)), mailbox, expires_at, token)


def invitation_revoke(*, actor: Actor, invitation_id: str) -> bool:
    """Revoke an invitation's link. Returns False if it was revoked before. Raises Refused: forbidden, not_found,
    conflict (it was accepted).
    """
    right_wanted(actor, Right.MEMBERS, "revoke invitations")
    mine = Invitation.objects.filter(workspace_id=actor.workspace_id, id=invitation_id[:64])
    with transaction.atomic():
        if mine.filter(accepted_at__isnull=True, revoked_at__isnull=True).update(
            revoked_at=_now(), revoked_by=actor.name
        ):
            audit_record(actor=actor, act=Act.INVITATION_REVOKED, subject=invitation_id)
            return True
    row = mine.first()
    if row is None:
        message = f"there is no invitation {invitation_id[:80]!r} in this workspace; `{program()} member list` shows the open ones"
        raise Refused(message, code="not_found", field="invitation")
    if row.accepted_at is not None:
        message = f"{row.accepted_by} accepted this invitation: remove that member instead"
        raise Refused(message, code="conflict", field="invitation")
    return False


@sensitive_variables("token")
def invitation_find(token: str) -> Invitation:
    """Return the open invitation of this link. Raises Refused not_found for one that was used or revoked, has
    expired or never existed.
    """
    found = _find_by_token(token)
    if found is None:
        message = "This invitation was used, revoked or has expired: ask its sender for a new one."
        raise Refused(message, code="not_found", field="invitation")
    return found


@sensitive_variables("token", "password")
def invitation_accept(*, token: str, name: str, password: str) -> User:
    """Make a new user a member by this link. Raises Refused: not_found (the link), invalid (name, password).

    The answer does not reveal whether a name is taken: any problem with the name gives one sentence, and ten tries
    end the link.
    """
    row = invitation_find(token)
    password_fits(password, User(username=name, email=row.email))
    try:
        with transaction.atomic():
            return _accept(row, user_new(row.workspace_id, name, password))
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        Invitation.objects.filter(id=row.id).update(names_tried=F("names_tried") + 1)
        raise Refused(NOT_TO_BE_HAD, code="invalid", field="name") from None


@sensitive_variables("token")
def invitation_join(*, token: str, user: User) -> User:
    """Make an existing user a member by this link. Raises Refused: not_found (the link), conflict (a member
    already), forbidden (no person).
    """
    row = invitation_find(token)
    if Member.objects.filter(user=user, service=True).exists():
        raise Refused(f"{user.username} is an account of programs and accepts nothing", code="forbidden", field="name")
    with transaction.atomic():
        return _accept(row, user)


def _accept(row: Invitation, user: User) -> User:
    now = _now()
    # The update decides: of two who come at once, one finds it open.
    if not _open(row.workspace_id, now).filter(id=row.id).update(accepted_at=now, accepted_by=user.username):
        message = "Another person accepted this invitation at the same moment: ask its sender for a new one."
        raise Refused(message, code="not_found", field="invitation")
    roles = held_in(row.roles)
    member_add(row.workspace_id, user, roles, by=row.created_by)
    who = Actor(name=user.username, workspace_id=row.workspace_id, via=f"invitation:{row.id}")
    details = {"roles": sorted(roles), "invited_by": row.created_by}
    audit_record(actor=who, act=Act.INVITATION_ACCEPTED, subject=row.id, **details)
    return user


def _open(workspace_id: str, now: int):  # type: ignore[no-untyped-def]
    return Invitation.objects.filter(workspace_id=workspace_id, **_works(now))


def _works(now: int) -> dict[str, object]:
    """Return the conditions of a link that still works."""
    never = {"accepted_at__isnull": True, "revoked_at__isnull": True}
    return {**never, "expires_at__gt": now, "names_tried__lt": NAMES_TRIED_MAX}


def _find_by_token(token: str) -> Invitation | None:
    if not token or len(token) > TOKEN_CHARS_MAX:
        return None
    return Invitation.objects.filter(token_hash=_hash(token), **_works(_now())).first()


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
