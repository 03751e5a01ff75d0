"""Finds the folders of this program, and makes the data directory, its secret key, and the lock of `up`.

The folders are the checkout or the installed files, the data directory, and the cache. They follow the XDG Base
Directory Specification. The lock admits one `up` at a time.
"""

import errno
import fcntl
import json
import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from console.launch.processes.errors import StartRefused
from console.launch.processes.keeper import ORPHAN_GRACE_S

LOCK_NAME = "up.lock"
KEY_NAME = "secret.key"
KEY_CHARS_MIN = 32
_POLL_S = 0.1
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OURS = (KEY_NAME, LOCK_NAME, "key.ring", "audit.key", "fabric.sqlite3", "broker")
"""Names by which a directory is recognised as a data directory."""


def prepare(data: Path) -> Path:
    """Create the data directory, readable by its owner alone, and return it.

    An existing one is closed to other users, with its files. Raises Refused if it has foreign files, which stay
    untouched, and if it cannot be written.
    """
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise StartRefused(f"The data directory {data} is, or would be in, a file: {_ELSEWHERE}") from error
    except OSError as error:
        raise StartRefused(f"The data directory {data} cannot be made ({error.strerror}): {_hint(error)}") from error
    if not os.access(data, os.W_OK | os.X_OK):
        raise StartRefused(f"The data directory {data} cannot be written by this user: {_ELSEWHERE}")
    _close_to_others(data)
    return data


def _close_to_others(data: Path) -> None:
    """Correct the modes of the directory (0700) and of its files (0600). Raises Refused."""
    if data.stat().st_mode & _OTHERS:
        others = {entry.name for entry in data.iterdir()} - {"lost+found"}  # A volume of its own has this folder.
        if others and others.isdisjoint(_OURS):
            raise StartRefused(
                f"The data directory {data} is open to others and holds other things: choose one for Fabric Flow alone with "
                "--data or FABRIC_DATA, or `chmod 700` it."
            )
        _change_mode(data, data.stat().st_mode & ~_OTHERS)
    for entry in os.scandir(data):
        if entry.is_file(follow_symlinks=False):
            close_file(Path(entry.path))


def close_file(path: Path) -> None:
    """Close a file to all but its owner; a missing file is ignored. Raises Refused."""
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
        raise StartRefused(
            f"{path} is open to others and is not this user's: run as its owner, or `chmod go= {path}`."
        ) from error


def secret_key(data: Path) -> str:
    """Return the installation's secret key, generating it (mode 0600) the first time. Safe for simultaneous starts."""
    path = data / KEY_NAME
    try:
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(64))
        key = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise StartRefused(
            f"The secret key in {path} cannot be read ({error.strerror}): run as the user who owns it."
        ) from error
    if len(key) < KEY_CHARS_MIN:
        raise StartRefused(f"The secret key in {path} is damaged: delete the file; all members then sign in again.")
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
        raise StartRefused(f"{path} cannot be written ({error.strerror}): {_hint(error)}") from error


def hold(data: Path, url: str) -> TextIO:
    """Lock the data directory for this process until the returned file, and every copy of it, is closed.

    Children get a copy, so the children of a killed `up` keep the lock until they have ended, and this waits for
    them. Raises Refused if another `up` has the directory, or if the lock cannot be taken or written.
    """
    path = data / LOCK_NAME
    try:
        file = path.open("a+", encoding="utf-8")
        _take(file, data)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "url": url}))
        file.flush()
    except OSError as error:
        raise StartRefused(f"{path} cannot be written ({error.strerror}): {_hint(error)}") from error
    return file


def find_port(data: Path) -> int | None:
    """Return the port of the present or last `up` on the data directory; None if there was none."""
    try:
        with (data / LOCK_NAME).open(encoding="utf-8") as file:
            return urlsplit(_holder(file)[1]).port
    except (OSError, ValueError):
        return None


def find_up(data: Path) -> int | None:
    """Return the process number of the `up` that has the data directory; None where none runs."""
    try:
        with (data / LOCK_NAME).open(encoding="utf-8") as file:
            return None if _try(file) else _holder(file)[0] or None
    except OSError:
        return None


def _take(file: TextIO, data: Path) -> None:
    given_up_at = time.monotonic() + 2 * ORPHAN_GRACE_S
    warned = False
    while not _try(file):
        pid, other = _holder(file)
        if _alive(pid):
            raise StartRefused(f"Fabric Flow is already running on {data}: process {pid}, {other}.")
        if time.monotonic() > given_up_at:
            raise StartRefused(f"{data} is in use by another process: end it, or choose another directory with --data.")
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

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "console" / "shipped"
"""Files of the top of a checkout that a wheel brings along (pyproject.toml)."""
INSTALLED = SHIPPED.is_dir()
"""True for an installed distribution: it has no checkout, and the installer made its environment."""
SITE = SHIPPED if INSTALLED else ROOT
"""Folder of ``templates`` and ``static``."""
RUN_LOCK = SITE / "requirements.lock"
TEST_LOCK = ROOT / "requirements-test.lock"

HOST = "127.0.0.1"
PORT = 8420  # Below 32768: the machine never uses it for an outgoing connection.


def command_line() -> list[str]:
    """Return the words that a process begins with which runs one of our commands in this same environment."""
    return [sys.executable, "-m", "console"] if INSTALLED else [sys.executable, str(ROOT / "manage.py")]


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the data directory: `FABRIC_DATA`, else `$XDG_DATA_HOME/fabric-flow`. Creates nothing."""
    named = environ.get("FABRIC_DATA")
    return Path(named).expanduser().absolute() if named else _xdg("XDG_DATA_HOME", ".local/share", environ)


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return `$XDG_CACHE_HOME/fabric-flow`, where environments and tool caches are kept. Creates nothing."""
    return _xdg("XDG_CACHE_HOME", ".cache", environ)


def _xdg(variable: str, below_home: str, environ: Mapping[str, str]) -> Path:
    # The specification has a relative path ignored.
    base = Path(environ.get(variable, ""))
    if base.is_absolute():
        return base / "fabric-flow"
    try:
        return Path.home() / below_home / "fabric-flow"
    except RuntimeError:
        raise StartRefused(
            f"No home directory is known for this user: set {variable} to a folder you can write."
        ) from None
