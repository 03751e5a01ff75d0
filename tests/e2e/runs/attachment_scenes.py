"""Files on the start form: what is read of them, and those that no reader can read."""

from __future__ import annotations

from playwright.sync_api import FilePayload, Page

from tests.e2e.installation import RUN
from tests.e2e.scenes import Scene, send
from tests.fabric.adapters.documents import files as made


def read_files(page: Page) -> None:
    """Files of each kind, and what was read of them on the run's page."""
    page.locator("#text").fill("What does it cost, and when is it due?")
    table = "Name;Betrag\nMiete;1.200,50 €\nStrom;99 €;monatlich\n".encode("cp1252")
    sheets: dict[str, list[list[object]]] = {"Budget": [["Item", "Cost"], ["Rent", 1200.5]], "Notes": [["by", "Ada"]]}
    given = {
        "report.pdf": made.pdf("The budget is 40 dollars.", "", "The deadline is Friday."),
        "a-name-that-is-so-long-that-it-has-to-break-somewhere-on-a-phone.docx": made.word(
            "The offer stands until May."
        ),
        "costs.xlsx": made.workbook(sheets),
        "costs.csv": table,
    }
    page.locator("#documents").set_input_files(
        [FilePayload(name=name, mimeType="application/octet-stream", buffer=data) for name, data in given.items()]
    )
    send(page)
    page.wait_for_url(RUN)
    page.goto(f"{page.url.partition('?')[0]}?view=io")
    page.locator(".doc summary").first.click()
    page.locator(".doc[open] .doc-about").wait_for()


def unreadable_files(page: Page) -> None:
    """Files that no reader can read, each with its sentence."""
    page.locator("#text").fill("What does it cost?")
    given = {
        "scan.pdf": made.pdf(""),
        "costs.xlsx": made.workbook({"Sums": [[1, "=A1+1"]]}),
        "old.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument".encode("utf-16-le"),
        "fine.md": b"Fine.",
    }
    page.locator("#documents").set_input_files(
        [FilePayload(name=name, mimeType="application/octet-stream", buffer=data) for name, data in given.items()]
    )
    send(page)
    page.locator("#e-documents").wait_for()


SCENES = (
    Scene("start-read", "/runs/start", read_files),
    Scene("start-unreadable", "/runs/start", unreadable_files, 422),
)
