"""The documents as a whole: their links lead somewhere, their lines are short, and their words are counted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from console.launch.processes.data_directory import ROOT

GENERATED = {"events", "reasons", "rights", "logs", "fabric", "commands", "settings", "operations", "scripted"}
"""Pages of the reference that are made of code by tests."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = [path for path in PAGES if path.parent.name != "reference" or path.stem not in GENERATED]
HELD = {
    "endpoint": r"\| `",
    "failures": r"\| [a-z ]+ \| `",
    "security": r"\| ",
    "detectors": r"\| .+ \| (?:\d+ of \d+|none there) ",
}
"""Pages with rows that a test makes, or holds one by one: how such a row begins."""
WORDS_MAX = 35_000
LINE_MAX = 120
README_WORDS_MAX = 600
DESIGN_WORDS_MAX = 2_500
CHANGELOG_LINES_MAX = 200
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:srcset|src)=\"([^\"]+)\"")
MENTION = re.compile(
    r"(?<![\w/.])docs/[\w/-]+\.(?:md|svg|png)|(?<!/)\b(?:semantics|operations|deployment|reliability)\.md"
)
"""A page by its path below the checkout; or one that is no more, by its name alone."""
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        while anchor in found:
            anchor += "-1"
        found.add(anchor)
    return found


def broken_links(path: Path, text: str) -> Iterator[str]:
    for pair in LINK.findall(FENCE.sub("", text)):
        link = pair[0] or pair[1]
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists():
            yield f"{path.relative_to(ROOT)}: {link} is not there"
        elif anchor and anchor not in anchors_of(target):
            yield f"{path.relative_to(ROOT)}: {link} has no such heading"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_are_there(path: Path) -> None:
    assert list(broken_links(path, path.read_text())) == []


def test_a_broken_link_is_found() -> None:
    page = ROOT / "README.md"
    text = "[a](docs/nothing.md) [b](docs/README.md#no-such) [c](docs/README.md#how-to) [d](https://example.org/x)"
    assert list(broken_links(page, text)) == [
        "README.md: docs/nothing.md is not there",
        "README.md: docs/README.md#no-such has no such heading",
    ]


def test_whatever_names_a_page_names_one_that_is_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = (
        ROOT / name for name in listed if name.endswith((".py", ".html", ".toml", ".yaml", ".sh", ".service", ".in"))
    )
    named = {
        (path.relative_to(ROOT), one)
        for path in text
        if path.is_file() and path.parent != Path(__file__).parent
        for one in MENTION.findall(path.read_text())
    }
    assert len(named) > 100
    assert {one for one in named if not (ROOT / one[1]).exists()} == set()


NAMED = re.compile(
    r"`([\w./-]*\w\.(?:py|sh|toml|svg|html))(?:::\w+)*`|`((?:fabric|console|simulator|tests|core|services|selectors|providers|policies|values)/[\w/-]+)/?`"
)
EXAMPLES = {"ask.py", "bundle/verify.py", "verify.py", "x.py", "utils.py"}
"""Names of files that a reader makes, or that may not be."""


def tracked() -> list[str]:
    return subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def missing(text: str, files: list[str]) -> set[str]:
    """The files and folders of the repository that a page names, by their whole path or by its end, and that are not there."""
    named = {(file or folder).rstrip("/") for file, folder in NAMED.findall(FENCE.sub("", text))} - EXAMPLES
    return {
        one for one in named if not any(f"/{path}".endswith(f"/{one}") or f"/{one}/" in f"/{path}" for path in files)
    }


def test_files_and_folders_that_pages_name_are_there() -> None:
    files = tracked()
    assert {(path.name, one) for path in PAGES for one in missing(path.read_text(), files)} == set()


def test_a_file_that_is_not_there_is_found() -> None:
    text = (
        "`core/engine.py`, `fabric/core/engine.py`, `tests/nowhere/`, `core/nothing.py`, `tests/e2e`, `services/none`"
    )
    assert missing(text, tracked()) == {"core/nothing.py", "services/none", "tests/nowhere"}


def test_every_page_is_in_the_list_of_documents_or_of_the_specification() -> None:
    lists = (ROOT / "docs" / "README.md", ROOT / "docs" / "specification" / "README.md")
    listed = {(page.parent / link[0]).resolve() for page in lists for link in LINK.findall(page.read_text()) if link[0]}
    assert {path for path in PAGES if (ROOT / "docs") in path.parents} - listed - {lists[0]} == set()


def test_lines_of_prose_are_short() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in WRITTEN
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_MAX and not line.startswith("|")
    ]
    assert found == []


def prose_of(path: Path) -> str:
    """Return what people wrote of a page: all of it, but for the rows that a test holds."""
    held = HELD.get(path.stem) if path.parent.name != "how-to" else None
    return "\n".join(line for line in path.read_text().splitlines() if held is None or not re.match(held, line))


def words(text: str) -> int:
    """How many words a text has: what stands between blanks and has a letter or a digit."""
    return sum(1 for one in text.split() if re.search(r"\w", one))


def test_the_documents_have_no_more_words_than_a_person_reads() -> None:
    assert sum(words(prose_of(path)) for path in WRITTEN) <= WORDS_MAX
    assert words(prose_of(ROOT / "README.md")) <= README_WORDS_MAX
    assert words(prose_of(ROOT / "docs" / "design.md")) <= DESIGN_WORDS_MAX
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= CHANGELOG_LINES_MAX


LOST = re.compile(
    r"\b(?:stand-ins?|sub-runs?|swaps?|rollbacks?|tickets?|levers?|escalations|escalation_\w+|who(?:m)?ever|(?:no|some)body)\b",
    re.IGNORECASE,
)
"""Words of which the glossary names another one, and words that name no actor."""
ASKING = re.compile(r"(?:^(?: *(?:[-*]|\d+\.) )?|[.!:] )(?:What|Whether|Who|Whoever) (?!.*\?)", re.MULTILINE)
"""A sentence that begins with its object's clause, and names its subject late."""


def test_no_page_has_a_word_that_lost() -> None:
    pages = [path for path in WRITTEN if path.stem != "glossary"]
    found = {(path.name, word) for path in pages for word in LOST.findall(prose_of(path))}
    assert found == set()


def test_no_sentence_begins_with_a_clause_in_place_of_its_subject() -> None:
    found = {(path.name, said) for path in WRITTEN for said in ASKING.findall(FENCE.sub("", prose_of(path)))}
    assert found == set()


def test_a_sentence_without_a_subject_is_found() -> None:
    text = "It ends. What stays is named.\n- Who asks waits.\n1. Whoever comes.\nA rule says what holds.\n# What it is"
    assert len(ASKING.findall(text)) == 3


def test_each_concept_has_a_picture_that_says_what_it_shows() -> None:
    for path in sorted((ROOT / "docs" / "concepts").glob("*.md")):
        shown = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", path.read_text())
        assert shown, f"{path.name} has no picture"
        for said, link in shown:
            assert said
            drawn = ET.parse(path.parent / link).getroot()
            assert drawn.findtext("{http://www.w3.org/2000/svg}title"), link
            assert "prefers-color-scheme: dark" in (path.parent / link).read_text(), link
