"""All fabrics with their drills, the library of scenarios, and its form: nothing there, much, stale, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.drills.drill_scenes import DRILLED
from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

NONE = (Scene("fleet-no-fabric", "/drills"),)
NEVER = (Scene("fleet-never", "/drills"), Scene("fleet-library-never", "/scenarios?fabric=incident-triage"))
WHOLE = """
from fabric.services.actors import owner_actor
from fabric.worker.process.duties import database_us
from simulator.drills.models.tables import Drill, Status
from simulator.drills.services.drills import drill_ask
for name in ("document-review", "incident-triage"):
    for n in range(4):
        asked = drill_ask(actor=owner_actor(), fabric=name, cells="all")
        now = database_us()
        Drill.objects.filter(batch=asked.batch).update(status=Status.COMPLETED, verdict="pass", started_at=now, ended_at=now)
        if name == "incident-triage" and n in (1, 3):
            Drill.objects.filter(id__in=asked.drills[: 3 * n]).update(verdict="deviated")
Drill.objects.filter(fabric__name="document-review", failure="cost_overrun").update(covers="before")
"""


def wrong(page: Page) -> None:
    page.locator("#name").fill("My name")
    page.locator("#title").fill("")
    page.locator("#v-times").fill("-1")
    page.locator("#probe-0").select_option("reviews")
    page.locator("#tolerance-0").fill("[5, 1]")
    page.get_by_role("button", name="Save scenario").last.click()
    page.locator("#problems").wait_for()


def inserted(page: Page) -> None:
    page.locator("details", has_text="Probes").locator("summary").click()
    page.locator("[data-insert*='citations']").click()


def filled(home: Installation) -> Iterator[Scene]:
    """Fabrics in every state, and the pages of the library."""
    home.manage("django", "shell", "--verbosity", "0", "-c", DRILLED)
    home.manage("django", "shell", "--verbosity", "0", "-c", WHOLE)
    yield Scene("fleet", "/drills")
    yield Scene("fleet-only-never", "/drills?only=never")
    yield Scene("fleet-library", "/scenarios?fabric=incident-triage")
    yield Scene("fleet-form", "/scenarios/new?fabric=incident-triage")
    yield Scene("fleet-form-wrong", "/scenarios/new?fabric=incident-triage", wrong, 422)
    yield Scene("fleet-toml", "/scenarios/new?as=toml", inserted)
