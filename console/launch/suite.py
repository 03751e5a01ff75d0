"""Runs `manage.py test`: pytest with every check, in an environment and in folders of its own.

Import contracts, ruff and mypy are tests too (`tests/test_checks.py`); `tests/sets.py` defines the sets of tests.
Tool caches and Python's bytecode go to the user's cache folder, so a read-only checkout is enough.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from console.launch import dependencies
from console.launch.processes import commands as kept
from console.launch.processes.data_directory import ROOT, cache_dir
from console.launch.processes.errors import StartRefused
from console.launch.variables.table import SETTINGS
from fabric.program.name import CHECKOUT

_MEMORY = Path("/dev/shm")  # noqa: S108 - A file system in memory, on Linux; the name of the folder in it cannot be guessed.
_ROOM = 4 * 2**30
"""Bytes that have to be free in memory."""


def parse(argv: Sequence[str]) -> list[str]:
    """Return the arguments for pytest: all of them, without a leading `--`."""
    if argv and argv[0] in ("-h", "--help"):
        argparse.ArgumentParser(
            prog=f"{CHECKOUT} test",
            usage=f"{CHECKOUT} test [--fast | --nightly] [-- PYTEST ARGUMENTS]",
            description="Run every check with pytest: import contracts, ruff, mypy, the tests, also those in headless Chromium.",
            epilog="--fast: what needs no server and does not wait. --nightly: every test there is. "
            "With CI=true nothing may be left out: a missing server or browser is a failure.",
        ).parse_args(argv)
    at = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:at], *argv[at + 1 :]]


def run(pytest_arguments: Sequence[str]) -> int:
    """Run pytest with ``pytest_arguments`` and return its exit code."""
    # A short name, because it holds the tests' sockets, and the address of a socket has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ff-", dir=_fast()) as scratch:
        os.chmod(scratch, 0o711)  # noqa: S103, PTH101 - Servers that tests start are other users', and have folders of their own in there.
        environ = _environ(Path(scratch)) | _peers()
        if not (pytest_arguments or _is_compiled()):
            _compile_tests(Path(scratch), environ)
        # Under a keeper: all programs that the tests started end with this process.
        return kept.run(_command(Path(scratch), pytest_arguments), cwd=ROOT, environ=environ, capture=False).returncode


def _peers() -> dict[str, str]:
    """Return the variables that name the peers; none if they cannot be installed, which the tests then report."""
    try:
        return dependencies.ensure_peers()
    except StartRefused as refused:
        print(refused.sentence, file=sys.stderr, flush=True)
        return {}


def _fast() -> Path | None:
    """Return the tests' folder in memory if it has room, else None. On a disk tests wait for tens of thousands of
    flushes.
    """
    try:
        room = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    return _MEMORY if room >= _ROOM and os.access(_MEMORY, os.W_OK) else None


def _environ(scratch: Path) -> dict[str, str]:
    caches = cache_dir() / "checks"
    # A test neither sees nor touches the settings of an operator's shell. Compiled files are kept: the tests start
    # hundreds of processes, and each would compile all of Django again (1.5 s of processor time).
    environ = {name: value for name, value in os.environ.items() if name not in {*SETTINGS, "PYTHONDONTWRITEBYTECODE"}}
    return environ | {
        "FABRIC_DATA": str(scratch / "data"),
        "TMPDIR": str(scratch),
        "PYTHONPYCACHEPREFIX": str(_bytecode()),
        "RUFF_CACHE_DIR": str(caches / "ruff"),
        "MYPY_CACHE_DIR": str(caches / "mypy" / _digest_models()),
        "IMPORT_LINTER_CACHE_DIR": str(caches / "imports"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(caches / "hypothesis"),
    }


def _digest_models() -> str:
    """Return a digest of the names of the modules of models. mypy's Django plugin fails on a moved one."""
    names = sorted(
        str(path.relative_to(ROOT)) for top in ("fabric", "simulator") for path in (ROOT / top).rglob("models/**/*.py")
    )
    return sha256("\n".join(names).encode()).hexdigest()[:16]


def _bytecode() -> Path:
    return cache_dir() / "checks" / "bytecode"


def _is_compiled() -> bool:
    """Return True if pytest compiled the tests of this checkout before."""
    folder = _bytecode() / (ROOT / "tests").relative_to(ROOT.anchor)
    return any(folder.glob("*-pytest-*.pyc"))


def _compile_tests(scratch: Path, environ: Mapping[str, str]) -> None:
    """Compile each test once, in two processes. Else all processes of pytest would do so."""
    tests = ROOT / "tests"
    halves = ["tests/fabric"], [str(path) for path in tests.iterdir() if path != tests / "fabric" and _has_tests(path)]
    commands = [
        kept.KeptCommand(
            [*_collection(scratch), *half],
            cwd=ROOT,
            environ=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for half in halves
    ]
    try:
        for command in commands:
            command.process.wait()
    finally:
        for command in commands:
            command.close()


def _has_tests(path: Path) -> bool:
    return path.is_dir() or path.match("test_*.py")


def _collection(scratch: Path) -> list[str]:
    """Return the command that imports tests, which compiles them."""
    return [sys.executable, "-m", "pytest", "-o", f"cache_dir={scratch / 'pytest'}", "-qq", "--collect-only"]


def _command(scratch: Path, arguments: Sequence[str]) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        f"cache_dir={scratch / 'pytest'}",
        "-r",
        "fEs",
        "--durations",
        "25",
    ]
    if not any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
        # More than there are cores: half of them take tests that mostly wait (tests/lanes.py).
        processes = str(min(3 * (os.cpu_count() or 1) - 1, 5))
        command += ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder"]
    return [*command, *arguments]
