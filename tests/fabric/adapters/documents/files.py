"""Real files of each kind, made by the libraries that write them, and hostile ones, made by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import docx
import openpyxl
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

MEGABYTE = 1_000_000
FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
WORD_NS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SHEET_NS = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>"
)
"""Ten entities, each ten times the one before: ten thousand million characters."""


def pdf(*pages: str) -> bytes:
    """A PDF by pypdf with a page for each text, a line of the page a line of the text."""
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(595, 842)
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n")) if text else ""
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 11 Tf 72 770 Td {lines}ET".encode("cp1252"))
        page[NameObject("/Contents")] = writer._add_object(stream)
        font = DictionaryObject({NameObject(f"/{key}"): NameObject(f"/{value}") for key, value in _FONT.items()})
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    return written(writer)


_FONT = {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica", "Encoding": "WinAnsiEncoding"}


def written(one: PdfWriter) -> bytes:
    """Return what a writer writes."""
    out = BytesIO()
    one.write(out)
    return out.getvalue()


def word(*blocks: str | Sequence[Sequence[str]]) -> bytes:
    """A Word document by python-docx: a text is a paragraph, rows are a table."""
    made, out = docx.Document(), BytesIO()
    for block in blocks:
        if isinstance(block, str):
            made.add_paragraph(block)
            continue
        table = made.add_table(len(block), len(block[0]))
        for row, cells in zip(table.rows, block, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    made.save(out)
    return out.getvalue()


def word_with(body: str) -> bytes:
    """A Word document whose body is this XML."""
    return replaced(word("x"), "word/document.xml", f"<w:document {WORD_NS}><w:body>{body}</w:body></w:document>")


def workbook(
    sheets: Mapping[str, Sequence[Sequence[object]]], change: Callable[[openpyxl.Workbook], None] | None = None
) -> bytes:
    """A workbook by openpyxl with these sheets."""
    made, out = openpyxl.Workbook(), BytesIO()
    made.remove(made.worksheets[0])
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    if change is not None:
        change(made)
    made.save(out)
    return out.getvalue()


def workbook_with(sheet: str) -> bytes:
    """A workbook whose only sheet has this XML in its place for rows."""
    xml = f"<worksheet {SHEET_NS}><sheetData>{sheet}</sheetData></worksheet>"
    return replaced(workbook({"A": [[1]]}), "xl/worksheets/sheet1.xml", xml)


def replaced(archive: bytes, name: str, by: str | bytes) -> bytes:
    """An archive with another content of one part."""
    out = BytesIO()
    with ZipFile(BytesIO(archive)) as old, ZipFile(out, "w", ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, by if part == name else old.read(part))
    return out.getvalue()


def zipped(**parts: str) -> bytes:
    """A plain archive."""
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


# -- hostile ones --------------------------------------------------------------------------------------------------------


def raw_pdf(objects: Sequence[bytes]) -> bytes:
    """A PDF of these objects, the first of which is the catalog."""
    out, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows) + end


def stream(data: bytes, more: bytes = b"") -> bytes:
    """A stream object."""
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(data), more, data)


def page_pdf(content: bytes, *more: bytes) -> bytes:
    """A PDF of one page with this content stream, and more objects from number 5."""
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F1 %s>>/XObject<</X 5 0 R>>>>>>"
    )
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", pages, page % FONT, content, *more])


def blown_up(megabytes: int) -> bytes:
    """A zlib stream (RFC 1950) of so many million blanks, in seconds: one flushed block, over and over."""
    block, squeezer = b" " * MEGABYTE, zlib.compressobj(9)
    head = squeezer.compress(block) + squeezer.flush(zlib.Z_FULL_FLUSH)
    again = squeezer.compress(block) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return head + again * (megabytes - 1) + squeezer.flush()[:-4] + b"\0\0\0\0"


def two_gigabytes() -> bytes:
    """A PDF of a few megabytes whose page unpacks to 2 GB."""
    return page_pdf(stream(blown_up(2_000), b"/Filter/FlateDecode"), b"null")


def recursive_pages() -> bytes:
    """A PDF whose page tree has itself as a branch."""
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>",
            b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R]/Count 1>>",
        ]
    )


def deep_pages(depth: int) -> bytes:
    """A PDF whose one page is so many branches down."""
    branches = [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (n + 3) for n in range(depth)]
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", *branches, b"<</Type/Page/MediaBox[0 0 9 9]>>"])


def deep_objects(depth: int) -> bytes:
    """A PDF whose page tree holds lists in lists."""
    return raw_pdf(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids " + b"[" * depth + b"]" * depth + b">>"]
    )


def drawing_itself() -> bytes:
    """A PDF whose page draws a form that draws itself, twice each time."""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>"
    return page_pdf(stream(b"/X Do /X Do"), stream(b"/X Do /X Do", form))


def busy_page(operators: int) -> bytes:
    """A PDF whose page has so many places for text and hardly any text: it takes long to read."""
    squeezed = zlib.compress(b"BT /F1 1 Tf 1 0 0 1 3 3 Tm () Tj ET\n" * operators)
    return page_pdf(stream(squeezed, b"/Filter/FlateDecode"), b"null")


def many_pages(count: int) -> bytes:
    """A PDF with so many pages of one word."""
    kids = b" ".join(b"%d 0 R" % (n + 4) for n in range(count))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 3 0 R/Resources<</Font<</F1 %s>>>>>>" % FONT
    tree = b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count)
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", tree, stream(b"BT /F1 9 Tf (word) Tj ET"), *[page] * count])


def blown_up_part(archive: bytes, name: str, megabytes: int) -> bytes:
    """An Office file one of whose parts unpacks to so many million bytes."""
    out = BytesIO()
    with ZipFile(BytesIO(archive)) as old, ZipFile(out, "w", ZIP_DEFLATED, compresslevel=1) as new:
        for part in old.namelist():
            about = ZipInfo(part)
            about.compress_type = ZIP_DEFLATED
            with new.open(about, "w") as to:
                for piece in [old.read(part)] if part != name else [b" " * MEGABYTE] * megabytes:
                    to.write(piece)
    return out.getvalue()


def understated(archive: bytes, size: int) -> bytes:
    """The archive with a smaller size in its directory where a part is as large as this."""
    return archive.replace(size.to_bytes(4, "little"), (1_000).to_bytes(4, "little"))


def many_rows(count: int) -> bytes:
    """A workbook whose sheet has so many rows of three numbers."""
    return workbook_with(
        "".join(f"<row r='{n}'><c><v>{n}</v></c><c><v>1</v></c><c><v>2</v></c></row>" for n in range(1, count + 1))
    )


def many_strings(count: int) -> bytes:
    """A workbook with so many different shared texts, none of which is used."""
    texts = "".join(f"<si><t>text number {n} of a great many</t></si>" for n in range(count))
    out = BytesIO(workbook_with("<row r='1'><c t='s'><v>0</v></c></row>"))
    with ZipFile(out) as made:
        types = made.read("[Content_Types].xml").decode()
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    override = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    out = BytesIO(replaced(out.getvalue(), "[Content_Types].xml", types.replace("</Types>", override)))
    with ZipFile(out, "a", ZIP_DEFLATED) as made:
        made.writestr("xl/sharedStrings.xml", f"<sst {SHEET_NS}>{texts}</sst>")
    return out.getvalue()
