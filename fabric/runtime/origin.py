"""Describes the file that a document was read from, and its reading, for keeping beside the document's text."""

from __future__ import annotations

import hashlib
import json

from fabric.core.frozen import value
from fabric.core.places import Map, without_marks

EXCERPT_CHARS = 160


@value()
class Origin:
    """An attached file. ``bytes`` and ``sha256`` (64 hex digits) are of the file itself, not of the text that was read."""

    kind: str
    """As people say it: ``PDF``, ``text``."""
    bytes: int
    sha256: str
    characters: int = 0
    """Of the text that was read, its marks among them."""
    pages: int = 0
    sheets: tuple[str, ...] = ()
    rows: int = 0
    """Of all sheets together."""
    notes: tuple[str, ...] = ()
    """Notes for the person who attached it, a clause each."""

    def as_json(self) -> str:
        """For a store's row and ``Document.origin``."""
        kept = {name: getattr(self, name) for name in self.__struct_fields__}  # type: ignore[attr-defined]
        return json.dumps(kept, ensure_ascii=False)

    def words(self) -> str:
        """Returns the reading in words: ``PDF, 12 pages, 34,120 characters``."""
        counted = (("page", self.pages), ("sheet", len(self.sheets)), ("row", self.rows))
        counts = [f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counted if count]
        return ", ".join([self.kind, *counts, f"{self.characters:,} characters"])


def origin_from(kind: str, file: bytes, text: str, notes: tuple[str, ...]) -> Origin:
    """The origin of a text that was read from a file: the pages, sheets and rows that its marks name, and the file's digest."""
    of = Map(text)
    digest = hashlib.sha256(file).hexdigest()
    return Origin(kind, len(file), digest, len(text), of.pages, of.sheets, of.rows, notes)


def origin_of(kept: str) -> Origin | None:
    """The origin in a store's row; None where the document was given as text, or before origins were kept."""
    if not kept:
        return None
    read = json.loads(kept)
    return Origin(**read | {"sheets": tuple(read["sheets"]), "notes": tuple(read["notes"])})


def excerpt(text: str) -> str:
    """Returns the beginning of a document, without its marks, in one line."""
    begin = " ".join(without_marks(text[: 4 * EXCERPT_CHARS]).split())
    return begin if len(begin) <= EXCERPT_CHARS else f"{begin[: EXCERPT_CHARS - 3].rstrip()}..."
