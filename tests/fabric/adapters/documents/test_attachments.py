import hashlib

import pytest

from fabric.adapters.documents import attachments as reading
from fabric.adapters.documents.attachments import (
    BYTES_MAX,
    FILES_MAX,
    NAME_CHARS,
    TOTAL_BYTES_MAX,
    AttachmentRefused,
    check_documents,
    clean_name,
    list_documents,
    read_all,
)
from fabric.runtime.ports.batch_parts import excerpt, find_origin
from fabric.runtime.ports.journal import Document
from tests.fabric.adapters.documents import files as made


def test_each_file_is_text_with_the_origin_that_it_was_read_from():
    data = made.pdf("The budget.", "The deadline.")
    notes, report = list_documents([("a.md", "# Über\r\n😀".encode()), ("b.pdf", data)])
    assert (notes.name, notes.text) == ("a.md", "# Über\n😀")
    assert report.text == "[page 1]\nThe budget.\n\n[page 2]\nThe deadline.\n"
    origin = find_origin(report.origin)
    assert (origin.kind, origin.bytes, origin.sha256) == ("PDF", len(data), hashlib.sha256(data).hexdigest())
    assert origin.words() == "PDF, 2 pages, 45 characters"
    assert excerpt(report.text) == "The budget. The deadline."
    assert find_origin(notes.origin).words() == "text, 8 characters"


def test_a_workbook_says_its_sheets_and_rows():
    (document,) = list_documents([("b.xlsx", made.workbook({"A": [[1], [2]], "B": [[3]]}))])
    assert find_origin(document.origin).words() == "Excel workbook, 2 sheets, 3 rows, 51 characters"
    assert find_origin(document.origin).sheets == ("A", "B")


def test_every_file_that_is_not_taken_is_named_and_the_others_are_read():
    files = [("a.md", b"fine"), ("a.png", b"\x89PNG"), ("a.md", b"x" * (BYTES_MAX + 1)), ("c.pdf", b"%PDF-1")]
    taken, problems = read_all(files)
    assert [one.name for one in taken] == ["a.md"]
    assert [(one.place, one.code) for one in problems] == [(1, "invalid"), (2, "too_large"), (3, "invalid")]
    assert str(problems[1]).startswith("a (2).md has 1,000,001 bytes")
    with pytest.raises(AttachmentRefused, match=r"a.png is a PNG image; "):
        list_documents(files)


def test_files_of_one_request_share_its_time(monkeypatch):
    monkeypatch.setattr(reading, "REQUEST_S", 0.05)
    slow = made.busy_page(3_000_000)
    _, problems = read_all([("a.pdf", slow), ("b.pdf", slow), ("c.md", b"words")])
    assert [str(one) for one in problems] == [
        f"{name} takes too long to be read; attach the part that matters" for name in ("a.pdf", "b.pdf")
    ]


def test_as_many_as_allowed_and_no_more():
    files = [(f"{n}.md", b"x" * BYTES_MAX) for n in range(FILES_MAX)]
    assert len(list_documents(files)) == FILES_MAX
    with pytest.raises(AttachmentRefused, match="9 files are attached; at most 8 files are taken; attach fewer"):
        list_documents([*files, ("9.md", b"x")])
    large = made.pdf("x") + b" " * (TOTAL_BYTES_MAX // 4)
    with pytest.raises(AttachmentRefused, match="the files have .* bytes together; at most 30,000,000 are taken"):
        list_documents([(f"{n}.pdf", large) for n in range(4)])


def test_what_was_read_before_is_not_read_again():
    """A table whose rows are marked is no CSV any more, and a text may begin like a PDF."""
    read = list_documents([("a.csv", b"a,b\n1,2\n"), ("b.pdf", made.pdf("x"))])
    assert check_documents(read) == read
    assert check_documents([Document("x.csv", "a,b\n1,2\n"), Document("p", "%PDF-1.7")])[0].text == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([Document("a", "x")] * 9, "9 files are attached; at most 8"),
        ([Document("a", "x" * (BYTES_MAX + 1))], "a has 1,000,001 bytes of text; at most 1,000,000"),
        ([Document("a", "fine"), Document("b", " \n")], "b is empty"),
    ],
)
def test_what_was_read_before_is_bounded_too(given, said):
    with pytest.raises(AttachmentRefused, match=said):
        check_documents(given)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.md", "report.md"),
        ("/etc/../passwd", "passwd"),
        ("C:\\Users\\me\\plan.txt", "plan.txt"),
        ("a\u202etxt.exe", "atxt.exe"),
        ("a\x00b\x1b[31m.md", "ab_31m.md"),
        ("zero\u200bwidth\ufeff.md", "zerowidth.md"),
        ("lone\ud800.md", "lone.md"),
        ("two\nlines.md", "twolines.md"),
        ("[see] <b>.md", "_see_ _b_.md"),
        ("  spaced   out .md ", "spaced out .md"),
        ("cafe\u0301.md", "café.md"),
        ("..", "document"),
        ("", "document"),
        ("/", "document"),
        ("x" * 300 + ".md", "x" * (NAME_CHARS - 3) + ".md"),
        ("x" * 300, "x" * NAME_CHARS),
    ],
)
def test_names_are_cleaned(given, kept):
    assert clean_name(given) == kept
    assert clean_name(kept) == kept


def test_names_are_made_unique():
    files = [("a/x.md", b"1"), ("b/x.md", b"2"), ("X.MD", b"3"), ("noend", b"4"), ("noend", b"5")]
    assert [one.name for one in list_documents(files)] == ["x.md", "x (2).md", "X (3).MD", "noend", "noend (2)"]
