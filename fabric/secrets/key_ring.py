"""Reads the key ring: its first key seals stored secrets, and each of its keys opens what it has sealed.

It is ``FABRIC_KEY_RING``, or the file ``key.ring`` of the data directory, made the first time: keys of 64 hexadecimal
digits, with commas or lines between them. A key's id is derived from the key (HKDF-SHA256, RFC 5869), so that no key
can have another one's id. Key files are written once, or replaced whole, for their owner alone (mode 0600).
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fabric.program.name import program
from fabric.secrets.known_secrets import KNOWN

RING_NAME = "key.ring"
KEY_BYTES = 32
ID_BYTES = 8
KEYS_MAX = 20
_key = re.compile(r"[0-9a-f]{64}")
_HEAD = "# Keys that stored secrets are sealed under; the first seals. `manage.py rekey` changes them.\n"


@dataclass(frozen=True, slots=True)
class SealKey:
    """One key. ``id``: its name in a sealed value."""

    id: bytes
    seals: bytes = field(repr=False)
    text: str = field(repr=False)
    """The key as the ring has it."""


Ring = tuple[SealKey, ...]
"""At least one key; the first seals."""


def read_ring(data: Path, given: str = "") -> Ring:
    """Return the installation's present ring. ``given``: FABRIC_KEY_RING; empty: that of the data directory. Raises
    KeyUnusable.
    """
    if given:
        return _parse_ring(given, "FABRIC_KEY_RING")
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
    """Put a new key first into the ring of the data directory; the others stay. Raises KeyUnusable."""
    with _change_ring(data) as (ring, put):
        if len(ring) >= KEYS_MAX:
            raise KeyUnusable(f"the key ring has {len(ring)} keys, which is the most: run `{program()} rekey --forget`")
        (made,) = _parse_ring(os.urandom(KEY_BYTES).hex(), "")
        put((made, *ring))
    return made


def keys_forgotten(data: Path, kept: Collection[bytes]) -> int:
    """Drop all keys but the first and those with the ids from the data directory's ring; return their number.

    Raises KeyUnusable.
    """
    with _change_ring(data) as (ring, put):
        stay = tuple(key for n, key in enumerate(ring) if n == 0 or key.id in kept)
        if stay != ring:
            put(stay)
    return len(ring) - len(stay)


@contextmanager
def alone(data: Path) -> Iterator[None]:
    """Lock the ring, so that one process at a time changes it and the sealed values. Raises KeyUnusable while
    another one does.
    """
    try:
        with (data / f"{RING_NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise KeyUnusable(f"another `{program()} rekey` is under way: wait until it is done") from None
    except PermissionError as error:
        raise KeyUnusable(f"{data} cannot be written ({error.strerror}): run as its owner") from error


@contextmanager
def _change_ring(data: Path) -> Iterator[tuple[Ring, Callable[[Ring], None]]]:
    path = data / RING_NAME
    try:
        yield read_ring(data), lambda ring: replace(path, _text(key.text for key in ring))
    except OSError as error:
        raise KeyUnusable(f"the key ring {path} cannot be written ({error.strerror}): run as its owner") from error


@lru_cache(maxsize=8)
def _read(path: Path, version: tuple[int, ...]) -> Ring:
    return _parse_ring(path.read_text(encoding="ascii", errors="replace"), str(path))


def _parse_ring(text: str, where: str) -> Ring:
    lines = (line for line in text.lower().splitlines() if not line.startswith("#"))
    keys = tuple(dict.fromkeys(re.split(r"[\s,]+", " ".join(lines).strip(" ,"))))
    if not all(_key.fullmatch(key) for key in keys) or len(keys) > KEYS_MAX:
        raise KeyUnusable(
            f"the key ring {where} is damaged: put it back from a copy; without it stored keys do not open"
        )
    KNOWN.add("key ring", keys)
    return tuple(
        SealKey(_derive_key(key, "key id", ID_BYTES), _derive_key(key, "seals", KEY_BYTES), key) for key in keys
    )


def _derive_key(key: str, what: str, length: int) -> bytes:
    made = HKDF(algorithm=SHA256(), length=length, salt=None, info=f"fabric-flow:key ring:{what}".encode())
    return made.derive(bytes.fromhex(key))


def _text(keys: Collection[str] | Iterator[str]) -> str:
    return _HEAD + "".join(f"{key}\n" for key in keys)


class KeyUnusable(Exception):
    """A key of the installation is unavailable; the sentence has the remedy."""


def write_once(path: Path, text: str) -> None:
    """Write a new file: whole or not at all; of several writers the first wins. Raises OSError."""
    temporary = _temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def replace(path: Path, text: str) -> None:
    """Replace a file: a reader sees the old one or the new one. Raises OSError."""
    temporary = _temporary(path, text)
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _temporary(path: Path, text: str) -> Path:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # With mode 0600.
    try:
        if os.geteuid() == 0:  # The service must be able to read root's file there.
            folder = path.parent.stat()
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(temporary).unlink()
        raise
    return Path(temporary)
