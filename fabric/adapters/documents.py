"""Attached files as documents: at most eight, under clean and unique names, each as text that marks give places."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from fabric.adapters.attachments import reading
from fabric.adapters.attachments.refusal import FILE_BYTES_MAX, TEXT_BYTES_MAX, Unreadable
from fabric.core.text import clean_text
from fabric.runtime.origin import origin_from
from fabric.runtime.ports import Document

FILES_MAX = 8
BYTES_MAX = TEXT_BYTES_MAX
"""Bytes of one document's text."""
TOTAL_BYTES_MAX = 30_000_000
"""Bytes of all files of one run: what fits into a request's body (``console/body_limit.py``)."""
NAME_CHARS = 120

__all__ = [
    "BYTES_MAX",
    "FILES_MAX",
    "FILE_BYTES_MAX",
    "TOTAL_BYTES_MAX",
    "AttachmentRefused",
    "documents_of",
    "read_all",
]

_separators = re.compile(r"[/\\]")
# Brackets would end a citation written as [name]; the rest are what shells, tables and people stumble over.
_awkward = re.compile(r'[\[\]<>"|*?:`]')


class AttachmentRefused(ValueError):
    """A file that is not taken. The message is one sentence: which file, what is wrong, what to do. ``place``: which of the files, from 0."""

    def __init__(self, message: str, *, too_large: bool = False, busy: bool = False, place: int = 0) -> None:
        super().__init__(message)
        self.too_large, self.busy, self.place = too_large, busy, place

    @property
    def code(self) -> Literal["too_large", "unavailable", "invalid"]:
        """The code of a service's refusal."""
        return "too_large" if self.too_large else "unavailable" if self.busy else "invalid"


def documents_of(files: Iterable[tuple[str, bytes]]) -> tuple[Document, ...]:
    """Named bytes as documents, in order. Raises AttachmentRefused for the first file that is not taken."""
    documents, problems = read_all(tuple(files))
    if problems:
        raise problems[0]
    return documents


def read_all(files: Sequence[tuple[str, bytes]]) -> tuple[tuple[Document, ...], list[AttachmentRefused]]:
    """Named bytes as documents, in order, and why each of the others is not taken. Each file is read once."""
    problems = _too_much([len(data) for _, data in files])
    if problems:
        return (), problems
    until = time.monotonic() + reading.REQUEST_S
    found: list[Document] = []
    taken: set[str] = set()
    for place, (name, data) in enumerate(files):
        clean = unique_name(clean_name(name), taken)
        taken.add(clean.casefold())
        try:
            read = reading.read_file(clean, data, until)
        except Unreadable as error:
            busy = isinstance(error, reading.Busy)
            problems.append(AttachmentRefused(f"{clean} {error}", too_large=error.too_large, busy=busy, place=place))
        else:
            origin = origin_from(read.kind, data, read.text, read.notes)
            found.append(Document(clean, read.text, origin.as_json()))
    return tuple(found), problems


def checked(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Documents that were read before, or are text: their names cleaned, their texts bounded. Raises AttachmentRefused for the first that is not taken."""
    if len(documents) > FILES_MAX:
        raise _too_much([0] * len(documents))[0]
    found: list[Document] = []
    taken: set[str] = set()
    for place, one in enumerate(documents):
        name = unique_name(clean_name(one.name), taken)
        taken.add(name.casefold())
        text = clean_text(one.text)[0]
        size = len(text.encode())
        if size > BYTES_MAX:
            message = (
                f"{name} has {size:,} bytes of text; at most {BYTES_MAX:,} are taken; attach the part that matters"
            )
            raise AttachmentRefused(message, too_large=True, place=place)
        if not text.strip():
            raise AttachmentRefused(f"{name} is empty; attach a file with text in it", place=place)
        found.append(Document(name, text, one.origin))
    return tuple(found)


def _too_much(sizes: Sequence[int]) -> list[AttachmentRefused]:
    """Returns what is wrong with the number and the sizes, in bytes, of the files."""
    if len(sizes) > FILES_MAX:
        message = f"{len(sizes)} files are attached; at most {FILES_MAX} files are taken; attach fewer"
        return [AttachmentRefused(message, too_large=True, place=FILES_MAX)]
    if sum(sizes) > TOTAL_BYTES_MAX:
        message = f"the files have {sum(sizes):,} bytes together; at most {TOTAL_BYTES_MAX:,} are taken; attach fewer"
        return [AttachmentRefused(message, too_large=True)]
    return []


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
