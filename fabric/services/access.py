"""All ways in ended at once: after a backup was restored, which brings back what was revoked since, and after keys got into wrong hands."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from django.db import transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import ApiToken, Invitation, LoginLink, Member
from fabric.services.audit import audit_record


@dataclass(frozen=True, slots=True)
class Revoked:
    """How much was ended."""

    people: int = 0
    """Whose sign-ins were."""
    tokens: int = 0
    invitations: int = 0
    links: int = 0


def access_revoke_all(*, actor: Actor) -> Revoked:
    """Ends every sign-in, API token, open invitation and sign-in link, in every workspace. Memberships, roles and passwords stay.

    ``actor``: who acts at the machine. A sign-in ends by a membership that ended now, beside the one that goes on (``workspaces.actor_of``).
    """
    now = time.time_ns() // 1_000
    with transaction.atomic():
        rows = Member.objects.filter(removed_at__isnull=True, service=False)
        past = [
            Member(
                workspace_id=row.workspace_id, user_id=row.user_id, name=row.name, roles=row.roles,
                created_at=row.created_at, created_by=row.created_by, removed_at=now, removed_by=actor.name,
            )
            for row in rows
        ]  # fmt: skip
        Member.objects.bulk_create(past)
        tokens = ApiToken.objects.filter(revoked_at__isnull=True).update(revoked_at=now)
        waiting = Invitation.objects.filter(accepted_at__isnull=True, revoked_at__isnull=True)
        invitations = waiting.update(revoked_at=now, revoked_by=actor.name)
        links, _ = LoginLink.objects.filter(used_at__isnull=True).delete()
        ended = Revoked(len({row.user_id for row in past}), tokens, invitations, links)
        audit_record(actor=actor, act=Act.ACCESS_REVOKED, subject="*", **asdict(ended))
    return ended
