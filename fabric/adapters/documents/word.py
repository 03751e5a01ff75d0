"""Reads Word documents by python-docx: paragraphs, tables and notes (ECMA-376 part 1, section 17). Pages are as Word
last laid them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any
from zipfile import BadZipFile

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.exceptions import OpcError
from docx.oxml import parse_xml
from docx.oxml.ns import qn
from lxml.etree import ErrorTypes, LxmlError, XMLSyntaxError

from fabric.adapters.documents.outcome import FileReading, UnreadableFile, WrittenText
from fabric.core.texts.places import disarm_marks

KIND = "Word document"
HIDDEN = "hidden text read too"
NOTES = (
    (RELATIONSHIP_TYPE.FOOTNOTES, "Footnotes", "w:footnote"),
    (RELATIONSHIP_TYPE.ENDNOTES, "Endnotes", "w:endnote"),
)

_BREAK = "\f"
"""Mark where Word began a page when it last saved the document."""
_TEXTS = {
    qn("w:tab"): "\t",
    qn("w:br"): "\n",
    qn("w:cr"): "\n",
    qn("w:noBreakHyphen"): "-",
    qn("w:lastRenderedPageBreak"): _BREAK,
}
_PASSED_OVER = {
    qn("w:del"),
    qn("w:moveFrom"),
    qn("w:pPr"),
    qn("w:rPr"),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}
"""Skipped parts: deleted text, properties, and the second form of a drawing. Tabs of properties are no text."""


def read_word(data: bytes) -> FileReading:
    """Return its text, a mark before each page where Word has left its page breaks. Raises UnreadableFile for a damaged
    or empty one.
    """
    try:
        document = docx.Document(BytesIO(data))
        body = "\n".join(_blocks(document.element.body))
        notes = "\n".join(_notes(document.part))
    except (BadZipFile, OpcError, LxmlError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, XMLSyntaxError) and error.code == ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None
        advice = "open it in Word, save it again and attach that"
        raise UnreadableFile(f"is a Word document that is damaged and cannot be read; {advice}") from None
    if not (body + notes).replace(_BREAK, "").strip():
        raise UnreadableFile("is a Word document without text; attach a file with text in it")
    found = _build_reading(disarm_marks(body), disarm_marks(notes))
    return replace(found, notes=(*found.notes, HIDDEN)) if _hides_text(document.element.body) else found


def _hides_text(body: Any) -> bool:
    """Return True where a run of text is marked as hidden."""
    off = ("0", "false", "off")
    return any(
        one.get(qn("w:val")) not in off for one in body.iter(qn("w:vanish")) if one.getparent().tag == qn("w:rPr")
    )


def _build_reading(body: str, notes: str) -> FileReading:
    written = WrittenText()
    pages = body.split(_BREAK)
    if len(pages) == 1:
        written.add(body.strip())
        notes_of: tuple[str, ...] = ("its pages are not known, because where its pages end is not saved in it",)
    else:
        for number, page in enumerate(pages, start=1):
            written.add(f"[page {number}]\n{page.strip()}\n")
        notes_of = ("its pages are as Word last laid it out",)
    if notes:
        written.add(f"\n{notes}")
    return FileReading(KIND, written.text(), notes_of)


def _blocks(parent: Any) -> Iterator[str]:
    """Yield paragraphs and tables in order, also those in content controls and insertions; a table's row is a line."""
    for child in parent:
        if child.tag == qn("w:p"):
            yield _text(child)
        elif child.tag == qn("w:tbl"):
            yield from (" | ".join(cells) for cells in _rows(child))
            yield ""
        elif isinstance(child.tag, str) and child.tag not in _PASSED_OVER:
            yield from _blocks(child)


def _rows(table: Any) -> Iterator[list[str]]:
    for row in table.iter(qn("w:tr")):
        if next(row.iterancestors(qn("w:tbl"))) is table:
            cells = (cell for cell in row.iter(qn("w:tc")) if next(cell.iterancestors(qn("w:tr"))) is row)
            yield [" ".join("\n".join(_blocks(cell)).split(" ")).replace("\n", " ").strip(" ") for cell in cells]


def _text(paragraph: Any) -> str:
    """Return the text of a paragraph, with insertions and links, without deletions."""
    parts: list[str] = []
    todo = list(reversed(paragraph))
    while todo:
        one = todo.pop()
        if one.tag in _PASSED_OVER:
            continue
        if one.tag == qn("w:t"):
            parts.append(one.text or "")
        elif one.tag in _TEXTS:
            parts.append(_TEXTS[one.tag])
        else:
            todo.extend(reversed(one))
    return "".join(parts)


def _notes(part: Any) -> Iterator[str]:
    """Yield the footnotes and endnotes, each after its number."""
    for kind, title, tag in NOTES:
        related = [one.target_part for one in part.rels.values() if one.reltype == kind and not one.is_external]
        for notes in related:
            texts = [
                (one.get(qn("w:id")), " ".join(" ".join(_blocks(one)).split()))
                for one in parse_xml(notes.blob)
                if one.tag == qn(tag) and one.get(qn("w:type")) is None
            ]
            if any(text for _, text in texts):
                yield f"{title}:"
                yield from (f"{number}. {text}" for number, text in texts)
