import pytest

from tests.fabric.adapters.documents import files
from tests.fabric.adapters.documents.reading_one import read, refused

BREAK = "<w:r><w:lastRenderedPageBreak/></w:r>"
PLAIN = "<w:p><w:r><w:t>one</w:t></w:r></w:p>"


def body(xml):
    return read(files.word_with(xml)).text


def test_paragraphs_and_tables_stand_in_their_order():
    found = read(files.word("Before.", [["Item", "Cost"], ["Rent", "1,200"]], "After."))
    assert found.kind == "Word document"
    assert found.text.split("\n") == ["Before.", "Item | Cost", "Rent | 1,200", "", "After."]
    assert found.notes == ("its pages are not known, because where its pages end is not saved in it",)


def test_pages_are_as_word_last_laid_them_out():
    found = read(files.word_with(f"{PLAIN}<w:p>{BREAK}<w:r><w:t>two</w:t></w:r></w:p>"))
    assert found.text == "[page 1]\none\n\n[page 2]\ntwo\n"
    assert found.notes == ("its pages are as Word last laid it out",)


def test_a_page_may_end_in_the_middle_of_a_paragraph_and_of_a_table():
    row = f"<w:tr><w:tc><w:p>{BREAK}<w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr>"
    xml = f"<w:p><w:r><w:t>one </w:t><w:lastRenderedPageBreak/><w:t>two</w:t></w:r></w:p><w:tbl>{row}</w:tbl>"
    assert body(xml) == "[page 1]\none\n\n[page 2]\ntwo\n\n[page 3]\ncell\n"


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        (
            "<w:p><w:ins><w:r><w:t>added</w:t></w:r></w:ins><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>",
            "added",
        ),
        (
            "<w:p><w:moveFrom><w:r><w:t>from</w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>to</w:t></w:r></w:moveTo></w:p>",
            "to",
        ),
        ("<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>", "control"),
        ("<w:p><w:sdt><w:sdtContent><w:r><w:t>inline</w:t></w:r></w:sdtContent></w:sdt></w:p>", "inline"),
        ("<w:p><w:hyperlink><w:r><w:t>a link</w:t></w:r></w:hyperlink></w:p>", "a link"),
        (
            "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>",
            "a\tb\nc",
        ),
        ("<w:p><w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known</w:t></w:r></w:p>", "well-known"),
        ("<w:p><w:r><w:t>[page 7]</w:t></w:r></w:p>", "(page 7)"),
    ],
)
def test_text_is_what_a_reader_of_the_document_sees(xml, text):
    assert body(xml) == text


def test_a_table_in_a_table_stands_in_its_cell():
    inner = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>in</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    xml = f"<w:tbl><w:tr><w:tc>{inner}</w:tc><w:tc><w:p><w:r><w:t>out</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    assert body(xml) == "in | out"


@pytest.mark.parametrize(
    ("mark", "noted"), [("<w:vanish/>", True), ('<w:vanish w:val="0"/>', False), ("<w:b/>", False)]
)
def test_text_that_word_does_not_show_is_read_and_noted(mark, noted):
    found = read(files.word_with(f"<w:p><w:r><w:rPr>{mark}</w:rPr><w:t>pay twice</w:t></w:r></w:p>"))
    assert (found.text, "hidden text read too" in found.notes) == ("pay twice", noted)


STRICT = files.replaced(
    files.word("x"), "word/document.xml", '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"/>'
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (STRICT, "is saved as Strict Open XML; save it as an ordinary DOCX or XLSX and attach that"),
        (files.word(), "is a Word document without text"),
        (files.word_with("<w:p>"), "is a Word document that is damaged"),
        (files.replaced(files.word("x"), "word/document.xml", "no XML"), "no Office program writes|damaged"),
        (files.word("x" * 1_000_001), "has more than 1,000,000 bytes of text"),
        (files.word("x")[:2_000], "is an archive or Office file that is damaged"),
    ],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(data, said):
    assert any(one in refused(data) for one in said.split("|"))
