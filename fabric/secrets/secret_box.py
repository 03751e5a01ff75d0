"""Seals secrets at rest under the first key of the key ring (``key_ring.py``), bound to their place.

AES-256-GCM under a fresh nonce. A sealed value names its key's id; the texts of its place are authenticated with it: in
another row, or in a row whose host or workspace was changed in the database, it does not open. ``SEALED`` lists every
field of the database with a sealed secret, and the texts that bind its value; `manage.py rekey` seals these anew.
Source: NIST SP 800-38D.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.db.models import Model, QuerySet

from fabric.models import ChatRoute, Identity, ProviderKey, SecondFactor
from fabric.models.people.sign_ins import TOTP
from fabric.secrets.key_ring import ID_BYTES, KeyUnusable, Ring

log = logging.getLogger(__name__)
VERSION = b"\x01"
NONCE_BYTES = 12
_NONCE_AT = len(VERSION) + ID_BYTES
_HEAD_BYTES = _NONCE_AT + NONCE_BYTES


class SecretUnsealable(Exception):
    """The box cannot open a secret. Its key is not in the ring, it was sealed for another place, it is damaged, or the
    ring is unavailable.
    """


class SecretBox:
    """Seals and opens secrets. ``ring``: returns the present keys; an added key works without a restart."""

    def __init__(self, ring: Callable[[], Ring]) -> None:
        self._ring = ring

    def seal(self, secret: str, *about: str) -> bytes:
        """Seal a secret for the texts ``about``, which opening it needs again. Name the table, the row's id and the
        field first. Raises KeyUnusable.
        """
        key, nonce = self._ring()[0], os.urandom(NONCE_BYTES)
        return VERSION + key.id + nonce + AESGCM(key.seals).encrypt(nonce, secret.encode(), _bound(key.id, about))

    def open(self, sealed: bytes, *about: str) -> str:
        """Return the secret. Raises SecretUnsealable."""
        named = key_id(sealed)
        try:
            key = next((one for one in self._ring() if one.id == named), None)
        except KeyUnusable as error:
            log.warning("%s", error)
            raise SecretUnsealable from error
        if key is None or len(sealed) <= _HEAD_BYTES:
            raise SecretUnsealable
        try:
            nonce, rest = sealed[_NONCE_AT:_HEAD_BYTES], sealed[_HEAD_BYTES:]
            return AESGCM(key.seals).decrypt(nonce, rest, _bound(key.id, about)).decode()
        except (InvalidTag, ValueError) as error:
            raise SecretUnsealable from error

    def opens(self, sealed: bytes, *about: str) -> bool:
        """Return True if it opens."""
        try:
            self.open(sealed, *about)
        except SecretUnsealable:
            return False
        return True

    def newest(self, sealed: bytes) -> bool:
        """Return True if it is sealed under the ring's first key."""
        return key_id(sealed) == self._ring()[0].id


def key_id(sealed: bytes) -> bytes:
    """Return the id of the key of a sealed value; empty for any other value."""
    return sealed[len(VERSION) : _NONCE_AT] if sealed[:1] == VERSION else b""


def _bound(key: bytes, about: tuple[str, ...]) -> bytes:
    """Return the key's id and the texts, each with its length. So no two of them run into each other."""
    raw = [key, *(text.encode("utf-8", "surrogatepass") for text in about)]
    return VERSION + b"".join(len(one).to_bytes(4, "big") + one for one in raw)


@dataclass(frozen=True, slots=True)
class SealedField:
    """One field. ``bound``: further texts of a row to which its value is bound. ``only``: rows that have a sealed
    value.

    A value is always bound to the table, the row's id and the field.
    """

    model: type[Model]
    name: str
    bound: Callable[[Any], tuple[str, ...]]
    only: Mapping[str, Any] = field(default_factory=dict)

    def rows(self) -> QuerySet[Any]:
        """Return the rows that have a sealed value."""
        return self.model._default_manager.filter(**self.only).exclude(**{self.name: b""})

    def list_bindings(self, row: Any) -> tuple[str, ...]:
        """Return the texts to which a row's value is bound (``SecretBox.seal``)."""
        return (self.model._meta.db_table, str(row.pk), self.name, *self.bound(row))


PROVIDER_KEY = SealedField(ProviderKey, "sealed", lambda row: (row.workspace_id, row.provider, row.host))
TOTP_SECRET = SealedField(SecondFactor, "secret", lambda row: (str(row.user_id),), {"kind": TOTP})
REFRESH_TOKEN = SealedField(Identity, "refresh", lambda row: (row.issuer, row.subject))
CHAT_ADDRESS = SealedField(
    ChatRoute, "sealed", lambda row: (row.workspace_id, row.fabric, row.member, row.channel, row.host)
)
SEALED = (PROVIDER_KEY, TOTP_SECRET, REFRESH_TOKEN, CHAT_ADDRESS)
