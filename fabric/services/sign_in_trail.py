"""Records sign-ins that failed (OWASP ASVS 16.3.1): by whose name, from where, and how often."""

from __future__ import annotations

import unicodedata
from typing import Literal

from django.contrib.auth import get_user_model
from django.utils.crypto import salted_hmac

from fabric.core.audit import Act
from fabric.services.audit_folding import audit_fold, stranger
from fabric.services.sign_in_tries import network_of

UNKNOWN = "unknown"
"""The subject where nobody has the name that was typed: it may be a password that was typed into the wrong field, so only its hash is kept."""
How = Literal["password", "link", "too_often", "second_factor", "passkey", "oidc"]


def sign_in_failed(*, name: str, address: str, how: How) -> None:
    """Records that a sign-in failed. ``name``: as it was typed, empty for a link; ``address``: the client's."""
    known = bool(name) and get_user_model().objects.filter(username=name).exists()
    hashed = name_hash(name) if name else ""
    audit_fold(
        actor=stranger(),
        act=Act.SIGN_IN_FAILED,
        subject=name if known else UNKNOWN,
        at=f"{hashed}:{network_of(address)}:{how}",
        name_hash=hashed or None,
        how=how,
    )


def name_hash(name: str) -> str:
    """What stands for a name that nobody has: 16 hexadecimal digits, keyed with the installation's secret, equal for equal names."""
    return salted_hmac("fabric.sign_in", unicodedata.normalize("NFKC", name).casefold()).hexdigest()[:16]
