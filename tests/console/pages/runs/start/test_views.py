"""The start form: what it takes, what it gives back, and that nothing typed is lost."""

from __future__ import annotations

import hashlib
import html
import re
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fabric.composition import engine as wiring
from fabric.models import Attachment, Priority, Run
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import TEXT_BYTES_MAX, run_start
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.adapters.documents import files as made
from tests.fabric.services.world import NOTES, SMALL, sample


def send(browser, fabric="small", text="What do the notes say?", files=(), **more):
    documents = [SimpleUploadedFile(name, data) for name, data in files]
    return browser.post("/runs/start", {"fabric": fabric, "text": text, "documents": documents, **more})


def names_read() -> list[str]:
    """The names of the documents that the only run reads."""
    return sorted(Attachment.objects.filter(run_id=Run.objects.get().id).values_list("name", flat=True))


def test_the_page_offers_what_is_published(browser, small):
    page = browser.get("/runs/start").content.decode()
    assert "A small fabric" in page
    assert "small@r1" in page
    assert "What do the notes say?" in page
    assert "runs without a model" in page


def test_without_a_fabric_it_says_what_to_do(browser):
    assert b"manage.py fabric publish FILE" in browser.get("/runs/start").content


def test_its_example_is_filled_in(browser, small):
    assert "What do the notes say?</textarea>" in browser.get("/runs/start?fabric=small&example=1").content.decode()


def test_the_request_comes_before_the_fabrics_and_the_settings_are_folded(browser, small):
    page = browser.get("/runs/start").content.decode()
    assert (
        page.index('id="text"') < page.index("Start the run") < page.index('id="h-how"') < page.index('name="fabric"')
    )
    assert re.search(r'<textarea[^>]*id="text"[^>]* autofocus', page)
    assert '<details class="settings">' in page
    assert '<details class="settings" open>' in send(browser, tier="urgent").content.decode()


def test_the_last_used_fabric_is_picked_and_comes_first(browser, actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: another"))
    order = re.findall(r'name="fabric" value="([a-z]+)"', browser.get("/runs/start").content.decode())
    assert order == ["another", "small"]
    send(browser)
    page = browser.get("/runs/start").content.decode()
    assert re.findall(r'name="fabric" value="([a-z]+)"', page) == ["small", "another"]
    assert re.findall(r'value="([a-z]+)"[^>]*\bchecked>', page) == ["small"]


def test_a_model_without_an_endpoint_is_said_before_the_start(browser, actor, settings):
    settings.FABRIC_MODEL_URL = ""
    source = SMALL.replace("provider: scripted", "provider: openai\n    model: own")
    fabric_publish(actor=actor, source=source)
    page = html.unescape(browser.get("/runs/start").content.decode())
    assert "needs a model: no endpoint is set" in page
    assert "because script cannot be called" in page
    settings.FABRIC_MODEL_URL = "http://127.0.0.1:8431/v1"
    page = browser.get("/runs/start").content.decode()
    assert "no endpoint is set" not in page
    assert "calls a model" in page


def test_a_run_is_started(browser, small):
    answer = send(browser, files=[("notes.md", b"The budget is 40 dollars.")], tier="batch")
    run = Run.objects.get()
    assert answer.headers["Location"] == f"/runs/{run.id}"
    assert (run.state, run.tier, run.title, run.created_by) == ("queued", "batch", "What do the notes say?", "owner")
    assert list(Attachment.objects.values_list("name", "text")) == [("notes.md", "The budget is 40 dollars.")]


def test_the_script_is_told_where_to_go(browser, small):
    answer = browser.post("/runs/start", {"fabric": "small", "text": "x"}, headers={"HX-Request": "true"})
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
    "a PDF": ({"files": [("report.pdf", b"%PDF-1.7 ...")]}, "report.pdf is a PDF that is damaged and cannot be read"),
    "a scan": (
        {"files": [("scan.pdf", made.pdf(""))]},
        "scan.pdf is a PDF without text: it is a scan or only pictures",
    ),
    "a picture": ({"files": [("a.docx", b"\x89PNG")]}, "a.docx is a PNG image; pictures are not read"),
    "NUL": ({"files": [("blob.txt", b"a\0b")]}, "blob.txt is a binary file"),
    "not UTF-8": ({"files": [("old.txt", "Привет".encode("cp1251"))]}, "old.txt is no UTF-8 text"),
    "no text": ({"files": [("none.txt", b"  \n")]}, "none.txt is empty"),
    "too large": ({"files": [("big.txt", b"x" * 1_000_001)]}, "big.txt has 1,000,001 bytes"),
    "too many": ({"files": [(f"{n}.txt", b"x") for n in range(9)]}, "at most 8 files are taken"),
}


def test_a_pdf_is_read_at_once_and_the_runs_page_says_what_was_read(browser, small):
    report = made.pdf("The budget is 40 dollars.", "The deadline is Friday.")
    sheet = made.workbook({"Costs": [["Item", "Cost"], ["Rent", 1200]]})
    table = "Name;Betrag\nMiete;5 €\n".encode("cp1252")
    assert send(browser, files=[("report.pdf", report), ("costs.xlsx", sheet), ("a.csv", table)]).status_code == 302
    page = html.unescape(browser.get(f"/runs/{Run.objects.get().id}?view=io").content.decode())
    assert "PDF, 2 pages, 69 characters" in page
    assert "Excel workbook, 1 sheet, 2 rows" in page
    assert "CSV table, 2 rows" in page
    assert "Read as Windows-1252." in page
    assert hashlib.sha256(report).hexdigest() in page
    assert "The budget is 40 dollars. The deadline is Friday." in page


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


def test_a_newcomer_starts_with_the_first_look(browser, actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: another", 1))
    page = browser.get("/runs/start").content.decode()
    assert re.search(r'value="another" id="fabric-another"[^>]* checked>', page), "the first by name"
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: first-look", 1))
    page = browser.get("/runs/start").content.decode()
    assert re.search(r'value="first-look" id="fabric-first-look"[^>]* checked>', page), "README says so"


def test_the_example_of_the_first_look_reads_its_documents(browser, actor):
    fabric_publish(actor=actor, source=sample("first-look"))
    page = browser.get("/runs/start?fabric=first-look&example=1").content.decode()
    assert 'name="example_of" value="first-look" checked>' in page
    assert "<b>minutes.md</b>, <b>offer.md</b>" in page
    came_back = send(browser, fabric="first-look", text="", example_from="first-look").content.decode()
    assert 'name="example_of" value="first-look">' in came_back, "left out, and still offered"
    send(browser, fabric="first-look", example_of="first-look", files=[("notes.md", b"We agree.")])
    assert names_read() == ["minutes.md", "notes.md", "offer.md"]


@pytest.mark.parametrize("name", ["research-desk", "../templates", "nothing"])
def test_an_example_without_documents_brings_none(browser, actor, small, name):
    page = send(browser, text="", example_of=name).content.decode()
    assert 'name="example_of"' not in page
    send(browser, example_of=name)
    assert names_read() == []


def test_what_was_picked_stays_picked(browser, small, doubtful):
    page = send(browser, fabric="small", text="", tier="batch").content.decode()
    assert re.search(r'value="small" id="fabric-small"[^>]* checked>', page)
    assert '<option value="batch" selected>' in page


def test_a_tier_says_what_it_means_for_each_fabric(browser, small):
    page = html.unescape(browser.get("/runs/start").content.decode())
    table = page.partition('<div class="mean" data-fabric="small">')[2].partition("</div></div>")[0]
    text = " ".join(re.sub("<[^>]+>", " ", table).split())
    assert "Low-latency interactive default 30 s 2 m 5 m" in text
    assert "money $1.0000 a run" in text
    assert "model turns 25 a step" in text


def test_priority_and_session_reach_the_run(browser, small):
    send(browser, priority="critical", session_key="  TICKET-4711 ")
    run = Run.objects.get()
    assert (Priority(run.priority).label, run.session_key) == ("critical", "TICKET-4711")


def test_without_them_the_tier_decides_and_the_run_stands_alone(browser, small):
    send(browser, tier="batch")
    run = Run.objects.get()
    assert (Priority(run.priority).label, run.session_key) == ("low", "")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"priority": "urgent"}, "There is no such priority; there are: critical, high, normal, low."),
        ({"session_key": "x" * 201}, "The session has 201 characters; at most 200 are taken"),
        ({"session_key": "a\0b"}, "Null characters are not allowed."),
        ({"start_key": "x" * 65}, "The form was damaged on its way"),
        ({"documents_of": "x" * 65}, "The form was damaged on its way"),
        ({"example_of": "x" * 65}, "The form was damaged on its way"),
    ],
)
def test_what_is_wrong_with_the_rest_is_said_too(browser, small, given, sentence):
    answer = send(browser, **given)
    assert answer.status_code == 422
    assert sentence in html.unescape(answer.content.decode())
    assert "What do the notes say?</textarea>" in answer.content.decode()
    assert not Run.objects.exists()


def test_one_like_an_earlier_run(browser, small, doubtful):
    """Everything it was asked is in the form, its documents can be taken along, and it is a run of its own."""
    files = [("notes.md", b"The budget is 40 dollars."), ("more.txt", b"And a line.")]
    send(browser, fabric="doubtful", text="One\nTwo", files=files, tier="batch", priority="high", session_key="S-1")
    first = Run.objects.get()
    page = html.unescape(browser.get(f"/runs/start?from={first.id}").content.decode())
    assert re.search(r'value="doubtful" id="fabric-doubtful"[^>]* checked>', page)
    assert "One\nTwo</textarea>" in page
    assert '<option value="batch" selected>' in page
    assert '<option value="high" selected>' in page
    assert 'value="S-1"' in page
    assert f'name="documents_of" value="{first.id}" checked' in page
    assert f'href="/runs/{first.id}"' in page
    key = page.partition('name="start_key" id="start-key" value="')[2].partition('"')[0]
    send(
        browser,
        fabric="doubtful",
        text="One\nTwo",
        documents_of=first.id,
        files=[("new.txt", b"New.")],
        start_key=key,
    )
    second = Run.objects.exclude(id=first.id).get()
    names = Attachment.objects.filter(run_id=second.id).order_by("position").values_list("name", flat=True)
    assert list(names) == ["notes.md", "more.txt", "new.txt"]


def test_its_documents_stay_offered_when_the_form_comes_back(browser, small):
    send(browser, files=[("notes.md", b"The budget is 40 dollars.")])
    first = Run.objects.get().id
    page = send(browser, text="", documents_from=first).content.decode()
    assert f'name="documents_of" value="{first}">' in page
    assert "notes.md" in page
    page = send(browser, text="", documents_from=first, documents_of=first).content.decode()
    assert f'name="documents_of" value="{first}" checked>' in page


@pytest.mark.parametrize("which", ["unknown", "foreign", "garbage"])
def test_not_like_a_run_that_is_not_here(browser, small, stranger, which):
    fabric_publish(actor=stranger, source=SMALL)
    theirs = run_start(
        store=wiring.store(), nudge=NullNudge(), actor=stranger, fabric="small", text="only theirs", documents=(NOTES,)
    )
    named = {"unknown": str(uuid4()), "foreign": theirs.run_id, "garbage": "../../etc/passwd"}[which]
    assert browser.get("/runs/start", {"from": named}).status_code == 404
    answer = send(browser, documents_of=named)
    assert answer.status_code == 404
    assert b"there is no run" in answer.content.lower()
    assert b"only theirs" not in answer.content
    assert b"notes.md" not in answer.content
    assert Run.objects.count() == 1


def test_more_files_than_a_run_takes_with_the_earlier_ones(browser, small):
    send(browser, files=[(f"{n}.txt", b"x") for n in range(8)])
    first = Run.objects.get().id
    answer = send(browser, documents_of=first, files=[("9.txt", b"x")])
    assert answer.status_code == 413
    assert b"9 files are attached; at most 8 files are taken" in answer.content
    assert Run.objects.count() == 1


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
    from fabric.composition import engine as wiring
    from fabric.runtime.ports.journal import StoreUnavailable

    clock = wiring.store()

    class Full:
        def now(self):
            return clock.now()

        def create(self, new, *, audit=None):
            raise StoreUnavailable("the database file cannot be written; give its folder back to this user")

    monkeypatch.setattr(wiring, "store", Full)
    answer = send(browser)
    assert answer.status_code == 503
    assert b"cannot be written" in answer.content
    assert b"What do the notes say?</textarea>" in answer.content
