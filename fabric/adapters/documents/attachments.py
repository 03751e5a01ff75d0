"""Reads attached files as documents: at most eight, under clean and unique names, as text with marks for places.

Text is read here, with its encoding; every other format in a child process with bounded memory and time. The beginnings
of a file show its format. See docs/specification/durability.md.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from fabric.adapters.documents import containers as office
from fabric.adapters.documents.outcome import FILE_BYTES_MAX, SHORTER, TEXT_BYTES_MAX, FileReading, UnreadableFile
from fabric.adapters.documents.tables import ENDINGS, read_table
from fabric.adapters.documents.tables import KIND as TABLE
from fabric.core.texts.text import clean_text
from fabric.runtime.ports.batch_parts import origin_from
from fabric.runtime.ports.journal import Document

__all__ = [
    "AT_ONCE",
    "BOMS",
    "BYTES_MAX",
    "COMPOUND",
    "FILES_MAX",
    "FILE_BYTES_MAX",
    "FILE_S",
    "HEAD_BYTES",
    "KIND",
    "MODULE",
    "NO_DOCUMENT",
    "PICTURE",
    "REFUSED",
    "REQUEST_S",
    "TOTAL_BYTES_MAX",
    "UNPACK",
    "ZIP",
    "AttachmentRefused",
    "ReadersBusy",
    "decode_text",
    "list_documents",
    "read_all",
    "read_file",
    "read_plain",
]


FILES_MAX = 8
BYTES_MAX = TEXT_BYTES_MAX
"""Bytes of one document's text."""
TOTAL_BYTES_MAX = 30_000_000
"""Largest size of all files of one run, in bytes: they fit into a request's body
(``console/site/requests/body_limit.py``).
"""
NAME_CHARS = 120

_separators = re.compile(r"[/\\]")
# Brackets would end a citation written as [name]; the rest are what shells, tables and people stumble over.
_awkward = re.compile(r'[\[\]<>"|*?:`]')


class AttachmentRefused(ValueError):
    """A refused file. The message is one sentence: file, fault, remedy. ``place``: number of the file, from 0."""

    def __init__(self, message: str, *, too_large: bool = False, busy: bool = False, place: int = 0) -> None:
        super().__init__(message)
        self.too_large, self.busy, self.place = too_large, busy, place

    @property
    def code(self) -> Literal["too_large", "unavailable", "invalid"]:
        """Return the code of a service's refusal."""
        return "too_large" if self.too_large else "unavailable" if self.busy else "invalid"


def list_documents(files: Iterable[tuple[str, bytes]]) -> tuple[Document, ...]:
    """Return named bytes as documents, in order. Raises AttachmentRefused for the first refused file."""
    documents, problems = read_all(tuple(files))
    if problems:
        raise problems[0]
    return documents


def read_all(files: Sequence[tuple[str, bytes]]) -> tuple[tuple[Document, ...], list[AttachmentRefused]]:
    """Return named bytes as documents, in order, and the refusals of the others. Each file is read once."""
    problems = _too_much([len(data) for _, data in files])
    if problems:
        return (), problems
    until = time.monotonic() + REQUEST_S
    found: list[Document] = []
    taken: set[str] = set()
    for place, (name, data) in enumerate(files):
        clean = unique_name(clean_name(name), taken)
        taken.add(clean.casefold())
        try:
            read = read_file(clean, data, until)
        except UnreadableFile as error:
            busy = isinstance(error, ReadersBusy)
            problems.append(AttachmentRefused(f"{clean} {error}", too_large=error.too_large, busy=busy, place=place))
        else:
            origin = origin_from(read.kind, data, read.text, read.notes)
            found.append(Document(clean, read.text, origin.as_json()))
    return tuple(found), problems


def check_documents(documents: Sequence[Document]) -> tuple[Document, ...]:
    """Return documents that are read already or text: names cleaned, texts bounded. Raises AttachmentRefused for the
    first refused one.
    """
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
    """Return the fault in the number and the sizes, in bytes, of the files."""
    if len(sizes) > FILES_MAX:
        message = f"{len(sizes)} files are attached; at most {FILES_MAX} files are taken; attach fewer"
        return [AttachmentRefused(message, too_large=True, place=FILES_MAX)]
    if sum(sizes) > TOTAL_BYTES_MAX:
        message = f"the files have {sum(sizes):,} bytes together; at most {TOTAL_BYTES_MAX:,} are taken; attach fewer"
        return [AttachmentRefused(message, too_large=True)]
    return []


def clean_name(name: str) -> str:
    """Return a file's name without folders, control and direction characters, and brackets; NFC, 120 characters at
    most.
    """
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
"""Unicode categories that a name must not have: control, format (direction marks among them), surrogates, private,
separators.
"""


def unique_name(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, or ``name (2)`` and so on before its ending. Letter case makes no difference to the names in
    ``taken``.
    """
    others = {other.casefold() for other in taken}
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    number, candidate = 1, name
    while candidate.casefold() in others:
        number += 1
        candidate = f"{stem} ({number}){dot}{ending}"
    return candidate


MODULE = "fabric.adapters.documents.child"
FILE_S = 30.0
"""Seconds that one file may take."""
REQUEST_S = 50.0
"""Seconds that all files of one request may take: a proxy in front waits 60."""
AT_ONCE = 2
"""Largest number of children of one process. A file waits for a free one as long as its own reading may take."""
ZIP = b"PK\x03\x04"
COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
HEAD_BYTES = 1_024
"""Largest number of bytes before a PDF's header (ISO 32000-1, implementation note 13)."""

_room = threading.BoundedSemaphore(AT_ONCE)
_pdf = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*%PDF-")
_pdf_end = re.compile(rb"startxref\s+\d+\s+%%EOF")


class ReadersBusy(UnreadableFile):
    """Too many other files are being read."""


def read_file(name: str, data: bytes, until: float) -> FileReading:
    """Return the reading of a file. The content shows its kind; the name only shows a text to be a table.

    ``until``: a time of ``time.monotonic``. Raises UnreadableFile for a refused file; ReadersBusy when no child became
    free in time.
    """
    if data.startswith(COMPOUND):
        raise office.name_compound(data)
    if not (data.startswith(ZIP) or _is_pdf(data)):
        return read_plain(name, data)
    if len(data) > FILE_BYTES_MAX:
        message = f"has {len(data):,} bytes; at most {FILE_BYTES_MAX:,} are taken; {SHORTER}"
        raise UnreadableFile(message, too_large=True)
    return _apart(data, min(until, time.monotonic() + FILE_S))


def _is_pdf(data: bytes) -> bool:
    """Return True for a PDF. With other bytes before its header it must end like a PDF too: a text may mention PDFs."""
    return bool(_pdf.match(data)) or (b"%PDF-" in data[:HEAD_BYTES] and bool(_pdf_end.search(data[-HEAD_BYTES:])))


def _apart(data: bytes, until: float) -> FileReading:
    if not _room.acquire(timeout=max(0.0, until - time.monotonic())):
        raise ReadersBusy("waits for other files that are being read; attach it again in a few seconds")
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            timeout=max(0.001, until - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnreadableFile(f"takes too long to be read; {SHORTER}", too_large=True) from None
    except OSError:
        raise ReadersBusy("finds no free process to be read in; attach it again in a few seconds") from None
    finally:
        _room.release()
    return _read_answer(done.stdout, done.returncode)


def _read_answer(out: bytes, code: int) -> FileReading:
    try:
        said = json.loads(out)
    except ValueError:
        # The kernel killed it, or a library ended its process: which of them does not help the person who attached the
        # file.
        raise UnreadableFile(
            f"ended the program that reads it (exit code {code}); save it again or {SHORTER}"
        ) from None
    if "refused" in said:
        raise UnreadableFile(said["refused"], too_large=said["too_large"])
    return FileReading(said["kind"], said["text"], tuple(said["notes"]))


KIND = "text"
PICTURE = "pictures are not read; attach their content as text or PDF"
UNPACK = "unpack it and attach the files that matter"
NO_DOCUMENT = "attach a PDF, DOCX, XLSX, CSV or text file"

REFUSED: Mapping[bytes, tuple[str, str]] = {
    b"\x89PNG": ("a PNG image", PICTURE),
    b"\xff\xd8\xff": ("a JPEG image", PICTURE),
    b"GIF8": ("a GIF image", PICTURE),
    b"II*\0": ("a TIFF image", PICTURE),
    b"MM\0*": ("a TIFF image", PICTURE),
    b"PK\x05\x06": ("an empty zip archive", UNPACK),
    b"\x1f\x8b": ("a gzip archive", UNPACK),
    b"BZh": ("a bzip2 archive", UNPACK),
    b"\xfd7zXZ": ("an xz archive", UNPACK),
    b"7z\xbc\xaf": ("a 7z archive", UNPACK),
    b"Rar!": ("a RAR archive", UNPACK),
    b"\x7fELF": ("a program", NO_DOCUMENT),
    b"MZ\x90": ("a program", NO_DOCUMENT),
    b"SQLite format 3": ("a database", "export the table that matters as CSV and attach that"),
    b"{\\rtf": ("an RTF document", "save it as DOCX or PDF and attach that"),
}
"""Beginnings of unsupported files, with the kind of each, and advice."""

BOMS: tuple[tuple[bytes, str, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig", ""),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
"""Byte order marks with their encodings, the longer of two similar ones first."""

_control = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_no_western = re.compile(rb"[\xc0-\xff]{4,}")
"""Pattern of other encodings: no word of a Western language has four accented letters in a row."""


def read_plain(name: str, data: bytes) -> FileReading:
    """Return the reading of a text file; as a table where its name and content are one. Raises UnreadableFile for too
    large, empty or other files.
    """
    found = next((found for magic, found in REFUSED.items() if data.startswith(magic)), None)
    if found:
        raise UnreadableFile(f"is {found[0]}; {found[1]}")
    if len(data) > TEXT_BYTES_MAX:
        message = f"has {len(data):,} bytes; at most {TEXT_BYTES_MAX:,} are taken of a text; {SHORTER}"
        raise UnreadableFile(message, too_large=True)
    text, encoding = decode_text(data)
    if not text.strip():
        raise UnreadableFile("is empty; attach a file with text in it")
    text = clean_text(text.replace("\r\n", "\n").replace("\r", "\n"))[0]
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise UnreadableFile(f"has more than {TEXT_BYTES_MAX:,} bytes as UTF-8; {SHORTER}", too_large=True)
    notes = (f"read as {encoding}",) if encoding else ()
    table = read_table(text) if name.casefold().endswith(ENDINGS) else None
    if table is None:
        return FileReading(KIND, text, notes)
    return FileReading(TABLE, table.text, (*notes, *table.notes))


def decode_text(data: bytes) -> tuple[str, str]:
    """Return the text, and its encoding where that is not UTF-8. Raises UnreadableFile for bytes in no supported
    encoding.
    """
    for bom, encoding, said in BOMS:
        if data.startswith(bom):
            try:
                return data.decode(encoding).removeprefix("\ufeff"), said
            except UnicodeDecodeError:
                raise UnreadableFile(
                    f"is damaged {said or 'UTF-8'} text; save it as UTF-8 and attach it again"
                ) from None
    if b"\0" in data:
        raise UnreadableFile(f"is a binary file; {NO_DOCUMENT}")
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return _western(data, error.start), "Windows-1252"


def _western(data: bytes, at: int) -> str:
    """Return the text in Windows-1252. Raises UnreadableFile for bytes that no Western text has."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if not text or _no_western.search(data) or _control.search(text):
        raise UnreadableFile(f"is no UTF-8 text (byte {at:,} is not); save it as UTF-8 and attach it again")
    return text
