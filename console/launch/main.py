"""Dispatches command lines: `up` and `test` are ours, every other command is Django's."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from console.launch import dependencies, suite, up
from console.launch.processes.data_directory import INSTALLED, ROOT, RUN_LOCK, TEST_LOCK
from console.launch.processes.errors import StartRefused
from console.launch.processes.interpreter import refusal
from console.launch.processes.loading import disable_collector

INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it."""
OF_TESTS = ("bench", "chaos")
"""Django commands that belong to the tests: only a checkout has them."""
HELP = ("help", "--help", "-h")


def main(argv: Sequence[str]) -> int:
    """Run a manage.py command line in a suitable environment, and return its exit code.

    Replaces the process by the environment's interpreter if the running one lacks the dependencies.
    """
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def run_script() -> int:
    """Run the command line of this process, as the installed `fabricflow` does."""
    if sentence := refusal(sys.version_info[:2]):
        raise StartRefused(sentence)
    return main(sys.argv)


def _main(argv: Sequence[str]) -> int:
    command = argv[1] if len(argv) > 1 else "help"
    if command in ("test", *OF_TESTS) and not _has_tests():
        raise StartRefused(
            f"`{command}` needs the tests, which are no part of what was installed: "
            f"run `python3 manage.py {command}` in a checkout."
        )
    # Read first: a wrong option should not cost the making of an environment.
    options = up.parse(argv[2:]) if command == "up" else None
    for_pytest = suite.parse(argv[2:]) if command == "test" else []
    # The installer of a distribution makes its environment.
    python = Path(sys.executable) if INSTALLED else dependencies.ensure(TEST_LOCK if command == "test" else RUN_LOCK)
    if python != Path(sys.executable):
        _become(python, argv)
    if options is not None:
        return up.run(options)
    if command == "test":
        return suite.run(for_pytest)
    return _django(argv)


def _become(python: Path, argv: Sequence[str]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(  # noqa: S606 - That there is no shell is the point.
        python, [str(python), str(Path(argv[0]).absolute()), *argv[1:]]
    )


def _has_tests() -> bool:
    return not INSTALLED and (ROOT / "tests").is_dir()


def _django(argv: Sequence[str]) -> int:
    command = argv[1] if len(argv) > 1 else "help"
    if command in OF_TESTS or (command in HELP and _has_tests()):
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings_running"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    with disable_collector():
        import django
        from django.core.management import execute_from_command_line, get_commands, load_command_class

        with suppress(Exception):  # Commands that cannot be loaded are reported below, as Django does.
            django.setup()
            load_command_class(get_commands()[argv[1]], argv[1])
    execute_from_command_line(list(argv))
    return 0
