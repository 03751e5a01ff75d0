"""Bounds how often somebody may try to sign in: six times, and then after a wait that doubles (NIST SP 800-63B 3.2.2, OWASP ASVS 6.3.1).

Counted in the database, by name and by address: all web processes count together, and where the database is away nobody signs in.
A person's own link is not counted by name, so that nobody can keep an owner out by guessing.
"""

from __future__ import annotations

import math
import time
import unicodedata
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.db import transaction

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
    try:
        known = ip_address(address)
    except ValueError:
        return Who(_key("address", address), _tries() * OF_AN_ADDRESS)
    if isinstance(known, IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    network = int(known) >> 64 if isinstance(known, IPv6Address) else known
    return Who(_key("address", str(network)), _tries() * OF_AN_ADDRESS)


def try_begin(*several: Who) -> int:
    """Counts one more try of each. Returns the seconds to wait, where nothing was counted; 0: it may go on."""
    now = _now()
    with transaction.atomic():
        rows = [_locked(who, now) for who in sorted(several, key=lambda who: who.key)]
        wait = max(row.until - now for row, _ in rows)
        if wait > 0:
            return math.ceil(wait / US)
        for row, most in rows:
            row.failed += 1
            row.at = now
            row.until = now + _wait_s(row.failed - most) * US if row.failed >= most else 0
            row.save(update_fields=["failed", "at", "until"])
    return 0


def try_forgive(*several: Who) -> None:
    """Takes back a try that was right: all tries of a name, and this one of an address. Whoever has one account is free to guess at no other."""
    with transaction.atomic():
        for who in sorted(several, key=lambda who: who.key):
            if who.named:
                SignInTries.objects.filter(who=who.key).delete()
                continue
            row, most = _locked(who, _now())
            row.failed = max(0, row.failed - 1)
            row.until = row.until if row.failed >= most else 0
            row.save(update_fields=["failed", "until"])


def _locked(who: Who, now: int) -> tuple[SignInTries, int]:
    """The row of somebody, which nobody else changes until the transaction is over."""
    SignInTries.objects.filter(at__lt=now - KEPT_S * US).delete()
    SignInTries.objects.bulk_create([SignInTries(who=who.key, at=now, failed=0, until=0)], ignore_conflicts=True)
    return SignInTries.objects.select_for_update().get(who=who.key), who.most


def _wait_s(over: int) -> int:
    """Seconds after so many tries beyond those that are free."""
    return WAIT_MAX_S if over > WAIT_MAX_S.bit_length() else min(WAIT_MAX_S, FIRST_WAIT_S << over)


def _tries() -> int:
    return int(getattr(settings, "FABRIC_SIGN_IN_TRIES", TRIES))


def _key(kind: str, text: str) -> str:
    return sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000
