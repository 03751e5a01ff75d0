"""`manage.py test`: every check there is, in order, each with its result; exit code 1 if any failed.

Import contracts, ruff, mypy, pytest. Tool caches go to the user's cache folder, so a read-only checkout will do.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree  # noqa: ICN001 - A name that says what it is.

from console.launch.paths import ROOT, cache_dir

# What an operator's shell may hold and a test must not touch.
_REAL_STORES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL", "FABRIC_DATA", "DJANGO_SETTINGS_MODULE")

_LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main()"


@dataclass(frozen=True)
class Result:
    """How one check went."""

    name: str
    passed: bool
    seconds: float


@dataclass(frozen=True)
class Counts:
    """What pytest reports: numbers of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def run(pytest_arguments: Sequence[str]) -> int:
    """Run everything; `pytest_arguments` are handed to pytest. Ends with a line `N passed, N failed, N skipped`."""
    with tempfile.TemporaryDirectory(prefix="fabric-test-") as scratch:
        environ = _environ(Path(scratch))
        results = [_servers(environ)]
        results += [_check(name, command, environ) for name, command in _checks()]
        report = Path(scratch) / "junit.xml"
        results.append(_check("pytest", _pytest(report, pytest_arguments), environ))
        counts = read_counts(report)
    print()
    for result in results:
        print(f"{'ok    ' if result.passed else 'FAILED'} {result.name} ({result.seconds:.0f} s)")
    failed_checks = sum(not result.passed for result in results if result.name != "pytest")
    failed = counts.failed + failed_checks
    if not results[-1].passed and not counts.failed:
        failed += 1  # pytest itself did not come to an end, or found nothing to run.
    print(f"{counts.passed} passed, {failed} failed, {counts.skipped} skipped")
    return 1 if failed else 0


def read_counts(report: Path) -> Counts:
    """Read the numbers of tests from a JUnit report; all zero when pytest did not get to write one."""
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314 - Our own pytest wrote it.
    except (FileNotFoundError, ElementTree.ParseError):
        return Counts()
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Counts(max(0, total - failed - skipped), failed, skipped)


def _environ(scratch: Path) -> dict[str, str]:
    caches = cache_dir() / "checks"
    environ = {name: value for name, value in os.environ.items() if name not in _REAL_STORES}
    return environ | {
        "FABRIC_DATA": str(scratch / "data"),
        "RUFF_CACHE_DIR": str(caches / "ruff"),
        "MYPY_CACHE_DIR": str(caches / "mypy"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(caches / "hypothesis"),
    }


def _checks() -> list[tuple[str, list[str]]]:
    python = sys.executable
    contracts = [python, "-c", _LINT_IMPORTS, "--no-logo", "--cache-dir", str(cache_dir() / "checks" / "imports")]
    return [
        ("import contracts", contracts),
        ("ruff check", [python, "-m", "ruff", "check", "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "--output-format", "concise", "."]),
        ("mypy", [python, "-m", "mypy"]),
    ]


def _pytest(report: Path, arguments: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache_dir() / 'checks' / 'pytest'}", "-r", "fEs"]
    command += [f"--junit-xml={report}", "-o", "junit_family=xunit2"]
    if not any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
        command += ["-n", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile"]
    return [*command, *arguments]


def _check(name: str, command: Sequence[str], environ: Mapping[str, str]) -> Result:
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    code = subprocess.run(command, check=False, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL).returncode
    return Result(name, code == 0, time.monotonic() - started)


def _servers(environ: dict[str, str]) -> Result:
    """Look for the servers that some tests need and put the addresses found into `environ`."""
    started = time.monotonic()
    looked = subprocess.run(
        [sys.executable, "-m", "tests.servers"], check=True, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
    )
    answer = json.loads(looked.stdout)
    environ.update(answer["found"])
    print("== servers")
    for variable, address in answer["found"].items():
        print(f"{variable}={address}")
    for sentence in answer["missing"]:
        print(f"LEFT OUT: {sentence}")
    nothing_may_be_left_out = os.environ.get("CI", "").lower() in ("true", "1")
    return Result("servers", not (answer["missing"] and nothing_may_be_left_out), time.monotonic() - started)
