"""Scenes of acting on many runs: selection and bar, consequences, a job that runs, stopped and ended ones, and saved views."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from playwright.sync_api import Page, expect

from tests.e2e.decided import decided
from tests.e2e.installation import Installation
from tests.e2e.scenes import FABRIC, FABRICS, NOTES, PATIENT, REQUESTS, Scene, started

EMPTY = (Scene("jobs-empty", "/runs/jobs"), Scene("views-empty", "/runs/views"))


def many(home: Installation, page: Page) -> dict[str, str]:
    """Runs that wait, and one that has ended; their ids by name."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    title, description, options, budget = FABRICS["contract-advice"]
    home.publish(
        FABRIC.format(name="contract-advice", title=title, description=description, options=options, budget=budget)
    )
    ids = {
        f"waiting{n}": started(page, "contract-advice", REQUESTS[n % len(REQUESTS)], notes, PATIENT) for n in range(4)
    }
    ids["ended"] = started(page, "contract-advice", "What do we owe?", notes, PATIENT)
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    page.goto("/runs?q=state:waiting")
    for name, shared in (("Waits for us", False), ("Contract desk, this week", True)):
        page.locator("#save-view summary").click()
        page.get_by_label("Name of the view").fill(name)
        if shared:
            page.get_by_label("shared with the workspace").check()
        page.get_by_role("button", name="Save the view").click()
        page.goto("/runs?q=fabric:contract-advice+started:-7d&sort=-started")
    return ids


def selected(page: Page) -> None:
    """Two rows are selected, one by its key."""
    page.locator(".c-pick input").first.check()
    page.keyboard.press("j")
    page.locator("a.cell").nth(1).focus()
    page.keyboard.press("x")
    expect(page.locator("#bulk-count")).to_have_text("2 selected")


def whole(page: Page) -> None:
    """All that match are chosen."""
    page.locator("#bulk-all").check()
    expect(page.locator("#bulk-count")).to_contain_text("All")


def open_columns(page: Page) -> None:
    """The boxes of the columns."""
    page.locator("#columns summary").click()


def open_save(page: Page) -> None:
    """The form for one more view."""
    page.locator("#save-view summary").click()


def listed(ids: dict[str, str]) -> Iterator[Scene]:
    """The list with its bar, and what is asked before a job begins."""
    yield Scene("jobs-selected", "/runs", selected)
    yield Scene("jobs-all-matching", "/runs?q=state:waiting", whole)
    yield Scene("views-tabs", "/runs?q=state:waiting")
    yield Scene("views-columns-open", "/runs", open_columns)
    yield Scene("views-save-open", "/runs", open_save)
    yield Scene("views-list", "/runs/views")
    yield Scene("jobs-new-cancel", "/runs/jobs/new?action=cancel&all=1&q=fabric:contract-advice")
    yield Scene("jobs-new-terminate", f"/runs/jobs/new?action=terminate&run={ids['waiting0']}&run={ids['waiting1']}")
    yield Scene("jobs-new-nothing", "/runs/jobs/new?action=pause", status=422)


def begin(page: Page, query: str, reason: str) -> str:
    """Begin a job in the browser; its id."""
    page.goto(f"/runs/jobs/new?action=cancel&all=1&q={query}")
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Cancel ").click()
    page.wait_for_url("**/runs/jobs/*")
    return page.url.rpartition("/")[2]


def parts(home: Installation, page: Page) -> Iterator[list[Scene]]:
    """A job while its worker stands still in the middle of it, after a stop, and one that ended with a refusal."""
    worker = home.worker()
    os.kill(worker, signal.SIGSTOP)
    try:
        job_id = begin(page, "state:waiting", "The provider is down.")
        home.stored("UPDATE fabric_run_job SET done = 2, refused = 1 WHERE id = ?", job_id)
        yield [Scene("jobs-running", f"/runs/jobs/{job_id}")]
        page.goto(f"/runs/jobs/{job_id}")
        page.get_by_role("button", name="Stop the job").click()
        page.get_by_text("It ends after its present batch.").wait_for()
        yield [Scene("jobs-stopping", f"/runs/jobs/{job_id}")]
    finally:
        os.kill(worker, signal.SIGCONT)
    page.locator("[data-over]").wait_for()
    yield [Scene("jobs-stopped", f"/runs/jobs/{job_id}")]
    job_id = begin(page, "fabric:contract-advice", "The provider is down until Thursday.")
    page.locator("[data-over]").wait_for()
    yield [Scene("jobs-ended", f"/runs/jobs/{job_id}"), Scene("jobs-list", "/runs/jobs")]
