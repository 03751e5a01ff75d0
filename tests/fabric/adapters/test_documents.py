import pytest

from fabric.adapters.documents import (
    BYTES_MAX,
    FILES_MAX,
    MAGIC,
    NAME_CHARS,
    AttachmentRefused,
    clean_name,
    documents_of,
    text_of,
)
from fabric.runtime.ports import Document


def test_text_is_taken_as_it_is():
    files = [("a.md", "# Über\r\n\r\nText 😀\r".encode()), ("b.csv", b"\xef\xbb\xbfx,y\n1,2\n")]
    assert documents_of(files) == (Document("a.md", "# Über\n\nText 😀\n"), Document("b.csv", "x,y\n1,2\n"))


@pytest.mark.parametrize(("magic", "kind"), MAGIC.items())
def test_known_kinds_of_file_are_named(magic, kind):
    with pytest.raises(AttachmentRefused, match=f"thing.bin is {kind}; only plain text is taken"):
        text_of("thing.bin", magic + b" rest")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a\0b", "a binary file"),
        ("text".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
        (b"caf\xe9", r"no UTF-8 text \(byte 3 is not\)"),
        (b"x" * (BYTES_MAX + 1), "has 1,000,001 bytes; at most 1,000,000"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
    ],
)
def test_what_is_no_text_is_refused_with_one_sentence_that_names_the_file(data, said):
    with pytest.raises(AttachmentRefused, match=f"notes.txt (is|has).*{said}|notes.txt {said}") as caught:
        documents_of([("fine.md", b"fine"), ("notes.txt", data)])
    assert "\n" not in str(caught.value)


def test_as_many_as_allowed_and_no_more():
    files = [(f"{n}.md", b"x" * BYTES_MAX) for n in range(FILES_MAX)]
    assert len(documents_of(files)) == FILES_MAX
    with pytest.raises(AttachmentRefused, match="at most 8 files"):
        documents_of([*files, ("9.md", b"x")])


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
    assert [one.name for one in documents_of(files)] == ["x.md", "x (2).md", "X (3).MD", "noend", "noend (2)"]
