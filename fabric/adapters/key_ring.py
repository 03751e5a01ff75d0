"""The key ring: what stored secrets are sealed under. Its first key seals, and each of its keys opens what it has sealed.

It is ``FABRIC_KEY_RING``, or the file ``key.ring`` of the data directory, made the first time: keys of 64 hexadecimal digits, with commas or lines between
them. A key's id is made of the key (HKDF-SHA256, RFC 5869), so that no id can be written beside another one's key.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fabric.adapters.key_files import KeyUnusable, replace, write_once
from fabric.adapters.known_secrets import KNOWN

RING_NAME = "key.ring"
KEY_BYTES = 32
ID_BYTES = 8
KEYS_MAX = 20
_key = re.compile(r"[0-9a-f]{64}")
_HEAD = "# Keys that stored secrets are sealed under; the first seals. `manage.py rekey` changes them.\n"


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key. ``id``: what a sealed value names it by."""

    id: bytes
    seals: bytes = field(repr=False)
    text: str = field(repr=False)
    """The key as the ring has it."""


Ring = tuple[SealKey, ...]
"""At least one key; the first seals."""


def ring_of(data: Path, given: str = "") -> Ring:
    """The installation's ring as it is now. ``given``: FABRIC_KEY_RING; empty: that of the data directory. Raises KeyUnusable."""
    if given:
        return _parsed(given, "FABRIC_KEY_RING")
    path = data / RING_NAME
    try:
        if not path.exists():
            write_once(path, _text((os.urandom(KEY_BYTES).hex(),)))
        seen = path.stat()
        return _read(path, (seen.st_ino, seen.st_mtime_ns, seen.st_size))
    except OSError as error:
        raise KeyUnusable(
            f"the key ring {path} cannot be used ({error.strerror}): run as the user who owns it"
        ) from error


def key_added(data: Path) -> SealKey:
    """Puts a new key first into the ring of the data directory; the others stay. Raises KeyUnusable."""
    with _changed(data) as (ring, put):
        if len(ring) >= KEYS_MAX:
            raise KeyUnusable(f"the key ring has {len(ring)} keys, which is the most: run `manage.py rekey --forget`")
        (made,) = _parsed(os.urandom(KEY_BYTES).hex(), "")
        put((made, *ring))
    return made


def keys_forgotten(data: Path, kept: Collection[bytes]) -> int:
    """Drops the keys from the ring of the data directory but the first and those with the ids; how many. Raises KeyUnusable."""
    with _changed(data) as (ring, put):
        stay = tuple(key for n, key in enumerate(ring) if n == 0 or key.id in kept)
        if stay != ring:
            put(stay)
    return len(ring) - len(stay)


@contextmanager
def alone(data: Path) -> Iterator[None]:
    """One process at a time changes the ring and what is sealed. Raises KeyUnusable while another one does."""
    try:
        with (data / f"{RING_NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise KeyUnusable("another `manage.py rekey` is under way: wait until it is done") from None
    except PermissionError as error:
        raise KeyUnusable(f"{data} cannot be written ({error.strerror}): run as its owner") from error


@contextmanager
def _changed(data: Path) -> Iterator[tuple[Ring, Callable[[Ring], None]]]:
    path = data / RING_NAME
    try:
        yield ring_of(data), lambda ring: replace(path, _text(key.text for key in ring))
    except OSError as error:
        raise KeyUnusable(f"the key ring {path} cannot be written ({error.strerror}): run as its owner") from error


@lru_cache(maxsize=8)
def _read(path: Path, version: tuple[int, ...]) -> Ring:
    return _parsed(path.read_text(encoding="ascii", errors="replace"), str(path))


def _parsed(text: str, where: str) -> Ring:
    lines = (line for line in text.lower().splitlines() if not line.startswith("#"))
    keys = tuple(dict.fromkeys(re.split(r"[\s,]+", " ".join(lines).strip(" ,"))))
    if not all(_key.fullmatch(key) for key in keys) or len(keys) > KEYS_MAX:
        raise KeyUnusable(
            f"the key ring {where} is damaged: put it back from a copy; without it stored keys do not open"
        )
    KNOWN.add("key ring", keys)
    return tuple(SealKey(_derived(key, "key id", ID_BYTES), _derived(key, "seals", KEY_BYTES), key) for key in keys)


def _derived(key: str, what: str, length: int) -> bytes:
    made = HKDF(algorithm=SHA256(), length=length, salt=None, info=f"fabric-flow:key ring:{what}".encode())
    return made.derive(bytes.fromhex(key))


def _text(keys: Collection[str] | Iterator[str]) -> str:
    return _HEAD + "".join(f"{key}\n" for key in keys)
