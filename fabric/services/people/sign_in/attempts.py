"""Bounds attempts to sign in: six are free, then each one waits twice as long.

Sources: NIST SP 800-63B 3.2.2; OWASP ASVS 6.3.1. The database counts them by name and by address: all web processes
count together, and without the database no one signs in. A person's own link does not count by name, so that guessing
cannot lock an owner out. Failed sign-ins are recorded (OWASP ASVS 16.3.1): name, address, and number.
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
from typing import Literal

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import BigIntegerField, Case, F, Value, When
from django.utils.crypto import salted_hmac

from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import SignInTries
from fabric.services.audit.folds import audit_fold, stranger

TRIES = 6
"""Attempts of one name before it has to wait; ``FABRIC_SIGN_IN_TRIES`` replaces it."""
OF_AN_ADDRESS = 10
"""Factor by which an address has more attempts: several people may share it."""
FIRST_WAIT_S = 30
WAIT_MAX_S = 900
KEPT_S = 86_400
"""Seconds without an attempt after which all are forgotten."""


@dataclass(frozen=True, slots=True)
class AttemptSubject:
    """Subject whose attempts are counted together. ``most``: number of free ones; ``named``: it is one person."""

    key: str
    most: int
    named: bool = False


def name_subject(name: str) -> AttemptSubject:
    """Return the subject for a person's name, ignoring its case and Unicode form."""
    return AttemptSubject(_key("name", unicodedata.normalize("NFKC", name).casefold()), _tries(), named=True)


def address_subject(address: str) -> AttemptSubject:
    """Return the subject for an address. An IPv6 network of 64 bits counts as one, since its owner has all of its
    addresses.
    """
    return AttemptSubject(_key("address", read_network(address)), _tries() * OF_AN_ADDRESS)


def read_network(address: str) -> str:
    """Return the unit in which an address is counted: itself, or its IPv6 network of 64 bits."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if isinstance(known, IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return str(int(known) >> 64 if isinstance(known, IPv6Address) else known)


def try_begin(*several: AttemptSubject) -> int:
    """Count one more attempt of each. Returns the seconds to wait, where nothing was counted; 0: it may go on."""
    now = _now()
    SignInTries.objects.filter(at__lt=now - KEPT_S * US).delete()
    with transaction.atomic():
        if all(_count_attempt(who, now) for who in _sort_subjects(several)):
            return 0
        transaction.set_rollback(True)
    waiting = SignInTries.objects.filter(who__in=[who.key for who in several])
    until = max(waiting.values_list("until", flat=True), default=now)
    return max(1, math.ceil((until - now) / US))


def try_forgive(*several: AttemptSubject) -> None:
    """Clear a successful attempt: all attempts of a name, and this one of an address. So one's own account gives no
    free guesses at others.
    """
    with transaction.atomic():
        for who in _sort_subjects(several):
            row = SignInTries.objects.filter(who=who.key)
            if who.named:
                row.delete()
                continue
            waits_still = Case(When(failed__gt=who.most, then=F("until")), default=Value(0))
            row.filter(failed__gt=0).update(failed=F("failed") - 1, until=waits_still)


def _count_attempt(who: AttemptSubject, now: int) -> bool:
    """Count an attempt by one UPDATE that judges the row as it then is. Returns False if the subject has to wait."""
    SignInTries.objects.bulk_create([SignInTries(who=who.key, at=now, failed=0, until=0)], ignore_conflicts=True)
    free = SignInTries.objects.filter(who=who.key, until__lte=now)
    return free.update(failed=F("failed") + 1, at=now, until=_build_wait_end(who.most, now)) == 1


def _build_wait_end(most: int, now: int) -> Case:
    """Return the SQL expression for the end of the wait after one more attempt, from those in the row."""
    last = most - 1  # The tries before the one that is the last free one.
    doubling = takewhile(lambda wait: wait < WAIT_MAX_S, (FIRST_WAIT_S << over for over in count()))
    waits = [When(failed=last + over, then=Value(now + wait * US)) for over, wait in enumerate(doubling)]
    at_most = Value(now + WAIT_MAX_S * US)
    return Case(When(failed__lt=last, then=Value(0)), *waits, default=at_most, output_field=BigIntegerField())


def _sort_subjects(several: Iterable[AttemptSubject]) -> list[AttemptSubject]:
    """Return the subjects in one order for all, so that no two transactions wait for each other."""
    return sorted(several, key=lambda who: who.key)


def _tries() -> int:
    return int(getattr(settings, "FABRIC_SIGN_IN_TRIES", TRIES))


def _key(kind: str, text: str) -> str:
    return sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> int:
    return time.time_ns() // 1_000


UNKNOWN = "unknown"
"""Subject of a failed sign-in under an unknown name. It may be a password typed into the wrong field, so only its hash
is stored.
"""
How = Literal["password", "link", "too_often", "second_factor", "passkey", "oidc"]


def sign_in_failed(*, name: str, address: str, how: How) -> None:
    """Record a failed sign-in. ``name``: as it was typed, empty for a link; ``address``: the client's."""
    known = bool(name) and get_user_model().objects.filter(username=name).exists()
    hashed = name_hash(name) if name else ""
    audit_fold(
        actor=stranger(),
        act=Act.SIGN_IN_FAILED,
        subject=name if known else UNKNOWN,
        at=f"{hashed}:{read_network(address)}:{how}",
        name_hash=hashed or None,
        how=how,
    )


def name_hash(name: str) -> str:
    """Return the stand-in for an unknown name: 16 hexadecimal digits, keyed with the installation's secret, equal
    for equal names.
    """
    return salted_hmac("fabric.sign_in", unicodedata.normalize("NFKC", name).casefold()).hexdigest()[:16]
