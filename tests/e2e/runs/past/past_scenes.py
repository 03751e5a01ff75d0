"""Scenes of runs as of an event, and of budgets that runs share: none, with room, used up; and a page that is told a wrong event."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page, expect

from tests.e2e.installation import Installation
from tests.e2e.scenes import FABRIC, FABRICS, NOTES, PATIENT, REQUESTS, Scene, started

NOTHING = (Scene("budgets-empty", "/models/budgets"),)
EMPTY_BUCKET = """
from fabric.models import Fabric, RetryBucket
fabric = Fabric.objects.get(name="no-answer")
RetryBucket.objects.update_or_create(scope=f"fabric:{fabric.id}", defaults={"level": 0})
from fabric.services.budgets.caps import budget_set
from fabric.services.actors import owner_actor
budget_set(actor=owner_actor(), amount=5_000_000)
"""


def fill(home: Installation, page: Page) -> dict[str, str]:
    """A run that completed, one that waits, one that failed and one that a shared budget refused; their ids."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    for name in ("contract-advice", "no-answer", "busy-hour"):
        title, description, options, budget = FABRICS[name]
        home.publish(FABRIC.format(name=name, title=title, description=description, options=options, budget=budget))
    ids = {name: started(page, name, REQUESTS[0], notes) for name in ("research-desk", "no-answer", "busy-hour")}
    return ids | {"waits": started(page, "contract-advice", REQUESTS[2], notes, PATIENT)}


def scrubbed(page: Page) -> None:
    """By keyboard: to the end, and two events back."""
    page.locator("#as-of").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#past")).to_have_attribute(
        "data-event", str(int(page.locator("#as-of").get_attribute("max") or 0) - 2)
    )


def scenes(home: Installation, ids: dict[str, str]) -> Iterator[Scene]:
    for name in ("research-desk", "no-answer", "waits"):
        last = int(str(home.stored(f"SELECT last_seq FROM fabric_run WHERE id = '{ids[name]}'")[0][0]))
        yield Scene(f"past-{name}", f"/runs/{ids[name]}?as_of={last // 2 if name != 'waits' else last}")
    yield Scene("past-scrubbed", f"/runs/{ids['research-desk']}?as_of=3", scrubbed)
    yield Scene("past-protections", f"/runs/{ids['no-answer']}?as_of=9&view=protections")
    yield Scene("past-wrong", f"/runs/{ids['no-answer']}?as_of=9999", status=422)
    yield Scene("past-way-in", f"/runs/{ids['research-desk']}")
    yield Scene("budgets-room", "/models/budgets")
    yield Scene("run-refused-by-shared", f"/runs/{ids['busy-hour']}")


def emptied(home: Installation) -> tuple[Scene, ...]:
    home.manage("django", "shell", "--verbosity", "0", "-c", EMPTY_BUCKET)
    home.stored("UPDATE fabric_budget SET spent = cap WHERE scope LIKE 'fabric:%'")
    return (Scene("budgets-used-up", "/models/budgets"),)
