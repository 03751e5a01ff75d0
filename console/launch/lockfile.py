"""Reads a lock (pip's requirements format with exact versions) and compares it with what is installed."""

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+))?")


def pins(lock: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (name, version, marker) of every line of the lock that names a package; the marker may be empty."""
    for line in lock.read_text(encoding="utf-8").splitlines():
        if found := _PIN.match(line):
            yield found["name"], found["version"], (found["marker"] or "").strip()


def satisfied(lock: Path, folder: str | None = None) -> bool:
    """Say whether the running interpreter, or a `site-packages` folder for it, has exactly the versions of the lock.

    A package with a marker is not looked at: the installer has judged the marker (PEP 508).
    """
    path = sys.path if folder is None else [folder]
    for name, version, marker in pins(lock):
        found = next(iter(metadata.distributions(name=name, path=path)), None)
        if not marker and (found is None or _version(found) != version):
            return False
    return True


def _version(found: metadata.Distribution) -> str | None:
    try:
        return found.version
    except (KeyError, FileNotFoundError):  # Newer Pythons say so of a half-removed package, older ones give None.
        return None
