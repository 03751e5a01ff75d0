"""Secrets at rest: sealed under the first key of the key ring (``key_ring.py``), and bound to where they stand.

AES-256-GCM under a fresh nonce. A sealed value names its key's id; the texts that say where it stands are authenticated with it: in another row, or in a row
whose host or workspace was changed in the database, it does not open. Source: NIST SP 800-38D.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fabric.adapters.key_files import KeyUnusable
from fabric.adapters.key_ring import ID_BYTES, Ring

log = logging.getLogger(__name__)
VERSION = b"\x01"
NONCE_BYTES = 12
_NONCE_AT = len(VERSION) + ID_BYTES
_HEAD_BYTES = _NONCE_AT + NONCE_BYTES


class Unsealable(Exception):
    """Its key is not in the ring, it was sealed for another place, it is damaged, or the ring cannot be had."""


class SecretBox:
    """Seals and opens secrets. ``ring``: gives the keys as they are now; a key that was added holds without a restart."""

    def __init__(self, ring: Callable[[], Ring]) -> None:
        self._ring = ring

    def seal(self, secret: str, *about: str) -> bytes:
        """The secret, sealed for ``about``: to open it takes the same texts. Name the table, the row's id and the field first. Raises KeyUnusable."""
        key, nonce = self._ring()[0], os.urandom(NONCE_BYTES)
        return VERSION + key.id + nonce + AESGCM(key.seals).encrypt(nonce, secret.encode(), _bound(key.id, about))

    def open(self, sealed: bytes, *about: str) -> str:
        """The secret. Raises Unsealable."""
        named = key_id(sealed)
        try:
            key = next((one for one in self._ring() if one.id == named), None)
        except KeyUnusable as error:
            log.warning("%s", error)
            raise Unsealable from error
        if key is None or len(sealed) <= _HEAD_BYTES:
            raise Unsealable
        try:
            nonce, rest = sealed[_NONCE_AT:_HEAD_BYTES], sealed[_HEAD_BYTES:]
            return AESGCM(key.seals).decrypt(nonce, rest, _bound(key.id, about)).decode()
        except (InvalidTag, ValueError) as error:
            raise Unsealable from error

    def opens(self, sealed: bytes, *about: str) -> bool:
        """Whether it opens."""
        try:
            self.open(sealed, *about)
        except Unsealable:
            return False
        return True

    def newest(self, sealed: bytes) -> bool:
        """Whether it is sealed under the key that seals now."""
        return key_id(sealed) == self._ring()[0].id


def key_id(sealed: bytes) -> bytes:
    """The id of the key that a value is sealed under; empty for what is no sealed value."""
    return sealed[len(VERSION) : _NONCE_AT] if sealed[:1] == VERSION else b""


def _bound(key: bytes, about: tuple[str, ...]) -> bytes:
    """The key's id and the texts, each with its length: no two of them run into each other."""
    raw = [key, *(text.encode("utf-8", "surrogatepass") for text in about)]
    return VERSION + b"".join(len(one).to_bytes(4, "big") + one for one in raw)
