"""Makes the environment that a lock describes, once, and finds it again.

An environment's name holds the lock's hash and the interpreter's ABI, so a changed lock or another Python is another
environment and nothing is ever upgraded in place. It is built under a temporary name and renamed when it is whole:
a name that exists is complete.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console.launch import lockfile
from console.launch.errors import Refused
from console.launch.paths import cache_dir


def ensure(lock: Path) -> Path:
    """Return an interpreter that has exactly what the lock names, building its environment if there is none yet.

    Raises Refused when there is neither `uv` nor `venv`, when the cache cannot be written, and when installing fails.
    """
    home = cache_dir() / "environments" / name_of(lock)
    running = Path(sys.executable)
    if Path(sys.prefix) == home or lockfile.satisfied(lock):
        return running
    if not _usable(home):
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with _alone(home):
                if not _usable(home):  # Somebody else may have built it while this process waited.
                    _build(home, lock)
        except OSError as error:
            raise Refused(
                f"The environment cannot be written to {home.parent} ({error.strerror}): "
                "set XDG_CACHE_HOME to a folder you can write."
            ) from error
    return home / "bin" / "python"


def name_of(lock: Path, abi: str | None = None) -> str:
    """Return the folder name of the environment for a lock: the lock's name, the ABI, and the hash of its content."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return f"{lock.stem}-{abi or sysconfig.get_config_var('SOABI') or sys.implementation.cache_tag}-{digest}"


def _usable(home: Path) -> bool:
    # False as well when the Python it was built from has been removed: its link then leads nowhere.
    return os.access(home / "bin" / "python", os.X_OK)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    with home.with_name(home.name + ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Another process is making the environment; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(home: Path, lock: Path) -> None:
    _say(f"Making the environment for {lock.name} in {home.parent} (once; it takes a minute or two).")
    building = home.with_name(home.name + ".building")
    for leftover in (building, home):
        shutil.rmtree(leftover, ignore_errors=True)
    for recipe in _recipes(building, lock):
        if all(subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 0 for command in recipe):
            _point_scripts_at(building, home)
            building.rename(home)
            return
        shutil.rmtree(building, ignore_errors=True)
    raise Refused(
        f"The dependencies in {lock.name} could not be installed: the messages above say why; "
        "check that the package index can be reached, then run the command again."
    )


def _recipes(building: Path, lock: Path) -> list[list[list[str]]]:
    """Return the ways of building, best first; each is a list of commands."""
    python = str(building / "bin" / "python")
    exact = ["--require-hashes", "--no-deps", "-r", str(lock)]
    recipes = []
    if uv := shutil.which("uv"):
        recipes.append(
            [
                [uv, "venv", "--quiet", "--python", sys.executable, str(building)],
                [uv, "pip", "install", "--quiet", "--python", python, *exact],
            ]
        )
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        recipes.append([[sys.executable, "-m", "venv", str(building)], [*pip, *exact]])
    if not recipes:
        raise Refused(
            "This Python has neither `uv` nor `venv` to install the dependencies with: "
            f"run `apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv`, then this command again."
        )
    return recipes


def _point_scripts_at(building: Path, home: Path) -> None:
    """Rewrite the first lines of the environment's scripts, which name the interpreter by its temporary path."""
    for script in (building / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if content.startswith(b"#!") or script.name.startswith("activate"):
            script.write_bytes(content.replace(str(building).encode(), str(home).encode()))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
