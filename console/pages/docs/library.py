"""Reads the documents of the folder ``docs`` once a process, and finds them and their sections by words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from console.launch.processes.data_directory import SITE

FOLDER = SITE / "docs"
PICTURES = FOLDER / "pictures"
INDEX = "README"
"""The document that the folder itself opens with."""

KINDS: Mapping[str, tuple[str, str]] = {
    "tutorials": ("Tutorials", "learn by doing, one step after another"),
    "how-to": ("How-to", "reach one goal in numbered steps"),
    "concepts": ("Concepts", "understand how it works, each with a picture"),
    "reference": ("Reference", "look up a field, a command, a setting or an event"),
    "specification": ("Specification", "read the exact rule, with its numbers"),
    "": ("About the product", "read how it is built, protected and measured"),
}
"""Title and purpose of each folder, in the order in which pages list them."""

_HEADING = re.compile(r"(#{1,6}) +(.+?)(?: +#+)?")
_FENCE = re.compile(r" {0,3}(```|~~~)")


class Section(NamedTuple):
    """One heading of a document and the text below it, up to the next heading."""

    level: int
    title: str
    anchor: str
    text: str


class Document(NamedTuple):
    """One document."""

    name: str
    """Its path below ``docs`` without ``.md``, as in addresses."""
    kind: str
    title: str
    source: str
    """Its Markdown."""
    sections: tuple[Section, ...]


@lru_cache(maxsize=1)
def documents() -> Mapping[str, Document]:
    """Return all documents by name, kind after kind and then by title."""
    found = [_read_document(path) for path in sorted(FOLDER.rglob("*.md"))]
    order = list(KINDS)
    found.sort(key=lambda one: (order.index(one.kind), one.title))
    return {one.name: one for one in found}


def picture_path(name: str) -> Path | None:
    """Return the file of a picture; None if no picture has that name."""
    path = PICTURES / name
    return path if path.parent == PICTURES and path.suffix in (".svg", ".png") and path.is_file() else None


def heading_anchor(title: str, taken: Mapping[str, int] | None = None) -> str:
    """Return the anchor of a heading as GitHub makes it. ``taken`` counts the earlier headings of the same anchor."""
    plain = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    count = (taken or {}).get(plain, 0)
    return f"{plain}-{count}" if count else plain


def _read_document(path: Path) -> Document:
    name = path.relative_to(FOLDER).with_suffix("").as_posix()
    source = path.read_text(encoding="utf-8")
    sections = tuple(_split_sections(source))
    title = next((one.title for one in sections if one.level == 1), name)
    return Document(name, name.rpartition("/")[0], title, source, sections)


def _split_sections(source: str) -> list[Section]:
    found: list[Section] = []
    heading, lines, fence = (0, "", ""), list[str](), ""
    taken: dict[str, int] = {}

    def close() -> None:
        if heading[0] or any(line.strip() for line in lines):
            found.append(Section(*heading, "\n".join(lines).strip()))

    for line in source.splitlines():
        fenced = _FENCE.match(line)
        if fenced and fence in ("", fenced[1]):
            fence = "" if fence else fenced[1]
        opened = None if fence or fenced else _HEADING.fullmatch(line)
        if opened is None:
            lines.append(line)
            continue
        close()
        title = re.sub(r"[`*]", "", opened[2])
        heading, lines = (len(opened[1]), title, heading_anchor(title, taken)), []
        plain = heading_anchor(title)
        taken[plain] = taken.get(plain, 0) + 1
    close()
    return found


RESULTS_MAX = 40
"""Sections listed at most."""
QUERY_CHARS_MAX = 200
EXCERPT_CHARS = 180
TITLE_POINTS, HEADING_POINTS, NAME_POINTS = 20, 12, 6
"""Points of a word in a title, a section's heading and an address. Each occurrence in the text counts one, up to
five.
"""
TEXT_POINTS_MAX = 5


class DocumentHit(NamedTuple):
    """One section that has every word of a query."""

    document: Document
    section: Section
    before: str
    """The excerpt up to the word that was found."""
    word: str
    after: str
    points: int


def search_documents(query: str) -> list[DocumentHit]:
    """Return the sections that have every word, best first, at most ``RESULTS_MAX``."""
    words = query[:QUERY_CHARS_MAX].lower().split()
    if not words:
        return []
    hits = [hit for one in documents().values() for section in one.sections if (hit := _find(words, one, section))]
    return sorted(hits, key=lambda hit: -hit.points)[:RESULTS_MAX]


def _find(words: list[str], document: Document, section: Section) -> DocumentHit | None:
    title, heading, text = document.title.lower(), section.title.lower(), section.text.lower()
    points = 0
    for word in words:
        found = (
            TITLE_POINTS * (section.level == 1 and word in title)
            + HEADING_POINTS * (word in heading)
            + NAME_POINTS * (section.level == 1 and word in document.name)
            + min(TEXT_POINTS_MAX, text.count(word))
        )
        if not found:
            return None
        points += found
    return DocumentHit(document, section, *_cut_excerpt(words, section.text), points)


def _cut_excerpt(words: list[str], text: str) -> tuple[str, str, str]:
    """Return the text around the first word: before it, the word as it is written, after it."""
    plain = re.sub(r"\s+", " ", re.sub(r"[`*|#]+|-{3,}|\]\([^)]*\)|!?\[", " ", text)).strip()
    places = [place for word in words if (place := plain.lower().find(word)) >= 0]
    if not places:
        return plain[:EXCERPT_CHARS], "", ""
    at = min(places)
    length = max(len(word) for word in words if plain.lower().startswith(word, at))
    start = max(0, at - EXCERPT_CHARS // 2)
    before = ("… " if start else "") + plain[start:at]
    return before, plain[at : at + length], plain[at + length : at + length + EXCERPT_CHARS]
