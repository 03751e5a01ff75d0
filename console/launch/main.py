"""Dispatch: `up` and `test` are ours, every other command is Django's."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from console.launch import environment, suite, up
from console.launch.errors import Refused
from console.launch.interpreter import refusal
from console.launch.loading import loading
from console.launch.paths import INSTALLED, RUN_LOCK, TEST_LOCK

INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it."""


def main(argv: Sequence[str]) -> int:
    """Run one manage.py command line in an environment that can run it, and return its exit code.

    Replaces the process by the environment's interpreter when the running one lacks the dependencies.
    """
    try:
        return _main(argv)
    except KeyboardInterrupt:
        return INTERRUPTED


def run_script() -> int:
    """Run the command line of this process: what the installed `fabricflow` does."""
    if sentence := refusal(sys.version_info[:2]):
        raise Refused(sentence)
    return main(sys.argv)


def _main(argv: Sequence[str]) -> int:
    command = argv[1] if len(argv) > 1 else "help"
    if command == "test" and INSTALLED:
        raise Refused("The tests are no part of what was installed: run `python3 manage.py test` in a checkout.")
    # Read first: a wrong option should not cost the making of an environment.
    options = up.parse(argv[2:]) if command == "up" else None
    for_pytest = suite.parse(argv[2:]) if command == "test" else []
    # Whoever installs a distribution makes its environment.
    python = Path(sys.executable) if INSTALLED else environment.ensure(TEST_LOCK if command == "test" else RUN_LOCK)
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


def _django(argv: Sequence[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    with loading():
        import django
        from django.core.management import execute_from_command_line, get_commands, load_command_class

        with suppress(Exception):  # What cannot be loaded is told below, as Django tells it.
            django.setup()
            load_command_class(get_commands()[argv[1]], argv[1])
    execute_from_command_line(list(argv))
    return 0
