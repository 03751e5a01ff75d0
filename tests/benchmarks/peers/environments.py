"""Environments of the engines that ours is measured beside: made once, in the cache, from exact versions. PeerMissing with one sentence where that fails."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
LAST_WORDS = 300


class PeerMissing(RuntimeError):
    """An engine's environment could not be made. The message says why and what to do."""


def ensure(name: str, folder: Path = HERE) -> Path:
    """The interpreter that has what ``NAME.txt`` in the folder names, with its environment made if there is none yet."""
    wanted = folder / f"{name}.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fabric-flow" / "environments"
    home = cache / f"peer-{name}-{sysconfig.get_config_var('SOABI')}-{digest}"
    if not home.exists():
        building = home.with_name(f"{home.name}.building-{os.getpid()}")
        try:
            _build(building, wanted)
            building.rename(home)  # A name that exists is complete.
        except OSError as error:
            raise PeerMissing(
                f"{home} cannot be written ({error.strerror}): set XDG_CACHE_HOME to a folder that can"
            ) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return home / "bin" / "python"


def _build(home: Path, wanted: Path) -> None:
    python = str(home / "bin" / "python")
    if uv := shutil.which("uv"):
        commands = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
            [uv, "pip", "install", "--quiet", "--no-deps", "--python", python, "-r", str(wanted)],
        ]
    else:
        commands = [
            [sys.executable, "-m", "venv", str(home)],
            [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "-r", str(wanted)],
        ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join((done.stdout + done.stderr).split())[-LAST_WORDS:]
            raise PeerMissing(
                f"what {wanted.name} names could not be installed ({said}): see that a package index can be reached, or leave --peers out"
            )
