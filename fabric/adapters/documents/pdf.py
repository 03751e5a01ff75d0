"""PDF files by pypdf: the text of each page behind its mark (ISO 32000-2)."""

from __future__ import annotations

import re
from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

from fabric.adapters.documents.outcome import SHORTER, FileReading, UnreadableFile, WrittenText, list_numbers
from fabric.core.texts.places import disarm_marks

KIND = "PDF"
PAGES_MAX = 1_000
NO_LETTERS_SHARE = 0.3
"""Largest share of unusable characters in a readable PDF."""
_NO_LETTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd\ue000-\uf8ff]|/g(?:lyph|id)?\d+|\(cid:\d+\)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def read_pdf(data: bytes) -> FileReading:
    """Return its text, a mark before each page. Raises UnreadableFile for one that is locked, damaged, too long or
    without text.
    """
    try:
        return _read(PdfReader(BytesIO(data), strict=False))
    except LimitReachedError:
        raise UnreadableFile(f"is a PDF that unpacks to more than is read; {SHORTER}", too_large=True) from None
    except DependencyError:
        raise UnreadableFile(
            "is a PDF that is encrypted in a way that is not read; save it without encryption"
        ) from None
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, NotImplementedError):
        raise UnreadableFile(
            "is a PDF that is damaged and cannot be read; print it to a new PDF and attach that"
        ) from None


def _read(reader: PdfReader) -> FileReading:
    # An empty user password opens the file: it only limits what may be printed or changed.
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableFile("is a PDF with a password; save it without the password and attach that")
    pages = len(reader.pages)
    if pages > PAGES_MAX:
        raise UnreadableFile(f"has {pages:,} pages; at most {PAGES_MAX:,} are taken; {SHORTER}", too_large=True)
    written, empty, characters, wrong = WrittenText(), [], 0, 0
    for number, page in enumerate(reader.pages, start=1):
        raw = page.extract_text().replace("\r\n", "\n").replace("\r", "\n")
        characters += len(raw)
        wrong += sum(len(found) for found in _NO_LETTER.findall(raw))
        text = disarm_marks(_CONTROL.sub("", raw)).strip()
        if not text:
            empty.append(number)
        written.add(f"[page {number}]\n{text}\n")
    if wrong > characters * NO_LETTERS_SHARE:
        advice = "print it to a new PDF, or run text recognition (OCR) over it"
        raise UnreadableFile(f"is a PDF whose fonts do not say which letters they show; {advice}")
    if len(empty) == pages:
        advice = "run text recognition (OCR) over it and attach the result"
        raise UnreadableFile(f"is a PDF without text: it is a scan or only pictures; {advice}")
    notes = (f"no text on page{'s' if empty[1:] else ''} {list_numbers(empty)}",) if empty else ()
    return FileReading(KIND, written.text(), notes)
