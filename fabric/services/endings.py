"""What ends at once with a membership, or with a role that was lost: what that person made, and what exceeds the rights that are left.

Sessions and sockets need nothing here: each request and each live page asks who somebody is, and a membership that ended ends them.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection
from django.db.models import Q

from fabric.core.actor import Actor
from fabric.core.roles import Right, has, held_in
from fabric.core.scopes import Scope, lost
from fabric.models import ApiToken, Invitation, LoginLink, Member
from fabric.services.errors import Refused


@dataclass(frozen=True, slots=True)
class Ended:
    """How much was ended."""

    tokens: int = 0
    invitations: int = 0


def members_locked(actor: Actor) -> dict[str, Member]:
    """The members by name, who are changed by one transaction after the other from here to its end. Refused forbidden: the actor is none any more.

    Who makes a token or an invitation holds it too: nothing is made in the moment in which its maker loses the right to.
    """
    if connection.vendor == "postgresql":  # SQLite has one writer anyway.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 17))", [f"members {actor.workspace_id}"])
    rows = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True)
    held = {row.name: row for row in rows}
    if actor.kind == "person" and actor.name not in held:
        raise Refused(f"{actor.name} is no member of this workspace any more", code="forbidden", field="actor")
    return held


def still_may(actor: Actor, right: Right, doing: str) -> None:
    """Refused forbidden where the actor lost the right since the request came in. Within a transaction, whose members are locked by it."""
    if not has(held_in(members_locked(actor)[actor.name].roles), right):
        raise Refused(f"{actor.name} may not {doing} any more", code="forbidden", field="actor")


def ended_with(actor: Actor, row: Member) -> Ended:
    """Ends what a member made and what acts for them, when they are removed. Within the caller's transaction."""
    mine = Q(user_id=row.user_id) | Q(created_by=row.name)
    LoginLink.objects.filter(Q(user_id=row.user_id) | Q(created_by=row.name), used_at__isnull=True).delete()
    return Ended(_tokens_end(actor, mine), _invitations_end(actor, row))


def ended_by_loss(actor: Actor, row: Member, before: Collection[str], after: Collection[str]) -> Ended:
    """Ends what exceeds the rights that somebody keeps who lost some. Within the caller's transaction."""
    gone = lost(before, after, service=row.service)
    exceeding = [
        one.id
        for one in ApiToken.objects.filter(workspace_id=actor.workspace_id, user_id=row.user_id, revoked_at=None)
        if not gone.isdisjoint(Scope(scope) for scope in one.scopes.split(","))
    ]
    ended = Q(id__in=exceeding)
    if not has(before, Right.MEMBERS) or has(after, Right.MEMBERS):
        return Ended(_tokens_end(actor, ended))
    LoginLink.objects.filter(created_by=row.name, used_at__isnull=True).delete()
    others = Q(created_by=row.name) & ~Q(user_id=row.user_id)
    return Ended(_tokens_end(actor, ended | others), _invitations_end(actor, row))


def _tokens_end(actor: Actor, which: Q) -> int:
    rows = ApiToken.objects.filter(which, workspace_id=actor.workspace_id, revoked_at__isnull=True)
    return rows.update(revoked_at=time.time_ns() // 1_000)


def _invitations_end(actor: Actor, row: Member) -> int:
    rows = Invitation.objects.filter(
        workspace_id=actor.workspace_id, created_by=row.name, accepted_at__isnull=True, revoked_at__isnull=True
    )
    return rows.update(revoked_at=time.time_ns() // 1_000, revoked_by=actor.name)
