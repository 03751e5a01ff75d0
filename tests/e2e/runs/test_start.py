"""Starting a run, in a real browser: checks beside the field, drafts, double presses, one like an earlier run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import NOWHERE
from tests.e2e.installation import RUN
from tests.fabric.adapters.documents import files as made

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NOTES = {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"The budget is 40 dollars."}
PDF = {"name": "report.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7 and so on"}
REPORT = {"name": "report.pdf", "mimeType": "application/pdf", "buffer": made.pdf("The budget is 40 dollars.")}
PICTURE = {"name": "scan.pdf", "mimeType": "application/pdf", "buffer": b"\x89PNG\r\n"}
LARGE = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"x" * 1_000_001}
EMPTY = {"name": "old.txt", "mimeType": "text/plain", "buffer": b""}


@pytest.fixture
def page(visit):
    found = visit(NOWHERE).page
    found.goto("/runs/start")
    return found


def test_files_are_checked_beside_the_field_before_anything_is_sent(page):
    page.get_by_label("Documents to read").set_input_files([NOTES, REPORT, PICTURE, LARGE, EMPTY])
    said = page.locator("#c-documents")
    said.get_by_text("scan.pdf is a PNG image; attach a PDF, DOCX, XLSX, CSV or text file").wait_for()
    assert "large.txt has 1,000,001 bytes; at most 1,000,000 are taken" in said.inner_text()
    assert "old.txt is empty" in said.inner_text()
    assert page.locator("#documents").get_attribute("aria-invalid") == "true"
    assert page.locator("#files li[data-tone=danger]").count() == 3
    page.get_by_label("Documents to read").set_input_files([NOTES])
    page.wait_for_function("document.getElementById('c-documents').textContent === ''")
    assert page.locator("#documents").get_attribute("aria-invalid") is None
    assert "notes.md" in page.locator("#files").inner_text()


def test_what_the_browser_let_through_the_server_says_in_the_same_place(page):
    """The server alone can read a PDF; its sentence does not stay once it is mended."""
    page.get_by_label("Your request").fill("What is due?")
    page.get_by_label("Documents to read").set_input_files([PDF])
    page.get_by_role("button", name="Start the run").click()
    page.locator("#e-documents").get_by_text("report.pdf is a PDF that is damaged").wait_for()
    assert page.get_by_text("report.pdf is a PDF").count() == 1
    assert page.locator("#documents").get_attribute("aria-invalid") == "true"
    assert page.locator("#text").input_value() == "What is due?"
    page.get_by_label("Documents to read").set_input_files([NOTES])
    page.wait_for_function("!document.getElementById('e-documents')")
    page.get_by_label("Documents to read").set_input_files([NOTES, REPORT])
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    page.goto(f"{page.url.partition('?')[0]}?view=io")
    page.get_by_text("PDF, 1 page, 35 characters").wait_for()
    assert page.locator(".doc-begins").all_inner_texts() == ["The budget is 40 dollars."] * 2


def test_a_tier_shows_what_it_means_for_the_picked_fabric(page):
    page.get_by_role("radio", name=re.compile("Research desk")).check()
    page.get_by_role("heading", name="Run settings").click()
    shown = page.locator(".mean.shown")
    assert shown.get_attribute("data-fabric") == "research-desk"
    assert shown.locator("tr.on .tag").inner_text() == "default"
    assert "Ceilings in every tier" in shown.inner_text()
    page.get_by_label("Tier").select_option("batch")
    assert shown.locator("tr.on").get_attribute("data-tier") == "batch"


def test_a_draft_survives_leaving_the_page_and_not_the_start(page):
    page.get_by_label("Your request").fill("Half a thought")
    page.get_by_role("heading", name="Run settings").click()
    page.get_by_label("Priority").select_option("low")
    page.get_by_label("Session").fill("TICKET-1")
    page.goto("/runs")
    page.goto("/runs/start")
    assert page.locator("#text").input_value() == "Half a thought"
    assert page.locator("#priority").input_value() == "low"
    assert page.locator("#session_key").input_value() == "TICKET-1"
    assert page.locator("#draft").is_visible()
    assert page.get_by_label("Priority").is_visible(), "the settings of a draft are open"
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    page.goto("/runs/start")
    assert page.locator("#text").input_value() == ""
    assert not page.locator("#draft").is_visible()


def test_a_draft_is_dropped_when_it_is_not_wanted(page):
    page.get_by_label("Your request").fill("Half a thought")
    page.reload()
    page.get_by_role("button", name="Start empty").click()
    assert page.locator("#text").input_value() == ""
    page.reload()
    assert page.locator("#text").input_value() == ""


def test_a_server_that_is_away_costs_nothing_that_was_typed(page):
    page.get_by_label("Your request").fill("Worth keeping")
    page.route("**/runs/start", lambda route: route.abort())
    page.get_by_role("button", name="Start the run").click()
    page.locator("#notice .banner").wait_for()
    assert page.locator("#text").input_value() == "Worth keeping"
    page.unroute("**/runs/start")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)


@pytest.mark.parametrize("scripting", [True, False])
def test_two_presses_start_one_run(visit, scripting):
    page = visit(NOWHERE, java_script_enabled=scripting).page
    page.goto("/runs/start")
    text = f"Pressed twice {scripting}"
    page.get_by_label("Your request").fill(text)
    page.get_by_role("button", name="Start the run").dblclick()
    expect(page).to_have_url(RUN)  # The second press gives up the first one's navigation: only the last is waited for.
    page.goto("/runs")
    assert page.get_by_role("row").filter(has_text=text).count() == 1


def test_one_like_an_earlier_run(page):
    page.get_by_label("Your request").fill("What is due, and when?")
    page.get_by_label("Documents to read").set_input_files([NOTES])
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    earlier = page.url.rpartition("/")[2]
    page.goto(f"/runs/start?from={earlier}")
    assert page.locator("#text").input_value() == "What is due, and when?"
    assert page.get_by_label("Read the earlier run").is_checked()
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(lambda url: RUN.search(url) is not None and earlier not in url)
    assert "notes.md" in page.content()


def test_without_the_script_mistakes_come_back_beside_their_fields(visit):
    page = visit(NOWHERE, java_script_enabled=False).page
    page.goto("/runs/start")
    page.get_by_label("Your request").fill("What is due?")
    page.get_by_role("heading", name="Run settings").click()
    page.get_by_label("Session").fill("x" * 201)
    page.get_by_label("Documents to read").set_input_files([PDF])
    page.get_by_role("button", name="Start the run").click()
    assert "report.pdf is a PDF" in page.locator("#e-documents").inner_text()
    assert "at most 200 are taken" in page.locator("#e-session").inner_text()
    assert page.locator("#text").input_value() == "What is due?"
    assert page.locator(".mean").first.is_visible()


def test_a_fabric_is_found_by_its_words_and_enter_starts_nothing(page):
    find = page.get_by_label("Find a fabric")
    find.fill("research")
    assert page.locator(".pick:visible").count() < page.locator(".pick").count()
    find.press("Enter")
    assert page.url.endswith("/runs/start")
    page.get_by_role("radio", name=re.compile("Research desk")).check()
    assert page.locator("#picked").inner_text() == "Research desk"
