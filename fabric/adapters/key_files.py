"""Files of the data directory that hold a key: written once, or replaced whole, for their owner alone (mode 0600)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class KeyUnusable(Exception):
    """A key of the installation cannot be had; the sentence says what to do."""


def write_once(path: Path, text: str) -> None:
    """Writes a file that is not there yet: whole or not at all; of several writers the first wins. Raises OSError."""
    temporary = _temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def replace(path: Path, text: str) -> None:
    """Writes a file in place of the one that is there: who reads it sees the old one or the new one. Raises OSError."""
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
        if os.geteuid() == 0:  # What root writes there is the service's to read.
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
