"""Files that are text: their encoding, and the beginnings of files that are none."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

from fabric.adapters.attachments.refusal import SHORTER, TEXT_BYTES_MAX, Reading, Unreadable
from fabric.adapters.attachments.table import ENDINGS, read_table
from fabric.adapters.attachments.table import KIND as TABLE
from fabric.core.text import clean_text

KIND = "text"
PICTURE = "a picture is not read; attach what stands in it as text or PDF"
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
"""The beginnings of files that are not read, the kind of each, and the advice."""

BOMS: tuple[tuple[bytes, str, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig", ""),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
"""Byte order marks, the longer of two that begin alike first, and the encodings that they say."""

_control = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_no_western = re.compile(rb"[\xc0-\xff]{4,}")
"""Four accented letters in a row stand in no word of a Western language; in every other encoding's words they do."""


def read_plain(name: str, data: bytes) -> Reading:
    """A file that is text; a table where it is one and is called one. Unreadable for what is too large, empty or no text."""
    found = next((found for magic, found in REFUSED.items() if data.startswith(magic)), None)
    if found:
        raise Unreadable(f"is {found[0]}; {found[1]}")
    if len(data) > TEXT_BYTES_MAX:
        message = f"has {len(data):,} bytes; at most {TEXT_BYTES_MAX:,} are taken of a text; {SHORTER}"
        raise Unreadable(message, too_large=True)
    text, encoding = decoded(data)
    if not text.strip():
        raise Unreadable("is empty; attach a file with text in it")
    text = clean_text(text.replace("\r\n", "\n").replace("\r", "\n"))[0]
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise Unreadable(f"has more than {TEXT_BYTES_MAX:,} bytes as UTF-8; {SHORTER}", too_large=True)
    notes = (f"read as {encoding}",) if encoding else ()
    table = read_table(text) if name.casefold().endswith(ENDINGS) else None
    if table is None:
        return Reading(KIND, text, notes)
    return Reading(TABLE, table.text, (*notes, *table.notes))


def decoded(data: bytes) -> tuple[str, str]:
    """The text, and its encoding where that is not UTF-8. Unreadable for bytes that are no text in an encoding that is read."""
    for bom, encoding, said in BOMS:
        if data.startswith(bom):
            try:
                return data.decode(encoding).removeprefix("\ufeff"), said
            except UnicodeDecodeError:
                raise Unreadable(f"is damaged {said or 'UTF-8'} text; save it as UTF-8 and attach it again") from None
    if b"\0" in data:
        raise Unreadable(f"is a binary file; {NO_DOCUMENT}")
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        return _western(data, error.start), "Windows-1252"


def _western(data: bytes, at: int) -> str:
    """Windows-1252, which every byte of a Western text fits."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if not text or _no_western.search(data) or _control.search(text):
        raise Unreadable(f"is no UTF-8 text (byte {at:,} is not); save it as UTF-8 and attach it again")
    return text
