"""The data directory: its making, its secret key, and the lock that lets one `up` at a time have it."""

import errno
import fcntl
import json
import os
import secrets
import stat
import tempfile
import time
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from console.launch.child import ORPHAN_GRACE_S
from console.launch.errors import Refused

LOCK_NAME = "up.lock"
KEY_NAME = "secret.key"
KEY_CHARS_MIN = 32
_POLL_S = 0.1
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OURS = (KEY_NAME, LOCK_NAME, "key.ring", "audit.key", "fabric.sqlite3", "broker")
"""By any of these a directory is known as a data directory."""


def prepare(data: Path) -> Path:
    """Create the data directory, readable by its owner alone, and return it.

    One that is there already, and open to others, is closed to them, and so is each file in it; one that holds what is not
    Fabric Flow's is left as it is. Raises Refused for that one, and when it cannot be written.
    """
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Refused(f"The data directory {data} is, or would be in, a file: {_ELSEWHERE}") from error
    except OSError as error:
        raise Refused(f"The data directory {data} cannot be made ({error.strerror}): {_hint(error)}") from error
    if not os.access(data, os.W_OK | os.X_OK):
        raise Refused(f"The data directory {data} cannot be written by this user: {_ELSEWHERE}")
    _close_to_others(data)
    return data


def _close_to_others(data: Path) -> None:
    """Mend the modes of the directory (0700) and of the files in it (0600). Raises Refused."""
    if data.stat().st_mode & _OTHERS:
        others = {entry.name for entry in data.iterdir()} - {"lost+found"}  # Which a volume of its own has.
        if others and others.isdisjoint(_OURS):
            raise Refused(
                f"The data directory {data} is open to others and holds other things: choose one for Fabric Flow alone with "
                "--data or FABRIC_DATA, or `chmod 700` it."
            )
        _change_mode(data, data.stat().st_mode & ~_OTHERS)
    for entry in os.scandir(data):
        if entry.is_file(follow_symlinks=False):
            close_file(Path(entry.path))


def close_file(path: Path) -> None:
    """Close a file to all but its owner; one that is not there is no matter. Raises Refused."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return  # Such as a write-ahead log that was folded in meanwhile.
    if mode & _OTHERS:
        _change_mode(path, mode & ~_OTHERS)


def _change_mode(path: Path, mode: int) -> None:
    try:
        path.chmod(stat.S_IMODE(mode))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Refused(
            f"{path} is open to others and is not this user's: run as its owner, or `chmod go= {path}`."
        ) from error


def secret_key(data: Path) -> str:
    """Return the installation's secret key, generating it (mode 0600) the first time. Safe when many start at once."""
    path = data / KEY_NAME
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(64))
        key = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise Refused(
            f"The secret key in {path} cannot be read ({error.strerror}): run as the user who owns it."
        ) from error
    if len(key) < KEY_CHARS_MIN:
        raise Refused(f"The secret key in {path} is damaged: delete the file; everybody will have to log in again.")
    return key


def _write_once(path: Path, text: str) -> None:
    # A temporary file (0600 from the start) linked into place: whole or absent, and the first writer wins.
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            os.link(temporary, path)
        finally:
            Path(temporary).unlink()
    except FileExistsError:
        pass
    except OSError as error:
        raise Refused(f"{path} cannot be written ({error.strerror}): {_hint(error)}") from error


def hold(data: Path, url: str) -> TextIO:
    """Take the data directory for this process until the returned file, and every copy of it, is closed.

    Children are given a copy, so what a killed `up` left running still holds the lock until it has ended; that is
    waited for. Raises Refused when another `up` has the directory, and when the lock cannot be had or written.
    """
    path = data / LOCK_NAME
    try:
        file = path.open("a+", encoding="utf-8")
        _take(file, data)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "url": url}))
        file.flush()
    except OSError as error:
        raise Refused(f"{path} cannot be written ({error.strerror}): {_hint(error)}") from error
    return file


def port_of(data: Path) -> int | None:
    """Return the port of the `up` that runs on the data directory, or was the last to; None: none ever did."""
    try:
        with (data / LOCK_NAME).open(encoding="utf-8") as file:
            return urlsplit(_holder(file)[1]).port
    except (OSError, ValueError):
        return None


def _take(file: TextIO, data: Path) -> None:
    given_up_at = time.monotonic() + 2 * ORPHAN_GRACE_S
    warned = False
    while not _try(file):
        pid, other = _holder(file)
        if _alive(pid):
            raise Refused(f"Fabric Flow is already running on {data}: process {pid}, {other}.")
        if time.monotonic() > given_up_at:
            raise Refused(f"{data} is in use by another process: end it, or choose another directory with --data.")
        if not warned:
            print("Waiting for what a killed `up` left running on this data directory to end.", flush=True)
            warned = True
        time.sleep(_POLL_S)


def _try(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: TextIO) -> tuple[int, str]:
    file.seek(0)
    try:
        said = json.load(file)
        return int(said["pid"]), str(said["url"])
    except (ValueError, KeyError, TypeError):
        return 0, ""  # Caught between taking the lock and writing the name; the next look will find it.


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on that disk, or choose another directory with --data or FABRIC_DATA."
    return _ELSEWHERE


_ELSEWHERE = "choose one that you can write, with --data or FABRIC_DATA."
