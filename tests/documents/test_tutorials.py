"""Each command of a tutorial, and of the README, is run in order in a running installation, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT
from tests.console.launch.started_processes import PATIENCE_S
from tests.e2e.installation import Installation, installed

pytestmark = pytest.mark.slow
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = re.compile(r"\b(REVIEW|DIGEST)\b")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Installation]:
    (tmp_path / "data").mkdir()
    with installed(tmp_path / "data") as running:
        yield running


def pattern(line: str) -> str:
    """A line of a tutorial as a pattern: `…` is any text, and a name in capitals is kept."""
    parts = re.split(r"(…|\bREVIEW\b|\bDIGEST\b)", line.strip())
    kept = {"…": ".*", "REVIEW": r"(?P<REVIEW>\S+)", "DIGEST": r"(?P<DIGEST>\S+)"}
    return "".join(kept.get(part) or re.escape(part) for part in parts)


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md")))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_does_what_it_says(path: Path, site: Installation, tmp_path: Path) -> None:
    for name in ("fabric", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    found: dict[str, str] = {}
    printed = ""
    for kind, text in BLOCK.findall(path.read_text()):
        if kind == "sh":
            command = text.replace("python3 manage.py", f"{sys.executable} {ROOT / 'manage.py'}")
            printed = output_of(fill_in(command, found), tmp_path, site)
            continue
        for line in filter(None, map(str.strip, text.splitlines())):
            said = re.search(pattern(line), printed)
            assert said, f"{path.name} says {line!r}, and this was printed:\n{printed}"
            found |= said.groupdict()


def fill_in(command: str, found: dict[str, str]) -> str:
    """A command with the names in capitals replaced by what was printed for them."""
    return NAMES.sub(lambda name: found[name[0]], command)


def output_of(command: str, folder: Path, site: Installation) -> str:
    """Returns what a block of commands prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | site.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=10 * PATIENCE_S,
        check=False,
    )
    return done.stdout
