"""All ways in ended at once: after a backup was restored, which brings back what was revoked since, and after keys got into wrong hands."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from django.db import transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.models import ApiToken, Invitation, LoginLink, SignIn
from fabric.services.audit import audit_record


@dataclass(frozen=True, slots=True)
class Revoked:
    """How much was ended."""

    people: int = 0
    """Whose sign-ins went on."""
    tokens: int = 0
    invitations: int = 0
    links: int = 0


def access_revoke_all(*, actor: Actor) -> Revoked:
    """Ends every sign-in, API token, open invitation and sign-in link, in every workspace. Memberships, roles and passwords stay.

    ``actor``: who acts at the machine.
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
        ended = Revoked(people, tokens, invitations, links)
        audit_record(actor=actor, act=Act.ACCESS_REVOKED, subject="*", **asdict(ended))
    return ended
