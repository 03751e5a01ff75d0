"""Variables that hold secrets: how each is read, for the table of console/variables.py. Standard library only."""

import base64
import re

from console.launch.datadir import KEY_CHARS_MIN
from console.launch.errors import Refused

_seed = re.compile(r"[0-9A-Fa-f]{64}")


def secret_key(name: str, text: str) -> str:
    """A signing key. Raises Refused."""
    if len(text) < KEY_CHARS_MIN:
        raise Refused(
            f"{name} has {len(text)} characters: use a random one of {KEY_CHARS_MIN} or more, or leave it out."
        )
    return text


def audit_key(name: str, text: str) -> str:
    """A private key in hex. Raises Refused."""
    if not _seed.fullmatch(text):
        raise Refused(f"{name} is no key: give 64 hexadecimal digits, as `openssl rand -hex 32` makes them.")
    return text.lower()


def key_ring(name: str, text: str) -> str:
    """Keys in hex, with commas between them. Raises Refused."""
    keys = text.lower().replace(",", " ").split()
    if not keys or not all(map(_seed.fullmatch, keys)) or len(set(keys)) < len(keys):
        form = "give keys of 64 hexadecimal digits, each once, as `openssl rand -hex 32` makes them, with commas between them"
        raise Refused(f"{name} is no key ring: {form}.")
    return ",".join(keys)


def header(name: str, text: str) -> str:
    """What may stand in a header. Raises Refused."""
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise Refused(f"{name} holds a space or a character that no key has: copy the key again, and nothing else.")
    return text


def webhook_secret(name: str, text: str) -> str:
    """A secret of the Standard Webhooks form. Raises Refused."""
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not text.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise Refused(
            f"{name} is no secret of the Standard Webhooks form: make one with `echo whsec_$(openssl rand -base64 32)`."
        )
    return text
