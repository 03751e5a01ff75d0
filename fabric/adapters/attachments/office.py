"""Zip archives and old Office containers: which kind of document one holds, and whether it is safe to open (ECMA-376 part 2)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

from fabric.adapters.attachments.refusal import SHORTER, Unreadable

PARTS_MAX = 5_000
UNPACKED_BYTES_MAX = 200_000_000
XML_BYTES_MAX = 100_000_000
"""Of all XML parts together; pictures are never unpacked."""
HEAD_BYTES = 4_096
"""A document type definition stands before the first element."""

MAIN_PARTS: Mapping[str, str] = {
    "wordprocessingml.document.main+xml": "docx",
    "wordprocessingml.template.main+xml": "docx",
    "ms-word.document.macroEnabled.main+xml": "docx",
    "ms-word.template.macroEnabledTemplate.main+xml": "docx",
    "spreadsheetml.sheet.main+xml": "xlsx",
    "spreadsheetml.template.main+xml": "xlsx",
    "ms-excel.sheet.macroEnabled.main+xml": "xlsx",
    "ms-excel.template.macroEnabled.main+xml": "xlsx",
}
"""Content types of the main part, by their ends, and what reads it."""

OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"presentationml.", "a PowerPoint presentation", "export it as PDF and attach that"),
    (b"ms-powerpoint.", "a PowerPoint presentation", "export it as PDF and attach that"),
    (b"ms-excel.sheet.binary", "a binary Excel workbook (.xlsb)", "save it as XLSX and attach that"),
    (b"opendocument.text", "an OpenDocument text", "save it as DOCX or PDF and attach that"),
    (b"opendocument.spreadsheet", "an OpenDocument spreadsheet", "save it as XLSX and attach that"),
    (b"opendocument.presentation", "an OpenDocument presentation", "export it as PDF and attach that"),
    (b"epub+zip", "an e-book", "save it as PDF or text and attach that"),
)
"""Other kinds of file that are zip archives, by a word of their content types or their mimetype."""

OLE: tuple[tuple[str, str, str], ...] = (
    ("EncryptedPackage", "an Office file with a password", "save it without the password and attach that"),
    ("WordDocument", "an old Word document (.doc)", "save it as DOCX or PDF and attach that"),
    ("Workbook", "an old Excel workbook (.xls)", "save it as XLSX or CSV and attach that"),
    ("Book", "an old Excel workbook (.xls)", "save it as XLSX or CSV and attach that"),
    ("PowerPoint Document", "an old PowerPoint presentation (.ppt)", "export it as PDF and attach that"),
    ("__nameid_version1.0", "an Outlook message (.msg)", "save it as text and attach that"),
)
"""Streams of a compound file (MS-CFB), and what a file with such a stream is."""

STRICT = b"http://purl.oclc.org/ooxml/"
"""How the names of Strict Open XML begin, which Office writes when it is asked to, and no reader here knows (ISO/IEC 29500-1)."""
STRICT_PARTS = ("word/document.xml", "xl/workbook.xml")

_ROOT = re.compile(rb"<[A-Za-z_]")


def of_compound(data: bytes) -> Unreadable:
    """Returns the kind of a compound file, as the reason why it is not taken."""
    for stream, kind, advice in OLE:
        if stream.encode("utf-16-le") in data:
            return Unreadable(f"is {kind}; {advice}")
    return Unreadable("is an old Office file; save it in a newer format or as PDF, and attach that")


def kind_of_zip(data: bytes) -> str:
    """``docx`` or ``xlsx``. Unreadable for every other archive, and for one that is damaged, a bomb, or holds XML that no Office program writes."""
    try:
        with ZipFile(BytesIO(data)) as archive:
            return _kind(archive)
    except (BadZipFile, EOFError, OSError, ValueError, LookupError, NotImplementedError, RuntimeError, zlib.error):
        raise Unreadable("is an archive or Office file that is damaged; save it again and attach that") from None


def _kind(archive: ZipFile) -> str:
    parts = archive.infolist()
    types = _beginning(archive, "[Content_Types].xml", 1_000_000) + _beginning(archive, "mimetype", 200)
    kind = next((kind for ending, kind in MAIN_PARTS.items() if ending.encode() in types), None)
    if kind is None:
        found = next(((what, advice) for word, what, advice in OTHERS if word in types), None)
        what, advice = found or ("a zip archive", "unpack it and attach the files that matter")
        raise Unreadable(f"is {what}; {advice}")
    xml = [part for part in parts if part.filename.lower().endswith((".xml", ".rels"))]
    too_many = len(parts) > PARTS_MAX or sum(part.file_size for part in parts) > UNPACKED_BYTES_MAX
    if too_many or sum(part.file_size for part in xml) > XML_BYTES_MAX:
        raise Unreadable(f"unpacks to more than is read of an Office file; {SHORTER}", too_large=True)
    for part in xml:
        _no_definitions(archive, part)
    if any(STRICT in _beginning(archive, name, HEAD_BYTES) for name in STRICT_PARTS):
        raise Unreadable("is saved as Strict Open XML; save it as an ordinary DOCX or XLSX and attach that")
    return kind


def _beginning(archive: ZipFile, name: str, most: int) -> bytes:
    if name not in archive.NameToInfo:
        return b""
    with archive.open(name) as part:
        return part.read(most)


def _no_definitions(archive: ZipFile, part: ZipInfo) -> None:
    """Refuses a part with a document type: Office writes none, and its entities may grow without bound."""
    with archive.open(part) as stream:
        head = _head(stream)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise Unreadable("holds an XML document type, which no Office program writes; save it again and attach that")


def _head(stream: IO[bytes]) -> bytes:
    """Returns the text before the first element, in one byte a character. Unreadable where there is too much of it."""
    head = stream.read(HEAD_BYTES).replace(b"\0", b"")
    if not _ROOT.search(head) and stream.read(1):
        raise Unreadable("holds XML that no Office program writes; save it again and attach that")
    return head
