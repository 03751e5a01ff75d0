import codecs

import pytest

from fabric.adapters.documents import attachments as plain
from fabric.adapters.documents.containers import OLE
from fabric.adapters.documents.outcome import TEXT_BYTES_MAX
from tests.fabric.adapters.documents import files
from tests.fabric.adapters.documents.reading_one import read, refused

COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
WORDS = "Käse – 5 €"


@pytest.mark.parametrize(
    ("data", "text", "notes"),
    [
        (WORDS.encode(), WORDS, ()),
        (codecs.BOM_UTF8 + WORDS.encode(), WORDS, ()),
        (codecs.BOM_UTF16_LE + WORDS.encode("utf-16-le"), WORDS, ("read as UTF-16",)),
        (codecs.BOM_UTF16_BE + WORDS.encode("utf-16-be"), WORDS, ("read as UTF-16",)),
        (codecs.BOM_UTF32_LE + WORDS.encode("utf-32-le"), WORDS, ("read as UTF-32",)),
        (WORDS.encode("cp1252"), WORDS, ("read as Windows-1252",)),
        ("naïve — “déjà vu”".encode("cp1252"), "naïve — “déjà vu”", ("read as Windows-1252",)),
        (b"a\r\nb\rc\n", "a\nb\nc\n", ()),
        (b"<p>HTML &amp; so on</p>", "<p>HTML &amp; so on</p>", ()),
    ],
)
def test_text_is_read_in_the_encodings_that_people_have(data, text, notes):
    found = read(data, "notes.txt")
    assert (found.kind, found.text, found.notes) == ("text", text, notes)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Привет, мир".encode("cp1251"), "is no UTF-8 text (byte 0 is not)"),
        ("日本語の文章".encode("shift-jis"), "is no UTF-8 text"),
        ("中文文本".encode("gbk"), "is no UTF-8 text"),
        (b"\x81\x8d\x8f\x90 x", "is no UTF-8 text"),
        (b"\x01\x02\xe9 text", "is no UTF-8 text"),
        (codecs.BOM_UTF16_LE + b"a\0b", "is damaged UTF-16 text"),
        (codecs.BOM_UTF8 + b"a\xff", "is damaged UTF-8 text"),
        (b"a\0b", "is a binary file"),
        (WORDS.encode("utf-16-le"), "is a binary file"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (codecs.BOM_UTF16_LE, "is empty"),
        (b"x" * (TEXT_BYTES_MAX + 1), "has 1,000,001 bytes; at most 1,000,000 are taken of a text"),
        ("é".encode("cp1252") * 1 + b" \xe9" * 400_000, "has more than 1,000,000 bytes as UTF-8"),
    ],
)
def test_what_is_no_text_is_refused_with_one_sentence(data, said):
    assert said in refused(data, "notes.txt")


@pytest.mark.parametrize(("magic", "what"), plain.REFUSED.items())
def test_known_kinds_of_file_are_named_whatever_they_are_called(magic, what):
    assert refused(magic + b" rest", "notes.txt") == f"is {what[0]}; {what[1]}"


@pytest.mark.parametrize(("stream", "kind", "advice"), OLE)
def test_old_and_locked_office_files_are_named(stream, kind, advice):
    assert refused(COMPOUND + stream.encode("utf-16-le"), "report.docx") == f"is {kind}; {advice}"


def test_a_compound_file_of_another_kind_is_refused_too():
    assert "is an old Office file; save it in a newer format" in refused(COMPOUND)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (files.zipped(a="1"), "is a zip archive; unpack it"),
        (
            files.zipped(mimetype="application/vnd.oasis.opendocument.text"),
            "is an OpenDocument text; save it as DOCX or PDF",
        ),
        (files.zipped(mimetype="application/epub+zip"), "is an e-book"),
        (
            files.zipped(**{"[Content_Types].xml": "presentationml.presentation.main+xml"}),
            "is a PowerPoint presentation",
        ),
        (b"PK\x03\x04 and no more", "is an archive or Office file that is damaged"),
    ],
)
def test_other_archives_are_named(data, said):
    assert said in refused(data, "report.docx")


def test_a_name_that_lies_is_read_as_what_it_is():
    assert read(files.word("x"), "a.xlsx").kind == "Word document"
    assert read(files.workbook({"A": [[1]]}), "a.csv").kind == "Excel workbook"
    assert read(b"just words", "a.pdf").kind == "text"
    assert read(b"a,b\n1,2\n", "a.xlsx").kind == "text"
