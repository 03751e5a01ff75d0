"""Dispatches command lines: some need nothing installed, some are ours, the rest are Django's."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from console.launch import completion, dependencies, groups, old_names, suite, up
from console.launch.processes.data_directory import INSTALLED, ROOT, RUN_LOCK, TEST_LOCK
from console.launch.processes.errors import StartRefused
from console.launch.processes.interpreter import refusal
from console.launch.processes.loading import disable_collector
from fabric.program.name import CHECKOUT, find_version, program

BAD_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
"""Exit codes of bad input, of Ctrl-C, and of output whose reader has gone, as a shell has them."""
OF_TESTS = ("bench", "chaos")
"""Verbs of `dev` that belong to the tests: only a checkout has them."""
HELP = ("help", "--help", "-h")
VERSION = ("version", "--version")


def main(argv: Sequence[str]) -> int:
    """Run a command line in a suitable environment, and return its exit code.

    Replaces the process by the environment's interpreter if the running one lacks the dependencies.
    """
    try:
        try:
            return _main(argv)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED


def run_script() -> int:
    """Run the command line of this process, as the installed `fabricflow` does."""
    if sentence := refusal(sys.version_info[:2]):
        raise StartRefused(sentence)
    return main(sys.argv)


def _discard_output() -> None:
    """Discard what the interpreter still writes at its end: the reader has gone."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nothing, stream.fileno())


def _main(argv: Sequence[str]) -> int:
    words, said = old_names.translate(_ask_for_help(argv[1:]))
    command = words[0]
    if (page := _page(words)) is not None:
        print(page)
        return 0
    if command == "completion":
        print(f"name a shell: `{program()} completion {'|'.join(completion.SCRIPTS)}`", file=sys.stderr)
        return BAD_INPUT
    if (command == "test" or _is_of_tests(words)) and not _has_tests():
        raise StartRefused(
            f"`{' '.join(words[:2])}` needs the tests, which are no part of what was installed: "
            f"run `{CHECKOUT} {' '.join(words[:2])}` in a checkout."
        )
    # Read first: a wrong option should not cost the making of an environment.
    options = up.parse(words[1:]) if command == "up" else None
    for_pytest = suite.parse(words[1:]) if command == "test" else []
    # The installer of a distribution makes its environment.
    python = Path(sys.executable) if INSTALLED else dependencies.ensure(TEST_LOCK if command == "test" else RUN_LOCK)
    if python != Path(sys.executable):
        _become(python, argv)
    if said:
        print(said, file=sys.stderr, flush=True)
    if options is not None:
        return up.run(options)
    if command == "test":
        return suite.run(for_pytest)
    return _django(words)


def _ask_for_help(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words with `help COMMAND` turned into `COMMAND --help`."""
    if not words or words[0] in HELP:
        topic = tuple(word for word in words[1:] if word not in HELP)
        return (*topic, "--help") if topic and topic[0] != groups.TOPIC else ("help", *topic)
    return tuple(words)


def _page(words: Sequence[str]) -> str | None:
    """Return what these words ask for that needs no environment; None: nothing."""
    if words[0] in VERSION:
        return f"Fabric Flow {find_version()}"
    if words[0] == "completion":
        return completion.find_script(words[1:]) or None
    if words[0] == completion.HIDDEN:
        return completion.complete_name(words[1:])
    if words[0] != "help":
        return None
    return groups.list_exit_codes() if words[1:] == (groups.TOPIC,) else groups.list_commands()


def _is_of_tests(words: Sequence[str]) -> bool:
    return words[0] == "dev" and any(word in OF_TESTS for word in words[1:2])


def _become(python: Path, argv: Sequence[str]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(  # noqa: S606 - That there is no shell is the point.
        python, [str(python), str(Path(argv[0]).absolute()), *argv[1:]]
    )


def _has_tests() -> bool:
    return not INSTALLED and (ROOT / "tests").is_dir()


def _django(words: Sequence[str]) -> int:
    """Run a command of ours, or of Django's behind `django`. The command sees the name of this program as its own."""
    name = words[0]
    if name == "dev" and _has_tests():
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings_running"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    called = program()
    if name == "django":
        called, words = f"{called} django", words[1:] or ("help",)
        name = words[0]
    with disable_collector():
        import django
        from django.core.management import execute_from_command_line, get_commands, load_command_class

        with suppress(Exception):  # Commands that cannot be loaded are reported below, as Django does.
            django.setup()
            load_command_class(get_commands()[name], name)
    if called == program() and name not in (*groups.NAMES, *groups.INTERNAL):
        if name not in get_commands():
            return _refuse_unknown(name)
        print(f"`{name}` is now `{called} django {name}`; the next release knows the new name only.", file=sys.stderr)
    execute_from_command_line([called, *words])
    return 0


def _refuse_unknown(name: str) -> int:
    near = get_close_matches(name, (*groups.NAMES, *old_names.RENAMED), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    print(f"there is no command {name[:80]!r}; {hint}`{program()} help` lists them", file=sys.stderr)
    return BAD_INPUT
