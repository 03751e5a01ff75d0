"""Reads members of a workspace with their roles, open invitations, and bearer tokens.

A manager of tokens never sees the token or its hash.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db.models import Count, Q

from fabric.core.people.actor import Actor
from fabric.core.people.roles import held_in
from fabric.models import ApiToken, Invitation, Member
from fabric.models.people.members import NAMES_TRIED_MAX
from fabric.program.name import program
from fabric.selectors.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member. Instants are microseconds since the epoch, UTC."""

    id: str
    name: str
    roles: tuple[str, ...]
    """Roles in alphabetical order."""
    service: bool
    """True: an account of programs."""
    since: int
    added_by: str
    last_sign_in: int | None
    """Time of the last sign-in; None: never, as always for a service account."""
    active: bool
    """False: the user was disabled, and cannot sign in."""
    tokens: int
    """Tokens that act for them and are neither revoked nor expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationView:
    """An open invitation."""

    id: str
    roles: tuple[str, ...]
    email: str
    """Invited address; empty: unknown."""
    created_at: int
    created_by: str
    expires_at: int


def members_list(actor: Actor) -> list[MemberView]:
    """Return the members of the workspace, people first, by name."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True).select_related("user")
    tokens = _tokens(actor)
    return [_view(row, tokens) for row in rows.order_by("service", "name")]


def member_get(actor: Actor, member_id: str) -> MemberView:
    """Return one of them, by id or by name. Raises Refused not_found."""
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True).select_related("user")
    row = rows.filter(Q(id=member_id[:64]) | Q(name=member_id[:150])).first()
    if row is None:
        message = (
            f"there is no member {member_id[:80]!r} in this workspace (any more); `{program()} member list` shows them"
        )
        raise Refused(message, code="not_found", field="name")
    return _view(row, _tokens(actor))


def invitations_open(actor: Actor) -> list[InvitationView]:
    """Return the invitations that can still be accepted, the newest first."""
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
    """Return the number of tokens that act for each user."""
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


TokenState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """One token. Instants are microseconds since the epoch, UTC."""

    id: str
    name: str
    user: str
    """User for whom it acts."""
    scopes: tuple[str, ...]
    fabrics: tuple[str, ...]
    """Fabrics to which it is confined; empty: unconfined."""
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None
    last_used_at: int | None
    """To within a minute; None: never used."""

    def state(self, now: int) -> TokenState:
        """Return the token's state at ``now``: active, or the reason why it is not accepted."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "active"


_COLUMNS = ("id", "name", "scopes", "fabrics", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at")


def tokens_list(actor: Actor, *, user: str = "", limit: int | None = None) -> list[TokenView]:
    """Return the workspace's tokens, or those that act for ``user``, the newest first, revoked and expired ones
    included.
    """
    rows = ApiToken.objects.filter(workspace_id=actor.workspace_id).order_by("-created_at", "id")
    if user:
        rows = rows.filter(user__username=user)
    rows = rows if limit is None else rows[:limit]
    return [_token_view(row) for row in rows.values(*_COLUMNS, "user__username")]


def _token_view(row: dict[str, Any]) -> TokenView:
    own = {name: row[name] for name in _COLUMNS}
    own["scopes"] = tuple(row["scopes"].split(","))
    own["fabrics"] = tuple(filter(None, row["fabrics"].split(",")))
    return TokenView(**own, user=row["user__username"])
