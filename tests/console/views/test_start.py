"""The start form: what it takes, what it gives back, and that nothing typed is lost."""

from __future__ import annotations

import html

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fabric.models import Attachment, Run
from fabric.services.runs import TEXT_BYTES_MAX


def send(browser, fabric="small", text="What do the notes say?", files=(), **more):
    documents = [SimpleUploadedFile(name, data) for name, data in files]
    return browser.post("/", {"fabric": fabric, "text": text, "documents": documents, **more})


def test_the_page_offers_what_is_published(browser, small):
    page = browser.get("/").content.decode()
    assert "A small fabric" in page
    assert "small@r1" in page
    assert "What do the notes say?" in page
    assert "needs no model and no key" in page


def test_without_a_fabric_it_says_what_to_do(browser):
    assert b"manage.py fabric publish FILE" in browser.get("/").content


def test_its_example_is_filled_in(browser, small):
    assert "What do the notes say?</textarea>" in browser.get("/?fabric=small&example=1").content.decode()


def test_a_run_is_started(browser, small):
    answer = send(browser, files=[("notes.md", b"The budget is 40 dollars.")], tier="batch")
    run = Run.objects.get()
    assert answer.headers["Location"] == f"/runs/{run.id}"
    assert (run.state, run.tier, run.title, run.created_by) == ("queued", "batch", "What do the notes say?", "owner")
    assert list(Attachment.objects.values_list("name", "text")) == [("notes.md", "The budget is 40 dollars.")]


def test_the_script_is_told_where_to_go(browser, small):
    answer = browser.post("/", {"fabric": "small", "text": "x"}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    assert answer.headers["HX-Redirect"] == f"/runs/{Run.objects.get().id}"


def test_sent_twice_it_is_one_run(browser, small):
    first, second = send(browser, start_key="page-1"), send(browser, start_key="page-1")
    assert first.headers["Location"] == second.headers["Location"]
    assert Run.objects.count() == 1


def test_an_old_form_that_was_changed_starts_a_second_run_when_it_is_sent_again(browser, small):
    send(browser, start_key="page-1")
    refused = send(browser, start_key="page-1", text="Something else")
    assert refused.status_code == 409
    page = refused.content.decode()
    assert "Something else</textarea>" in page
    assert "has started a run already" in page
    key = page.partition('name="start_key" id="start-key" value="')[2].partition('"')[0]
    assert key
    assert send(browser, start_key=key, text="Something else").status_code == 302
    assert Run.objects.count() == 2


WRONG = {
    "empty": ({"text": " \n "}, "The request is empty"),
    "too long": ({"text": "ä" * (TEXT_BYTES_MAX // 2 + 1)}, "at most 65,536 are taken"),
    "unknown fabric": ({"fabric": "nosuch"}, "There is no such fabric"),
    "no fabric": ({"fabric": ""}, "Pick a fabric"),
    "unknown tier": ({"tier": "urgent"}, "does not run in that tier"),
    "a PDF": ({"files": [("report.pdf", b"%PDF-1.7 ...")]}, "report.pdf is a PDF; only plain text is taken"),
    "NUL": ({"files": [("blob.txt", b"a\0b")]}, "blob.txt is a binary file"),
    "not UTF-8": ({"files": [("old.txt", b"caf\xe9")]}, "old.txt is no UTF-8 text"),
    "no text": ({"files": [("none.txt", b"  \n")]}, "none.txt is empty"),
    "too large": ({"files": [("big.txt", b"x" * 1_000_001)]}, "big.txt has 1,000,001 bytes"),
    "too many": ({"files": [(f"{n}.txt", b"x") for n in range(9)]}, "at most 8 are taken"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_stands_beside_the_field(browser, small, case):
    given, sentence = WRONG[case]
    answer = send(browser, **given)
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert sentence in page
    assert f"{given.get('text', 'What do the notes say?').strip()}</textarea>" in page
    assert not Run.objects.exists()


def test_everything_that_is_wrong_is_said_at_once(browser, small):
    files = [("report.pdf", b"%PDF-1.7"), ("ok.txt", b"fine"), ("blob.bin", b"\0")]
    page = html.unescape(send(browser, text="", tier="urgent", files=files).content.decode())
    for part in (
        "The request is empty",
        "does not run in that tier",
        "report.pdf is a PDF",
        "blob.bin is a binary file",
    ):
        assert part in page
    assert page.count("aria-invalid") == 3


def test_what_was_picked_stays_picked(browser, small, doubtful):
    page = send(browser, fabric="small", text="", tier="batch").content.decode()
    assert 'value="small" id="fabric-small" checked' in page
    assert '<option value="batch" selected>' in page


def test_a_form_larger_than_any_is_one_sentence(browser, small):
    answer = send(browser, text="x" * 10_000_000)
    assert answer.status_code == 413
    assert b"a request may have 64 KB" in answer.content
    assert not Run.objects.exists()


def test_what_is_typed_does_not_act(browser, small):
    page = send(browser, text="<script>alert(1)</script></textarea><img src=x onerror=alert(1)>", tier="urgent")
    assert b"<script>alert" not in page.content
    assert b"<img src=x" not in page.content
    assert b"&lt;script&gt;alert(1)" in page.content


def test_a_database_that_cannot_be_written_is_a_sentence(browser, small, monkeypatch):
    from fabric import wiring
    from fabric.runtime.ports import StoreUnavailable

    class Full:
        def create(self, new):
            raise StoreUnavailable("the database file cannot be written; give its folder back to this user")

    monkeypatch.setattr(wiring, "store", Full)
    answer = send(browser)
    assert answer.status_code == 503
    assert b"cannot be written" in answer.content
    assert b"What do the notes say?</textarea>" in answer.content
