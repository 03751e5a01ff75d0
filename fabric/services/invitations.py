"""Invitations: links by which one person each becomes a member. A link is shown once, works once and for some days, and can be revoked."""

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

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right, held_in, written
from fabric.models import Invitation, Member
from fabric.models.members import NAMES_TRIED_MAX
from fabric.services.audit import audit_record
from fabric.services.endings import still_may
from fabric.services.errors import Refused
from fabric.services.members import member_add, roles_checked, user_new
from fabric.services.rights import fresh_wanted, right_wanted
from fabric.services.sign_in import password_fits

DAYS, DAYS_MAX = 7, 30
"""How long a link works where nobody says, and at most."""
OPEN_MAX = 200
"""So many links of a workspace may be open at a time."""
NOT_TO_BE_HAD = "this name is not to be had, or means something else here: choose another one"
TOKEN_CHARS_MAX = 200
US = 1_000_000


@dataclass(frozen=True, slots=True)
class CreatedInvitation:
    """A new invitation. ``token`` is kept nowhere and cannot be shown again."""

    id: str
    roles: tuple[str, ...]
    email: str
    expires_at: int
    """Microseconds since the epoch, UTC."""
    token: str

    def __repr__(self) -> str:
        return f"CreatedInvitation({self.id!r})"  # A log or a traceback that shows it must not show the token.


def invitation_create(*, actor: Actor, roles: Collection[str], email: str = "", days: int = DAYS) -> CreatedInvitation:
    """A link by which one person becomes a member with these roles. ``email``: for whom it is; nothing is sent there.

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
            roles=written(wanted),
            created_at=now,
            created_by=actor.name,
            expires_at=expires_at,
        )
        details = {"roles": sorted(wanted), "email": mailbox or None, "expires_at": expires_at}
        audit_record(actor=actor, act=Act.INVITATION_CREATED, subject=row.id, **details)
    return CreatedInvitation(row.id, tuple(sorted(wanted)), mailbox, expires_at, token)


def invitation_revoke(*, actor: Actor, invitation_id: str) -> bool:
    """Nobody comes in by this link any more. False: it was revoked before. Raises Refused: forbidden, not_found, conflict (it was accepted)."""
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
        message = f"there is no invitation {invitation_id[:80]!r} in this workspace; `manage.py member list` shows the open ones"
        raise Refused(message, code="not_found", field="invitation")
    if row.accepted_at is not None:
        message = f"{row.accepted_by} accepted this invitation: remove that member instead"
        raise Refused(message, code="conflict", field="invitation")
    return False


@sensitive_variables("token")
def invitation_find(token: str) -> Invitation:
    """The open invitation of this link. Refused not_found for one that was used or revoked, has expired or never was."""
    found = _of(token)
    if found is None:
        message = "This invitation was used or revoked before, or has expired: ask whoever sent it for a new one."
        raise Refused(message, code="not_found", field="invitation")
    return found


@sensitive_variables("token", "password")
def invitation_accept(*, token: str, name: str, password: str) -> User:
    """Makes a new user a member by this link. Raises Refused: not_found (the link), invalid (name, password).

    Whether somebody has a name is not told: it is one sentence, whatever is against the name, and the link ends with the tenth.
    """
    row = invitation_find(token)
    password_fits(password, User(username=name, email=row.email))
    try:
        with transaction.atomic():
            return _accepted(row, user_new(row.workspace_id, name, password))
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        Invitation.objects.filter(id=row.id).update(names_tried=F("names_tried") + 1)
        raise Refused(NOT_TO_BE_HAD, code="invalid", field="name") from None


@sensitive_variables("token")
def invitation_join(*, token: str, user: User) -> User:
    """Makes somebody who has an account a member by this link. Raises Refused: not_found (the link), conflict (they are a member), forbidden (no person)."""
    row = invitation_find(token)
    if Member.objects.filter(user=user, service=True).exists():
        raise Refused(f"{user.username} is an account of programs and accepts nothing", code="forbidden", field="name")
    with transaction.atomic():
        return _accepted(row, user)


def _accepted(row: Invitation, user: User) -> User:
    now = _now()
    # The update decides: of two who come at once, one finds it open.
    if not _open(row.workspace_id, now).filter(id=row.id).update(accepted_at=now, accepted_by=user.username):
        message = "Somebody else accepted this invitation at the same moment: ask whoever sent it for a new one."
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
    """What is true of a link that still lets somebody in."""
    never = {"accepted_at__isnull": True, "revoked_at__isnull": True}
    return {**never, "expires_at__gt": now, "names_tried__lt": NAMES_TRIED_MAX}


def _of(token: str) -> Invitation | None:
    if not token or len(token) > TOKEN_CHARS_MAX:
        return None
    return Invitation.objects.filter(token_hash=_hash(token), **_works(_now())).first()


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
