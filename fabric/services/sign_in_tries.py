"""Bounds how often somebody may try to sign in: six times, and then after a wait that doubles (NIST SP 800-63B 3.2.2, OWASP ASVS 6.3.1).

Counted in the database, by name and by address: all web processes count together, and where the database is away nobody signs in.
A person's own link is not counted by name, so that nobody can keep an owner out by guessing.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from itertools import count, takewhile

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, Case, F, Value, When

from fabric.models import SignInTries

US = 1_000_000
TRIES = 6
"""Tries of one name before it has to wait; ``FABRIC_SIGN_IN_TRIES`` says otherwise."""
OF_AN_ADDRESS = 10
"""So many times as many are an address's: several people may be behind it."""
FIRST_WAIT_S = 30
WAIT_MAX_S = 900
KEPT_S = 86_400
"""After so long without a try all is forgotten."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whose tries are counted together. ``most``: how many are free; ``named``: it is one person."""

    key: str
    most: int
    named: bool = False


def of_name(name: str) -> Who:
    """The tries of a person's name, whatever its case and form."""
    return Who(_key("name", unicodedata.normalize("NFKC", name).casefold()), _tries(), named=True)


def of_address(address: str) -> Who:
    """The tries of an address. Those of one IPv6 network of 64 bits are one, since whoever has one has all of them."""
    return Who(_key("address", network_of(address)), _tries() * OF_AN_ADDRESS)


def network_of(address: str) -> str:
    """What an address counts as: itself, or its IPv6 network of 64 bits."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if isinstance(known, IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return str(int(known) >> 64 if isinstance(known, IPv6Address) else known)


def try_begin(*several: Who) -> int:
    """Counts one more try of each. Returns the seconds to wait, where nothing was counted; 0: it may go on."""
    now = _now()
    SignInTries.objects.filter(at__lt=now - KEPT_S * US).delete()
    with transaction.atomic():
        if all(_counted(who, now) for who in _in_order(several)):
            return 0
        transaction.set_rollback(True)
    waiting = SignInTries.objects.filter(who__in=[who.key for who in several])
    until = max(waiting.values_list("until", flat=True), default=now)
    return max(1, math.ceil((until - now) / US))


def try_forgive(*several: Who) -> None:
    """Takes back a try that was right: all tries of a name, and this one of an address. Whoever has one account is free to guess at no other."""
    with transaction.atomic():
        for who in _in_order(several):
            row = SignInTries.objects.filter(who=who.key)
            if who.named:
                row.delete()
                continue
            waits_still = Case(When(failed__gt=who.most, then=F("until")), default=Value(0))
            row.filter(failed__gt=0).update(failed=F("failed") - 1, until=waits_still)


def _counted(who: Who, now: int) -> bool:
    """Counts a try of somebody who need not wait: one UPDATE judges on the row as it then is. False: they have to wait."""
    SignInTries.objects.bulk_create([SignInTries(who=who.key, at=now, failed=0, until=0)], ignore_conflicts=True)
    free = SignInTries.objects.filter(who=who.key, until__lte=now)
    return free.update(failed=F("failed") + 1, at=now, until=_until(who.most, now)) == 1


def _until(most: int, now: int) -> Case:
    """Until when somebody waits after one more try, of the tries that stand in the row."""
    last = most - 1  # The tries before the one that is the last free one.
    doubling = takewhile(lambda wait: wait < WAIT_MAX_S, (FIRST_WAIT_S << over for over in count()))
    waits = [When(failed=last + over, then=Value(now + wait * US)) for over, wait in enumerate(doubling)]
    at_most = Value(now + WAIT_MAX_S * US)
    return Case(When(failed__lt=last, then=Value(0)), *waits, default=at_most, output_field=BigIntegerField())


def _in_order(several: Iterable[Who]) -> list[Who]:
    """In one order for all, so that no two of them hold what the other waits for."""
    return sorted(several, key=lambda who: who.key)


def _tries() -> int:
    return int(getattr(settings, "FABRIC_SIGN_IN_TRIES", TRIES))


def _key(kind: str, text: str) -> str:
    return sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
