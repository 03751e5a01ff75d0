"""docs/reference/commands.md is made of the commands' own parsers; what pages say of commands is compared with them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from console.launch.processes.data_directory import ROOT
from tests.documents.written import REFERENCE, cell, hold
from tests.fabric.management.parsers import parsers, verbs_of

LAUNCHED = {
    "up": {"--port", "--data", "--no-browser"},
    "test": {"--fast", "--nightly"},
    "version": set(),
    "help": set(),
    "completion": set(),
}
"""Commands that need nothing installed, with their options: console/launch."""
SHARED = {"--help", "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color"}
SHARED |= {"--force-color", "--skip-checks"}
HEAD = """# Commands

Each is `python3 manage.py NAME`; of an installed wheel it is `fabricflow NAME`. `NAME --help` says the same.
Where a command has `--json`, it ends with one line of JSON for programs.

`up [--port N] [--data DIR] [--no-browser]` starts everything, and `test [--fast | --nightly] [-- PYTEST ARGUMENTS]` checks
it. Both make the environment that they run in. `help exit-codes` lists the exit codes. `django NAME` is a command of Django.

This page is made from the commands' parsers by `tests/documents/test_commands_page.py`.
"""
CALL = re.compile(r"(?:manage\.py|fabricflow) ([a-z_]+)((?: [^\s`|;&<>()\\]+)*)")


def said_of_verbs(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return what a command says of each of its verbs."""
    several = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return {each.dest: each.help or "" for action in several for each in action._choices_actions}


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its own arguments, without Django's."""
    return [
        one
        for one in parser._actions
        if not isinstance(one, argparse._SubParsersAction) and not SHARED & set(one.option_strings)
    ]


def row(one: argparse.Action) -> str:
    metavar = one.metavar if isinstance(one.metavar, str) else " ".join(one.metavar or ())
    name = ", ".join(one.option_strings) or metavar or one.dest
    shown = f" {metavar or one.dest.upper()}" if one.option_strings and one.nargs != 0 else ""
    said = (one.help or "") % {"default": one.default} if "%(default)s" in (one.help or "") else (one.help or "")
    choices = f" One of: {', '.join(map(str, one.choices))}." if one.choices else ""
    return f"| `{name}{shown}` | {cell(said)}{choices} |"


def section(title: str, parser: argparse.ArgumentParser, level: int, said: str = "") -> str:
    lines = (parser.description or said).splitlines()
    said = "\n".join([cell(line) for line in lines[:1]] + [f"- {cell(line)}" if line else "" for line in lines[1:]])
    rows = [row(one) for one in arguments(parser)]
    table = "\n| argument | |\n|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return f"\n{'#' * level} {title}\n" + (f"\n{said}\n" if said else "") + table


def page() -> str:
    parts = [HEAD]
    for name, parser in parsers().items():
        parts.append(section(name, parser, 2))
        said = said_of_verbs(parser)
        parts += [section(f"{name} {verb}", one, 3, said.get(verb, "")) for verb, one in verbs_of(parser).items()]
    return "".join(parts)


def test_the_page_says_what_the_parsers_say() -> None:
    hold(REFERENCE / "commands.md", page())


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    return {option for one in parser._actions for option in one.option_strings}


def wrong_in(text: str) -> Iterator[str]:
    """A sentence for each command, verb or option in a text that there is not."""
    for name, rest in CALL.findall(text):
        said = [re.split(r"[=\[\],.]", word)[0] for word in rest.split()]
        asked = {word for word in said if word.startswith("--") and word != "--"}
        if name in LAUNCHED:
            known = LAUNCHED[name]
        elif name == "django":
            continue
        elif (parser := parsers().get(name)) is None:
            yield f"there is no command {name}"
            continue
        else:
            verbs = verbs_of(parser)
            chosen = next((word for word in said if not word.startswith("-")), "")
            if verbs and chosen.islower() and chosen not in verbs:
                yield f"{name} has no verb {chosen}"
            known = options_of(parser) | options_of(verbs.get(chosen, parser))
        yield from (f"{name} has no option {option}" for option in sorted(asked - known - SHARED))


def test_pages_name_commands_and_options_that_there_are() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [f"{path.relative_to(ROOT)}: {one}" for path in pages for one in wrong_in(path.read_text())]
    assert found == []


def test_a_wrong_command_verb_or_option_is_found() -> None:
    text = "`manage.py fly`, `manage.py member fly`, `manage.py budget set --euro 5`, `manage.py up --tree`"
    assert list(wrong_in(text)) == [
        "there is no command fly",
        "member has no verb fly",
        "budget has no option --euro",
        "up has no option --tree",
    ]
