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
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from console.launch import kept, lockfile
from console.launch.errors import Refused
from console.launch.paths import cache_dir
from console.variables import without_secrets

ROOM = 1_200 * 1024 * 1024
"""Bytes that the largest environment takes, with what is unpacked on the way; asked about only when a build has failed."""


def ensure(lock: Path) -> Path:
    """Return an interpreter that has exactly what the lock names, building its environment if there is none yet.

    Raises Refused when there is neither `uv` nor `venv`, when the cache cannot be written, and when installing fails.
    """
    home = home_of(lock)
    running = Path(sys.executable)
    if Path(sys.prefix) == home or lockfile.satisfied(lock):
        return running
    if not _usable(home, lock):
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with alone(home) as held:
                if not _usable(home, lock):  # Somebody else may have built it while this process waited.
                    _build(home, lock, held.fileno())
        except OSError as error:
            raise Refused(
                f"The environment cannot be written to {home.parent} ({error.strerror}): "
                "set XDG_CACHE_HOME to a folder that you can write and that has room."
            ) from error
    return home / "bin" / "python"


def find(lock: Path) -> Path | None:
    """Return the interpreter of a lock's environment if it has been built and is whole. Builds nothing."""
    home = home_of(lock)
    return home / "bin" / "python" if _usable(home, lock) else None


def home_of(lock: Path) -> Path:
    """Return the folder of the environment for a lock, which need not exist."""
    return cache_dir() / "environments" / name_of(lock)


def name_of(lock: Path, abi: str | None = None) -> str:
    """Return the folder name of the environment for a lock: the lock's name, the ABI, and the hash of its content."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return f"{lock.stem}-{abi or sysconfig.get_config_var('SOABI') or sys.implementation.cache_tag}-{digest}"


def _usable(home: Path, lock: Path) -> bool:
    # False when the Python it was built from has been removed, its link then leads nowhere, and when something that
    # cleans caches has taken packages out of it.
    if not os.access(home / "bin" / "python", os.X_OK):
        return False
    return lockfile.satisfied(lock, sysconfig.get_path("purelib", "venv", {"base": str(home)}))


@contextmanager
def alone(home: Path) -> Iterator[TextIO]:
    """Hold the lock of a folder that is to be built; wait while another process holds it. Yields the locked file."""
    with home.with_name(home.name + ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is making the environment; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _build(home: Path, lock: Path, held: int) -> None:
    """Build into a temporary name, then rename. `held` is the lock, which what a killed builder started holds too."""
    building = home.with_name(home.name + ".building")
    recipes = _recipes(building, lock)
    say(f"Making the environment for {lock.name} in {home.parent} (once; it takes a minute or two).")
    for leftover in (building, home):
        shutil.rmtree(leftover, ignore_errors=True)
    said: dict[str, str] = {}
    for recipe in recipes:
        failed = _follow(recipe, held)
        if failed is None:
            _point_scripts_at(building, home)
            building.rename(home)
            return
        # Of interest only if nothing else works either; of each tool, its last words.
        said[recipe[0][0]] = failed
        shutil.rmtree(building, ignore_errors=True)
    for words in said.values():
        say(words.rstrip())
    if shutil.disk_usage(home.parent).free < ROOM:
        raise Refused(
            f"The dependencies in {lock.name} do not fit on the disk of {home.parent}: make room for "
            f"{ROOM // 2**20} MB there, or set XDG_CACHE_HOME to a folder that has it."
        )
    raise Refused(
        f"The dependencies in {lock.name} could not be installed: the messages above say why; "
        "check that the package index can be reached, then run the command again."
    )


def _follow(recipe: Sequence[Sequence[str]], held: int) -> str | None:
    """Run the commands of a recipe in turn; return None, or what was said by the one that failed."""
    for command in recipe:
        # What is installed may run code of its own.
        done = kept.run(command, shared_fds=[held], capture=True, environ=without_secrets())
        if done.returncode:
            return done.stdout + done.stderr
    return None


def _recipes(building: Path, lock: Path) -> list[list[list[str]]]:
    """Return the ways of building, best first."""
    python = str(building / "bin" / "python")
    exact = ["--require-hashes", "--no-deps", "-r", str(lock)]
    recipes = []
    if uv := shutil.which("uv"):
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(building)]
        install = [uv, "pip", "install", "--quiet", "--python", python, *exact]
        # Exact versions with their hashes: what uv has kept is as good as what the index has, and needs no network.
        recipes += [[make, [*install, "--offline"]], [make, install]]
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        make = [sys.executable, "-m", "venv", str(building)]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        recipes.append([make, [*pip, *exact]])
    if not recipes:
        raise Refused(
            "This Python has neither `uv` nor `venv` to install the dependencies with: run "
            f"`apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv` as root, then this command again."
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


def say(sentence: str) -> None:
    """Print a sentence to standard error for the person who waits."""
    print(sentence, file=sys.stderr, flush=True)
