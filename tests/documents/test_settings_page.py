"""docs/reference/settings.md is made of the table of variables and its words."""

from __future__ import annotations

from console.launch.variables.table import NEEDS, VARIABLES, Kind
from console.launch.variables.words import WORDS
from tests.documents.written import REFERENCE, cell, hold

HEAD = """# Settings

Everything is an environment variable, read when a process starts. An empty one counts as none.
A value that cannot be used is refused in one sentence, by `up` and by every other command.
All processes of one installation get the same values.

A variable marked *secret* may be given as a file: `NAME_FILE` holds the path, the file holds the value alone (64 KB).
Both set is refused. `manage.py django check` warns of a file that others may read.

This page is made from `console/launch/variables/table.py` and `console/launch/variables/words.py` by `tests/documents/test_settings_page.py`.
"""
TITLES = {
    Kind.SETTING: ("Settings of the operator", ""),
    Kind.SYSTEM: ("Read as well", "Passed over when they cannot be used.\n\n"),
    Kind.CHECK: ("For `manage.py test`", ""),
}


def row(name: str) -> str:
    said = WORDS[name].means
    needs = "".join(f" Needs `{other}`." for other in NEEDS.get(name, ()) if f"`{other}`" not in said)
    secret = "*secret* " if VARIABLES[name].secret else ""
    return f"| `{name}` | {WORDS[name].default} | {secret}{cell(said)}{needs} |"


def page() -> str:
    parts = [HEAD]
    for kind, (title, below) in TITLES.items():
        rows = "\n".join(row(name) for name, variable in VARIABLES.items() if variable.kind is kind)
        parts.append(f"## {title}\n\n{below}| variable | default | means |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def test_each_variable_has_its_words() -> None:
    described = {name for name, variable in VARIABLES.items() if variable.kind is not Kind.HARNESS}
    assert set(WORDS) == described


def test_the_page_says_what_the_table_says() -> None:
    hold(REFERENCE / "settings.md", page())
