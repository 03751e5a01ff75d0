"""Each step of CONTRIBUTING.md names files that exist, and tables that stand in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console.launch.processes.data_directory import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = dict(re.findall(r"^## ((?:Add|Change) .*)\n\n((?:.|\n)*?)(?=^## |\Z)", PAGE, re.MULTILINE))
STEP = re.compile(r"^\d+\. (?:.|\n)*?(?=^\d+\. |\Z|\n\n)", re.MULTILINE)
FILE = re.compile(r"(?:[\w.]+/)+(?:[\w.]+)?|\w+\.(?:py|html)")
TABLE = re.compile(r"(?:[A-Z][A-Z_]{2,}|[A-Z][a-z]+[A-Z]\w+)")
PLACEHOLDERS = {"NAME", "WRITE_DOCS"}


def code(step: str) -> list[str]:
    """Returns what stands between backticks, and where links lead."""
    return [*re.findall(r"`([^`]+)`", step), *re.findall(r"\]\(([^)#]+)\)", step)]


def named_files(section: str) -> dict[str, list[Path]]:
    """Returns the files of each name in a section; a bare name is one in a folder that the section names."""
    names = dict.fromkeys(one for one in code(section) if FILE.fullmatch(one) and "NAME" not in one)
    folders = [ROOT / one for one in names if (ROOT / one).is_dir()]
    folders += [(ROOT / one).parent for one in names if "/" in one and (ROOT / one).is_file()]
    found = {}
    for name in names:
        at = ROOT / name
        places = [at] if "/" in name else [folder / name for folder in folders]
        found[name] = [place for place in places if place.exists()]
    return found


def test_there_are_steps_for_what_is_added_most():
    assert {"Add a protection", "Add a fault", "Add an event", "Add a page"} <= set(SECTIONS)
    assert all(STEP.findall(section) for section in SECTIONS.values())


@pytest.mark.parametrize("title", SECTIONS)
def test_each_file_that_a_step_names_exists(title):
    assert {name for name, places in named_files(SECTIONS[title]).items() if not places} == set()


@pytest.mark.parametrize("title", SECTIONS)
def test_each_table_that_a_step_names_stands_in_a_file_of_its_step(title):
    section, missing = SECTIONS[title], []
    named = named_files(section)
    for step in STEP.findall(section):
        own = [place for name in code(step) for place in named.get(name, ())]
        files = [file for place in own for file in (place.rglob("*.py") if place.is_dir() else [place])]
        texts = [file.read_text() for file in files]
        tables = {one for one in code(step) if TABLE.fullmatch(one)} - PLACEHOLDERS
        missing += [name for name in sorted(tables) if not any(re.search(rf"\b{name}\b", text) for text in texts)]
    assert missing == []
