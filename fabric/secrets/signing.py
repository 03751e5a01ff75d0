"""Ed25519: signs checkpoints and verifies their signatures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fabric.secrets.key_ring import KeyUnusable, write_once
from fabric.secrets.known_secrets import KNOWN

KEY_NAME = "audit.key"
SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with one key."""

    public: str
    """The public key in hex, which verifies."""
    _key: Ed25519PrivateKey

    def sign(self, raw: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return self._key.sign(raw)

    def __repr__(self) -> str:
        return f"Signer({self.public})"


def read_signer(data: Path, given: str = "") -> Signer:
    """Return the installation's signer. ``given``: the private key in hex (FABRIC_AUDIT_KEY); empty: the data
    directory's, made the first time.

    Raises KeyUnusable.
    """
    seed = bytes.fromhex(given) if given else _load_key(data / KEY_NAME)
    KNOWN.learn("audit key", [seed.hex()])
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return Signer(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex(), key)


def verify_signature(public: str, signature: bytes, raw: bytes) -> bool:
    """Return True if ``signature`` is that key's over ``raw``."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, raw)
    except (InvalidSignature, ValueError):
        return False
    return True


def _load_key(path: Path) -> bytes:
    try:
        if not path.exists():
            write_once(path, os.urandom(SEED_BYTES).hex())
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise KeyUnusable(
            f"the audit key {path} cannot be used ({error.strerror}): run as the user who owns it"
        ) from error
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != SEED_BYTES:
        raise KeyUnusable(
            f"the audit key {path} is damaged: put it back from a copy, or delete it and give verify_audit the old public key by --key"
        )
    return seed
