"""Finds the document in a zip archive or old Office container, and checks its safety (ECMA-376 part 2)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

from fabric.adapters.documents.outcome import SHORTER, UnreadableFile

PARTS_MAX = 5_000
UNPACKED_BYTES_MAX = 200_000_000
XML_BYTES_MAX = 100_000_000
"""Limit of all XML parts together; pictures are never unpacked."""
HEAD_BYTES = 4_096
"""Bytes that are searched: a document type definition precedes the first element."""

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
"""Readers by the ends of the main part's content types."""

OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"presentationml.", "a PowerPoint presentation", "export it as PDF and attach that"),
    (b"ms-powerpoint.", "a PowerPoint presentation", "export it as PDF and attach that"),
    (b"ms-excel.sheet.binary", "a binary Excel workbook (.xlsb)", "save it as XLSX and attach that"),
    (b"opendocument.text", "an OpenDocument text", "save it as DOCX or PDF and attach that"),
    (b"opendocument.spreadsheet", "an OpenDocument spreadsheet", "save it as XLSX and attach that"),
    (b"opendocument.presentation", "an OpenDocument presentation", "export it as PDF and attach that"),
    (b"epub+zip", "an e-book", "save it as PDF or text and attach that"),
)
"""Other kinds of zip archives, by a word of their content types or their mimetype."""

OLE: tuple[tuple[str, str, str], ...] = (
    ("EncryptedPackage", "an Office file with a password", "save it without the password and attach that"),
    ("WordDocument", "an old Word document (.doc)", "save it as DOCX or PDF and attach that"),
    ("Workbook", "an old Excel workbook (.xls)", "save it as XLSX or CSV and attach that"),
    ("Book", "an old Excel workbook (.xls)", "save it as XLSX or CSV and attach that"),
    ("PowerPoint Document", "an old PowerPoint presentation (.ppt)", "export it as PDF and attach that"),
    ("__nameid_version1.0", "an Outlook message (.msg)", "save it as text and attach that"),
)
"""Streams of a compound file (MS-CFB), with the kind of such a file."""

STRICT = b"http://purl.oclc.org/ooxml/"
"""Beginning of the names of Strict Open XML (ISO/IEC 29500-1). Office writes it on request; no reader here knows it."""
STRICT_PARTS = ("word/document.xml", "xl/workbook.xml")

_ROOT = re.compile(rb"<[A-Za-z_]")


def name_compound(data: bytes) -> UnreadableFile:
    """Return the kind of a compound file, as the reason of its refusal."""
    for stream, kind, advice in OLE:
        if stream.encode("utf-16-le") in data:
            return UnreadableFile(f"is {kind}; {advice}")
    return UnreadableFile("is an old Office file; save it in a newer format or as PDF, and attach that")


def kind_of_zip(data: bytes) -> str:
    """Return ``docx`` or ``xlsx``. Raises UnreadableFile for other archives, damaged ones, bombs, and XML that no
    Office program writes.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            return _kind(archive)
    except (BadZipFile, EOFError, OSError, ValueError, LookupError, NotImplementedError, RuntimeError, zlib.error):
        raise UnreadableFile("is an archive or Office file that is damaged; save it again and attach that") from None


def _kind(archive: ZipFile) -> str:
    parts = archive.infolist()
    types = _read_beginning(archive, "[Content_Types].xml", 1_000_000) + _read_beginning(archive, "mimetype", 200)
    kind = next((kind for ending, kind in MAIN_PARTS.items() if ending.encode() in types), None)
    if kind is None:
        found = next(((what, advice) for word, what, advice in OTHERS if word in types), None)
        what, advice = found or ("a zip archive", "unpack it and attach the files that matter")
        raise UnreadableFile(f"is {what}; {advice}")
    xml = [part for part in parts if part.filename.lower().endswith((".xml", ".rels"))]
    too_many = len(parts) > PARTS_MAX or sum(part.file_size for part in parts) > UNPACKED_BYTES_MAX
    if too_many or sum(part.file_size for part in xml) > XML_BYTES_MAX:
        raise UnreadableFile(f"unpacks to more than is read of an Office file; {SHORTER}", too_large=True)
    for part in xml:
        _no_definitions(archive, part)
    if any(STRICT in _read_beginning(archive, name, HEAD_BYTES) for name in STRICT_PARTS):
        raise UnreadableFile("is saved as Strict Open XML; save it as an ordinary DOCX or XLSX and attach that")
    return kind


def _read_beginning(archive: ZipFile, name: str, most: int) -> bytes:
    if name not in archive.NameToInfo:
        return b""
    with archive.open(name) as part:
        return part.read(most)


def _no_definitions(archive: ZipFile, part: ZipInfo) -> None:
    """Raise UnreadableFile for a part with a document type: Office writes none, and its entities may grow without
    bound.
    """
    with archive.open(part) as stream:
        head = _head(stream)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
        raise UnreadableFile(
            "holds an XML document type, which no Office program writes; save it again and attach that"
        )


def _head(stream: IO[bytes]) -> bytes:
    """Return the text before the first element, in one byte a character. Raises UnreadableFile where there is too much
    of it.
    """
    head = stream.read(HEAD_BYTES).replace(b"\0", b"")
    if not _ROOT.search(head) and stream.read(1):
        raise UnreadableFile("holds XML that no Office program writes; save it again and attach that")
    return head
