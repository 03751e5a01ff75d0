import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from fabric.adapters.documents.outcome import TEXT_BYTES_MAX
from fabric.adapters.documents.pdf import PAGES_MAX
from fabric.core.texts.places import Place, PlaceMap
from tests.fabric.adapters.documents import files
from tests.fabric.adapters.documents.reading_one import read, refused

REPORT = Path("tests/data/attachments/chromium.pdf")


def locked(data, user, owner=None, algorithm="AES-256"):
    writer = PdfWriter(PdfReader(BytesIO(data)))
    writer.encrypt(user, owner, algorithm=algorithm)
    return files.written(writer)


def test_each_page_stands_behind_its_mark():
    found = read(files.pdf("The budget is 40 dollars.", "The deadline\nis Friday."))
    assert found.kind == "PDF"
    assert found.text == "[page 1]\nThe budget is 40 dollars.\n\n[page 2]\nThe deadline\nis Friday.\n"
    assert found.notes == ()


def test_a_pdf_that_a_browser_printed():
    """``tests/data/attachments/README.md`` says where it comes from."""
    found = read(REPORT.read_bytes())
    of = PlaceMap(found.text)
    assert of.pages == 2
    assert "Sales rose by 4 percent in the “north” region — costs fell to 1,249.50 €." in found.text
    start, end = of.span(Place(pages=(2, 2)))
    assert "Über alles" in found.text[start:end]


@pytest.mark.skipif("TEST_CHROMIUM" not in os.environ, reason="TEST_CHROMIUM names no browser")
def test_a_pdf_that_a_browser_prints_now(tmp_path):
    page, printed = tmp_path / "page.html", tmp_path / "page.pdf"
    page.write_text(
        "<meta charset=utf-8><h1>Plan</h1><p>Rent is 1,200 € — a “fair” price.</p>"
        "<p style='break-before:page'>The deadline is Friday.</p>"
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={tmp_path}"]
    command = [os.environ["TEST_CHROMIUM"], *options, f"--print-to-pdf={printed}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    found = read(printed.read_bytes())
    assert found.text == "[page 1]\nPlan\nRent is 1,200 € — a “fair” price.\n\n[page 2]\nThe deadline is Friday.\n"


def test_a_page_cannot_claim_to_be_another_one():
    found = read(files.pdf("[page 9]\nnot nine", "[row 3] none"))
    assert PlaceMap(found.text).pages == 2
    assert PlaceMap(found.text).rows == 0
    assert "(page 9)" in found.text


def test_pages_without_text_are_named():
    found = read(files.pdf("text", "", "text", ""))
    assert found.notes == ("no text on pages 2 and 4",)
    assert PlaceMap(found.text).pages == 4


@pytest.mark.parametrize("name", ["report.txt", "report.docx", "report", "report.png"])
def test_its_name_does_not_matter(name):
    assert read(files.pdf("text"), name).kind == "PDF"


def test_other_bytes_may_stand_before_it():
    assert read(b"\n\n" + files.pdf("text")).kind == "PDF"
    assert read(b"HTTP/1.1 200 OK\r\n\r\n" + files.pdf("text")).kind == "PDF"
    assert read(b"A PDF begins with %PDF-1.7 and ends with startxref.", "note.md").kind == "text"


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256"])
def test_a_password_is_named_and_one_that_opens_for_all_persons_is_no_hindrance(algorithm):
    told = refused(locked(files.pdf("secret"), "word", algorithm=algorithm))
    assert told == "is a PDF with a password; save it without the password and attach that"
    assert "secret" in read(locked(files.pdf("secret"), "", "owner", algorithm)).text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (files.pdf("", ""), "is a PDF without text: it is a scan or only pictures; run text recognition (OCR)"),
        (files.raw_pdf([b"<</Type/Catalog>>"]), "is a PDF that is damaged and cannot be read; print it"),
        (b"%PDF-1.7 and so on", "is a PDF that is damaged"),
        (files.pdf("half")[:300], "is a PDF that is damaged|without text"),
        (files.many_pages(PAGES_MAX + 1), "has 1,001 pages; at most 1,000 are taken; attach the part that matters"),
        (files.pdf(*["x" * 2_000] * 600), "has more than 1,000,000 bytes of text, the most that is taken"),
        (files.pdf("x") + b" " * 10_000_000, "bytes; at most 10,000,000 are taken; attach the part that matters"),
        (files.pdf("\\001\\002\\003\\004\\005"), "is a PDF whose fonts do not say which letters they show"),
    ],
    ids=["scan", "no pages", "a header", "half of one", "long", "wordy", "large", "no letters"],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(data, said):
    assert any(one in refused(data) for one in said.split("|"))


def test_as_many_pages_as_allowed():
    assert PlaceMap(read(files.many_pages(PAGES_MAX)).text).pages == PAGES_MAX
    assert len(read(files.pdf(*["x" * 1_900] * 500)).text) < TEXT_BYTES_MAX
