"""Sign-ins: begins, renews, lists and ends them. Each is a row; the browser's signed cookie names it (OWASP ASVS 5.0
7.3, 7.4, 7.5).

A sign-in ends after some unused hours, at its greatest age, or at once when a user ends it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.units import US
from fabric.models import Member, SignIn
from fabric.program.name import program
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import fresh_wanted, right_wanted

log = logging.getLogger(__name__)

HOUR_US = 3_600 * US
SEEN_EVERY_US = 300 * US
"""Shortest time between two recordings that a sign-in was used: a request must not cost a write."""
KEPT_US = 30 * 24 * HOUR_US
"""Time for which an ended row is stored, in microseconds."""
BROWSER_MAX = 300
ENDS_BY_ITSELF = ""
"""Ender of a sign-in that expired."""


@dataclass(frozen=True, slots=True)
class SignInView:
    """An open sign-in. Instants are microseconds since the epoch, UTC."""

    id: str
    way: str
    browser: str
    address: str
    began_at: int
    seen_at: int
    until: int


def sign_in_begin(*, user: User, way: str, browser: str, address: str, mark: str = "") -> str:
    """Record a new sign-in, and return the mark by which the browser's cookie names it.

    ``mark``: the sign-in that this person repeats, which goes on with another means; where it has ended, a new one
    begins.
    """
    now = _now()
    SignIn.objects.filter(until__lt=now - KEPT_US).delete()
    known = {"way": way, "browser": browser[:BROWSER_MAX], "address": address[:64], "seen_at": now}
    if mark and SignIn.objects.filter(_works(now), id=mark, user=user).update(**known):
        return mark
    made, until = secrets.token_hex(16), now + settings.FABRIC_SIGN_IN_HOURS * HOUR_US
    SignIn.objects.create(id=made, user=user, began_at=now, until=until, **known)
    return made


def sign_in_works(mark: str, user_id: int, *, address: str = "", used: bool = True) -> str:
    """Return the means of an open sign-in; empty: it is not open. Its use (``used``) is recorded now and then. One
    read.
    """
    now = _now()
    row = SignIn.objects.filter(_works(now), id=mark, user_id=user_id).values_list("way", "seen_at").first()
    if row is None:
        return ""
    way, seen_at = row
    if used and seen_at < now - SEEN_EVERY_US:
        try:
            # The condition decides between requests that come at once: one of them writes.
            SignIn.objects.filter(id=mark, seen_at=seen_at).update(seen_at=now, address=address[:64])
        except DatabaseError as error:
            log.warning("that a sign-in was used was not noted: %s", error)
    return str(way)


def sign_ins_going(marks: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return means and user of each of these sign-ins that is open. One read."""
    asked = set(marks) - {""}
    rows = SignIn.objects.filter(_works(_now()), id__in=asked).values_list("id", "way", "user_id") if asked else ()
    return {mark: (way, user_id) for mark, way, user_id in rows}


def sign_in_end(mark: str, *, by: str = ENDS_BY_ITSELF) -> None:
    """End one; do nothing where it has ended."""
    SignIn.objects.filter(id=mark, ended_at__isnull=True).update(ended_at=_now(), ended_by=by)


def list_sign_ins(user: User) -> list[SignInView]:
    """Return a user's open sign-ins, the last used first."""
    rows = SignIn.objects.filter(_works(_now()), user=user).order_by("-seen_at", "id")
    return [SignInView(row.id, row.way, row.browser, row.address, row.began_at, row.seen_at, row.until) for row in rows]


def own_sign_ins_end(*, actor: Actor, user: User, but: str = "", only: str = "") -> list[str]:
    """End the actor's own sign-ins and return their marks: all (``but``: except that one) or ``only`` one.

    Raises Refused: forbidden (no person's own sign-in).
    """
    if actor.via or user.get_username() != actor.name:
        raise Refused("people end their own sign-ins, and owners those of members", code="forbidden", field="actor")
    return _end(actor, user, but=but, only=only)


def member_sign_ins_end(*, actor: Actor, name: str) -> list[str]:
    """End all sign-ins of a member and return their marks. Raises Refused: forbidden, not_found."""
    right_wanted(actor, Right.MEMBERS, "end sign-ins of others")
    fresh_wanted(actor, "end sign-ins of others")
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=name, removed_at__isnull=True, service=False)
    row = rows.select_related("user").first()
    if row is None:
        message = f"there is no person {name[:80]!r} in this workspace; `{program()} member list` shows them"
        raise Refused(message, code="not_found", field="name")
    return _end(actor, row.user)


def sign_ins_end_all(actor: Actor, user: User, *, but: str = "") -> list[str]:
    """End all sign-ins because of another act, such as a new password. Runs within the caller's transaction."""
    return _end(actor, user, but=but)


def _end(actor: Actor, user: User, *, but: str = "", only: str = "") -> list[str]:
    now = _now()
    with transaction.atomic():
        rows = SignIn.objects.filter(_works(now), user=user).exclude(id=but or None)
        marks = list((rows.filter(id=only) if only else rows).values_list("id", flat=True))
        if marks:
            SignIn.objects.filter(id__in=marks, ended_at__isnull=True).update(ended_at=now, ended_by=actor.name)
            audit_record(actor=actor, act=Act.SIGN_INS_ENDED, subject=user.get_username(), how_many=len(marks))
    return marks


def _works(now: int) -> Q:
    """Return the conditions of an open sign-in. Today's bounds apply: a sign-in that began under longer ones ends
    with them.
    """
    idle = now - settings.FABRIC_SIGN_IN_IDLE_HOURS * HOUR_US
    oldest = now - settings.FABRIC_SIGN_IN_HOURS * HOUR_US
    going = Q(ended_at__isnull=True, user__is_active=True)
    return going & Q(seen_at__gt=idle, until__gt=now, began_at__gt=oldest)


def _now() -> int:
    return time.time_ns() // 1_000
