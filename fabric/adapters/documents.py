"""Attached files as documents: at most eight, a megabyte each, UTF-8 text, under clean and unique names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from fabric.core.text import clean_text
from fabric.runtime.ports import Document

FILES_MAX = 8
BYTES_MAX = 1_000_000
NAME_CHARS = 120

MAGIC: Mapping[bytes, str] = {
    b"%PDF-": "a PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"PK\x03\x04": "a zip archive or an Office file",
    b"PK\x05\x06": "a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
    b"SQLite format 3": "a database",
    b"{\\rtf": "an RTF document",
}
"""How files begin that people attach and that are no plain text."""

_separators = re.compile(r"[/\\]")
# Brackets would end a citation written as [name]; the rest are what shells, tables and people stumble over.
_awkward = re.compile(r'[\[\]<>"|*?:`]')


class AttachmentRefused(ValueError):
    """A file that is not taken. The message is one sentence: which file, what is wrong, what to do."""


def documents_of(files: Iterable[tuple[str, bytes]]) -> tuple[Document, ...]:
    """Named bytes as documents, in order. Raises AttachmentRefused for the first file that is not taken."""
    found: list[Document] = []
    taken: set[str] = set()
    for name, data in files:
        if len(found) == FILES_MAX:
            raise AttachmentRefused(f"at most {FILES_MAX} files are taken; attach fewer")
        clean = unique_name(clean_name(name), taken)
        taken.add(clean.casefold())
        found.append(Document(clean, text_of(clean, data)))
    return tuple(found)


def text_of(name: str, data: bytes) -> str:
    """A file's text. Raises AttachmentRefused for what is too large, empty or no UTF-8 text. ``name`` is for the sentence."""
    if len(data) > BYTES_MAX:
        raise AttachmentRefused(
            f"{name} has {len(data):,} bytes; at most {BYTES_MAX:,} are taken; attach the part that matters"
        )
    kind = next((kind for magic, kind in MAGIC.items() if data.startswith(magic)), "")
    if kind:
        raise AttachmentRefused(
            f"{name} is {kind}; only plain text is taken; save it as text (.txt, .md, .csv) and attach that"
        )
    if b"\0" in data:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        what = "UTF-16 text; save it as UTF-8" if utf16 else "a binary file; only plain text is taken"
        raise AttachmentRefused(f"{name} is {what}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttachmentRefused(
            f"{name} is no UTF-8 text (byte {error.start:,} is not); save it as UTF-8 and attach it again"
        ) from None
    if not text.strip():
        raise AttachmentRefused(f"{name} is empty; attach a file with text in it")
    return clean_text(text.replace("\r\n", "\n").replace("\r", "\n"))[0]


def clean_name(name: str) -> str:
    """A file's name without folders, control and direction characters, and brackets; NFC, 120 characters at most."""
    last = _separators.split(name.rstrip("/\\"))[-1]
    visible = "".join(
        char for char in unicodedata.normalize("NFC", last) if unicodedata.category(char) not in _INVISIBLE
    )
    tidy = " ".join(_awkward.sub("_", visible).split()).strip(". ")
    if len(tidy) > NAME_CHARS:
        stem, dot, ending = tidy.rpartition(".")
        tail = f".{ending}" if dot and len(ending) <= 10 and stem else ""
        tidy = tidy[: NAME_CHARS - len(tail)].rstrip(". ") + tail
    return tidy or "document"


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a name must not hold: control, format (direction marks among them), surrogates, private, separators."""


def unique_name(name: str, taken: Iterable[str]) -> str:
    """``name``, or ``name (2)`` and so on before its ending, whatever the case of those taken."""
    others = {other.casefold() for other in taken}
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number, candidate = 1, name
    while candidate.casefold() in others:
        number += 1
        candidate = f"{stem} ({number}){dot}{ending}"
    return candidate
