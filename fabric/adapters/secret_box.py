"""Secrets at rest: sealed with a key that is made of the installation's FABRIC_SECRET_KEY, and bound to what they are for.

AES-256-GCM under a fresh nonce; the key by HKDF-SHA256 (RFC 5869). What a secret is for is authenticated with it: a row whose host or
workspace was changed in the database does not open.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION = b"\x01"
NONCE_BYTES = 12
KEY_BYTES = 32


class Unsealable(Exception):
    """It was sealed under another key or for something else, or is damaged."""


class SecretBox:
    """Seals and opens secrets for one purpose. ``master``: the installation's secret; ``purpose``: another one gives another key."""

    def __init__(self, master: str, purpose: str) -> None:
        made = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"fabric-flow:{purpose}".encode())
        self._cipher = AESGCM(made.derive(master.encode("utf-8", "surrogatepass")))

    def seal(self, secret: str, *about: str) -> bytes:
        """The secret, sealed for ``about``: to open it takes the same texts."""
        nonce = os.urandom(NONCE_BYTES)
        return VERSION + nonce + self._cipher.encrypt(nonce, secret.encode(), _bound(about))

    def open(self, sealed: bytes, *about: str) -> str:
        """The secret. Raises Unsealable."""
        head, nonce, rest = sealed[:1], sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        if head != VERSION or len(nonce) != NONCE_BYTES:
            raise Unsealable
        try:
            return self._cipher.decrypt(nonce, rest, _bound(about)).decode()
        except (InvalidTag, ValueError) as error:
            raise Unsealable from error

    def opens(self, sealed: bytes, *about: str) -> bool:
        """Whether it opens."""
        try:
            self.open(sealed, *about)
        except Unsealable:
            return False
        return True


def _bound(about: tuple[str, ...]) -> bytes:
    """The texts, each with its length: no two of them run into each other."""
    raw = [text.encode("utf-8", "surrogatepass") for text in about]
    return VERSION + b"".join(len(one).to_bytes(4, "big") + one for one in raw)
