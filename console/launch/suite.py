"""`manage.py test`: every check there is, in order, each with its result; exit code 1 if any failed.

Import contracts, ruff, pytest, and, counted apart, the tests in a real browser; mypy beside them. Tool caches, and
what Python compiles, go to the user's cache folder, so a read-only checkout will do.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree  # noqa: ICN001 - A name that says what it is.

from console.launch import kept, peers
from console.launch.errors import Refused
from console.launch.paths import ROOT, cache_dir
from console.variables import SETTINGS

_LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main()"
_IN_A_BROWSER = "tests.e2e."
_SLOWEST = 25
_UNSTEADY_AT_MOST = 3
"""Failed tests that are run a second time, alone. More than these are no accident of what ran beside them."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - A file system in memory, on Linux; the folder in it has a name that nobody can guess.
_ROOM = 4 * 2**30
"""Bytes that have to be free there."""
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Counts:
    """What pytest reports: numbers of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Result:
    """How one part went."""

    name: str
    passed: bool
    seconds: float
    counts: Counts | None = None
    """For the parts that consist of tests."""
    code: int = 0
    """The command's exit code."""

    def __str__(self) -> str:
        counted = "" if self.counts is None else f"{self.counts}; "
        return f"{'ok    ' if self.passed else 'FAILED'} {self.name} ({counted}{self.seconds:.0f} s)"


class Beside(threading.Thread):
    """A check that runs while others do, of one core, for which they need not wait. What it said is printed at its end."""

    def __init__(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        # A daemon: when this process is interrupted, the command ends with it and nothing waits for that.
        super().__init__(name=name, daemon=True)
        self._command, self._environ = command, environ
        self._said = ""
        self._result = Result(name, passed=False, seconds=0.0)

    def run(self) -> None:
        """Run the command, captured."""
        started = time.monotonic()
        done = kept.run(self._command, cwd=ROOT, environ=self._environ, capture=True)
        self._said = done.stdout + done.stderr
        passed = done.returncode == 0
        self._result = replace(self._result, passed=passed, seconds=time.monotonic() - started, code=done.returncode)

    def result(self) -> Result:
        """Wait for the end, print what was said, and return how it went."""
        self.join()
        print(f"\n== {self.name}\n{self._said}", end="", flush=True)
        return self._result


@dataclass
class Report:
    """What pytest wrote down about one session."""

    tests: Counts = Counts()
    in_a_browser: Counts = Counts()
    in_a_browser_s: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)
    """Numbers of skipped tests, by the reason given."""
    failures: list[str] = field(default_factory=list)
    """Names of failed tests, each with where it is."""
    unsteady: list[str] = field(default_factory=list)
    """Names of tests that failed beside others and passed alone; counted as passed."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long the tests of each file took, beside others."""

    @property
    def slowest(self) -> str:
        """The files that took longest, in words."""
        longest = sorted(self.seconds.items(), key=lambda one: -one[1])[:_SLOWEST]
        return ", ".join(f"{name.removeprefix('tests.')} {seconds:.0f} s" for name, seconds in longest)

    @property
    def total(self) -> Counts:
        """All tests, in a browser or not."""
        return self.tests + self.in_a_browser

    def excuse(self) -> None:
        """Count what failed as passed, by name: it passed when it ran alone."""
        self.unsteady, self.failures = self.failures, []
        self.tests, self.in_a_browser = (
            Counts(each.passed + each.failed, 0, each.skipped) for each in (self.tests, self.in_a_browser)
        )


def parse(argv: Sequence[str]) -> list[str]:
    """Return what is meant for pytest: all of it, without the `--` that may stand before it."""
    if argv and argv[0] in ("-h", "--help"):
        argparse.ArgumentParser(
            prog="manage.py test",
            usage="manage.py test [-- PYTEST ARGUMENTS]",
            description="Run every check: import contracts, ruff, mypy, pytest, and the tests in headless Chromium.",
            epilog="With CI=true nothing may be left out: a missing server or browser is a failure.",
        ).parse_args(argv)
    at = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:at], *argv[at + 1 :]]


def run(pytest_arguments: Sequence[str]) -> int:
    """Run everything; `pytest_arguments` are handed to pytest. Ends with a line `N passed, N failed, N skipped`."""
    # A short name: what the tests keep lies in there, and the address of a socket has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ff-", dir=_fast()) as scratch:
        os.chmod(scratch, 0o711)  # noqa: S103, PTH101 - Servers that tests start are other users', and have folders of their own in there.
        environ = _environ(Path(scratch))
        servers, missing = _servers(environ)
        beside = Beside("mypy", [sys.executable, "-m", "mypy"], environ)
        beside.start()
        results = [servers, *(_check(name, command, environ) for name, command in _checks())]
        if not (pytest_arguments or _compiled()):
            results.append(_check("collection", _collection(Path(scratch)), environ, quiet=True))
        ran, report = _pytest(Path(scratch), pytest_arguments, environ)
        results.append(beside.result())
    results += _tests(ran, report)
    print()
    for result in results:
        print(result)
    for sentence in [*missing, *_reasons(report, missing)]:
        print(f"LEFT OUT: {sentence}")
    if report.slowest:
        print(f"SLOWEST: {report.slowest}")
    for name in report.unsteady:
        print(f"UNSTEADY: {name} failed beside other tests and passed alone: it has a race, or too short a time limit.")
    if missing and nothing_may_be_left_out():
        print(f"FAILED: with CI=true nothing may be left out, and {len(missing)} of the above were.")
    failed = sum((result.counts.failed if result.counts else 0) or 1 for result in results if not result.passed)
    total = report.total
    print(Counts(total.passed, failed, total.skipped), flush=True)
    return 1 if failed else 0


def nothing_may_be_left_out() -> bool:
    """Say whether `CI` is set, where a check that is left out is a failed one."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def read_report(path: Path) -> Report:
    """Read a JUnit report; one without any tests when pytest did not get to write it."""
    report = Report()
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")  # noqa: S314 - Our own pytest wrote it.
    except (FileNotFoundError, ElementTree.ParseError):
        return report
    seen: dict[tuple[str, str], str] = {}
    for case in cases:
        name = (case.get("classname", ""), case.get("name", ""))
        report.seconds[name[0]] = report.seconds.get(name[0], 0.0) + float(case.get("time", 0))
        outcomes = {child.tag for child in case}
        # A test that fails and whose tear-down fails as well is written down twice.
        outcome = "failed" if outcomes & {"failure", "error"} else "skipped" if "skipped" in outcomes else "passed"
        if seen.get(name) != "failed":
            seen[name] = outcome
        if f"{name[0]}.".startswith(_IN_A_BROWSER):
            report.in_a_browser_s += float(case.get("time", 0))
        if outcome == "skipped":
            reason = next((child.get("message", "") for child in case if child.tag == "skipped"), "")
            report.skipped[reason] = report.skipped.get(reason, 0) + 1
    for (folder, test), outcome in seen.items():
        if outcome == "failed":
            report.failures.append(f"{folder}::{test}")
        one = Counts(**{outcome: 1})
        if f"{folder}.".startswith(_IN_A_BROWSER):
            report.in_a_browser += one
        else:
            report.tests += one
    return report


def _tests(ran: Result, report: Report) -> list[Result]:
    """Return pytest's result without the browser's tests, and that of those if there were any."""
    # pytest can fail without a failed test: it was interrupted, or found nothing to run.
    unexplained = not ran.passed and not report.in_a_browser.failed
    passed = not report.tests.failed and not unexplained
    results = [Result("pytest", passed, ran.seconds, report.tests)]
    if report.in_a_browser != Counts():
        results.append(
            Result("browser tests", not report.in_a_browser.failed, report.in_a_browser_s, report.in_a_browser)
        )
    return results


def _reasons(report: Report, missing: Sequence[str]) -> list[str]:
    return [f"{count} tests: {reason}" for reason, count in report.skipped.items() if reason not in missing]


def _fast() -> Path | None:
    """Where the tests keep their files: in memory, where there is room. On a disk they would wait for tens of thousands of flushes."""
    try:
        room = shutil.disk_usage(_MEMORY).free
    except OSError:
        return None
    return _MEMORY if room >= _ROOM and os.access(_MEMORY, os.W_OK) else None


def _environ(scratch: Path) -> dict[str, str]:
    caches = cache_dir() / "checks"
    # What an operator's shell may hold and a test must neither touch nor be changed by; and a wish not to keep what was
    # compiled: the tests start hundreds of processes, and each would compile all of Django again (1.5 s of processor time).
    environ = {name: value for name, value in os.environ.items() if name not in {*SETTINGS, "PYTHONDONTWRITEBYTECODE"}}
    return environ | {
        "FABRIC_DATA": str(scratch / "data"),
        "TMPDIR": str(scratch),
        "PYTHONPYCACHEPREFIX": str(_bytecode()),
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
    ]


def _bytecode() -> Path:
    return cache_dir() / "checks" / "bytecode"


def _compiled() -> bool:
    """Say whether pytest compiled the tests of this checkout before, in its own way."""
    folder = _bytecode() / (ROOT / "tests").relative_to(ROOT.anchor)
    return any(folder.glob("*-pytest-*.pyc"))


def _collection(scratch: Path) -> list[str]:
    """Return what imports every test once, which compiles it: the processes of pytest would all do so at the same time."""
    return [sys.executable, "-m", "pytest", "-o", f"cache_dir={scratch / 'pytest'}", "-qq", "--collect-only"]


def _pytest(scratch: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[Result, Report]:
    """Run the tests; a few that failed once more, alone, so that a busy machine is told from a fault. Both are said."""
    first = scratch / "junit.xml"
    ran = _check("pytest", _command(first, scratch, _spread(arguments)), environ)
    report = read_report(first)
    # Any other code than 1 says that it did not come to its end, and a first failure may be told to end it: the rest is not known then.
    to_its_end = ran.code == 1 and not any(one.startswith(("-x", "--exitfirst", "--maxfail")) for one in arguments)
    if not to_its_end or not 0 < len(report.failures) <= _UNSTEADY_AT_MOST:
        return ran, report
    second = scratch / "junit-alone.xml"
    alone = ["-n", "0", "--last-failed", "--last-failed-no-failures", "none"]
    again = _check("pytest, what failed, alone", _command(second, scratch, [*arguments, *alone]), environ)
    if again.passed and read_report(second).total.passed == len(report.failures):
        report.excuse()
        ran = replace(ran, passed=True, seconds=ran.seconds + again.seconds)
    return ran, report


def _command(report: Path, scratch: Path, arguments: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={scratch / 'pytest'}", "-r", "fEs"]
    return [*command, f"--junit-xml={report}", "-o", "junit_family=xunit2", *arguments]


def _spread(arguments: Sequence[str]) -> list[str]:
    if not any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
        # More than there are cores: half of them take what mostly waits, for leases, clocks and servers (tests/lanes.py).
        processes = str(min(3 * (os.cpu_count() or 1) - 1, 5))
        return ["-n", processes, "--dist", "loadfile", "--no-loadscope-reorder", *arguments]
    return list(arguments)


def _check(name: str, command: Sequence[str], environ: Mapping[str, str], *, quiet: bool = False) -> Result:
    """Run a command; what it says is shown, and where it is `quiet` only if it fails."""
    print(f"\n== {name}", flush=True)
    started = time.monotonic()
    # Under a keeper: whatever the tests started ends with this process.
    done = kept.run(command, cwd=ROOT, environ=environ, capture=quiet)
    if done.returncode:
        print(done.stdout + done.stderr, end="", flush=True)
    return Result(name, done.returncode == 0, time.monotonic() - started, code=done.returncode)


def _servers(environ: dict[str, str]) -> tuple[Result, list[str]]:
    """Look for what some tests need, put the addresses found into `environ`, and return what is missing."""
    started = time.monotonic()
    try:
        environ.update(peers.ensure())
    except Refused as refused:  # What is missing is then said below.
        print(refused.sentence, file=sys.stderr, flush=True)
    looked = kept.run([sys.executable, "-m", "tests.servers"], cwd=ROOT, environ=environ, capture=True)
    if looked.returncode:
        raise Refused(f"The servers for the tests could not be looked for: {looked.stderr.strip()[-500:]}")
    answer = json.loads(looked.stdout)
    found, missing = dict(answer["found"]), list(answer["missing"])
    named = environ.get("TEST_CHROMIUM")
    if chromium := next(filter(None, map(shutil.which, [named] if named else _CHROMIUM)), None):
        found["TEST_CHROMIUM"] = chromium
    elif named:
        missing.append(f"every test in a browser: TEST_CHROMIUM is {named}, which cannot be run")
    else:
        missing.append("every test in a browser: no chromium is installed (TEST_CHROMIUM names one)")
    environ.update(found)
    print("== servers, browser and peers")
    for variable, address in found.items():
        print(f"{variable}={address}")
    for sentence in missing:
        print(f"LEFT OUT: {sentence}")
    passed = not (missing and nothing_may_be_left_out())
    return Result("servers, browser and peers", passed, time.monotonic() - started), missing
