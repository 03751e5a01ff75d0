"""Who belongs to a workspace, with which roles, and who is invited."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from fabric.core.actor import Actor
from fabric.core.roles import held_in
from fabric.models import ApiToken, Invitation, Member
from fabric.models.members import NAMES_TRIED_MAX
from fabric.selectors.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member. Instants are microseconds since the epoch, UTC."""

    id: str
    name: str
    roles: tuple[str, ...]
    """In the order of the alphabet."""
    service: bool
    """True: an account of programs."""
    since: int
    added_by: str
    last_sign_in: int | None
    """None: never, and always so of a service account."""
    active: bool
    """False: the user was switched off, and cannot sign in."""
    tokens: int
    """Tokens that act for them and are neither revoked nor expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationView:
    """An open invitation."""

    id: str
    roles: tuple[str, ...]
    email: str
    """Empty: nobody said for whom it is."""
    created_at: int
    created_by: str
    expires_at: int


def members_list(actor: Actor) -> list[MemberView]:
    """The members of the workspace, people first, by name."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True).select_related("user")
    tokens = _tokens(actor)
    return [_view(row, tokens) for row in rows.order_by("service", "name")]


def member_get(actor: Actor, member_id: str) -> MemberView:
    """One of them, by id or by name. Refused not_found."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True).select_related("user")
    row = rows.filter(Q(id=member_id[:64]) | Q(name=member_id[:150])).first()
    if row is None:
        message = (
            f"there is no member {member_id[:80]!r} in this workspace (any more); `manage.py member list` shows them"
        )
        raise Refused(message, code="not_found", field="name")
    return _view(row, _tokens(actor))


def invitations_open(actor: Actor) -> list[InvitationView]:
    """The invitations that somebody can accept, the newest first."""
    never = {"accepted_at__isnull": True, "revoked_at__isnull": True, "names_tried__lt": NAMES_TRIED_MAX}
    fresh = {**never, "expires_at__gt": time.time_ns() // 1_000}
    rows = Invitation.objects.filter(workspace_id=actor.workspace_id, **fresh).order_by("-created_at", "id")
    return [
        InvitationView(
            id=row.id,
            roles=tuple(sorted(held_in(row.roles))),
            email=row.email,
            created_at=row.created_at,
            created_by=row.created_by,
            expires_at=row.expires_at,
        )
        for row in rows
    ]


def _tokens(actor: Actor) -> dict[int, int]:
    """How many tokens act for which user."""
    live = Q(expires_at__isnull=True) | Q(expires_at__gt=time.time_ns() // 1_000)
    rows = ApiToken.objects.filter(live, workspace_id=actor.workspace_id, revoked_at__isnull=True)
    return dict(rows.values_list("user_id").annotate(n=Count("id")))


def _view(row: Member, tokens: dict[int, int]) -> MemberView:
    last: datetime | None = row.user.last_login
    return MemberView(
        id=row.id,
        name=row.name,
        roles=tuple(sorted(held_in(row.roles))),
        service=row.service,
        since=row.created_at,
        added_by=row.created_by,
        last_sign_in=None if last is None or row.service else round(last.timestamp() * 1_000_000),
        active=row.user.is_active,
        tokens=tokens.get(row.user_id, 0),
    )
