"""Ends all access at once, after a leak of keys or a restored backup. A backup brings back what was revoked since."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.models import ApiToken, Invitation, LoginLink, SignIn
from fabric.services.acts import audit_record


@dataclass(frozen=True, slots=True)
class RevocationCounts:
    """Number of sign-ins that were ended."""

    people: int = 0
    """Number of people whose sign-ins continued."""
    tokens: int = 0
    invitations: int = 0
    links: int = 0


def access_revoke_all(*, actor: Actor) -> RevocationCounts:
    """End every sign-in, API token, open invitation and sign-in link, in every workspace. Memberships, roles and
    passwords stay.

    ``actor``: acts at the machine.
    """
    now = time.time_ns() // 1_000
    with transaction.atomic():
        going = SignIn.objects.filter(ended_at__isnull=True)
        people = going.values("user_id").distinct().count()
        going.update(ended_at=now, ended_by=actor.name)
        tokens = ApiToken.objects.filter(revoked_at__isnull=True).update(revoked_at=now)
        waiting = Invitation.objects.filter(accepted_at__isnull=True, revoked_at__isnull=True)
        invitations = waiting.update(revoked_at=now, revoked_by=actor.name)
        links, _ = LoginLink.objects.filter(used_at__isnull=True).delete()
        ended = RevocationCounts(people, tokens, invitations, links)
        audit_record(actor=actor, act=Act.ACCESS_REVOKED, subject="*", **asdict(ended))
    return ended
