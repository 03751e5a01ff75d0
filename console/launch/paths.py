"""Where things are: the checkout or what was installed, the data directory, the cache. Follows the XDG Base Directory Specification."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from console.launch.errors import Refused

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "console" / "shipped"
"""What a wheel brings along of what stands at the top of a checkout (pyproject.toml)."""
INSTALLED = SHIPPED.is_dir()
"""Whether this is an installed distribution: no checkout, and its environment was made by who installed it."""
SITE = SHIPPED if INSTALLED else ROOT
"""Where ``templates`` and ``static`` are."""
PROGRAM = "fabricflow" if INSTALLED else "manage.py"
RUN_LOCK = SITE / "requirements.lock"
TEST_LOCK = ROOT / "requirements-test.lock"

HOST = "127.0.0.1"
PORT = 8420  # Below 32768: an outgoing connection of the same machine is never given this one.


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
        raise Refused(f"No home directory is known for this user: set {variable} to a folder you can write.") from None
