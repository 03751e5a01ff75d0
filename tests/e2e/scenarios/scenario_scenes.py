"""The library's pages: scenarios of every origin and verdict, one before and after it was played, a dry run, and what cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

PLAYED = """
from fabric.services.actors import owner_actor
import time
from simulator.drills.models.tables import OPEN_STATUSES, Drill, StoredScenario
from simulator.drills.library.requests import scenario_ask
from simulator.drills.library.services import scenario_duplicate, scenario_save
from simulator.drills.library.selectors import scenario_get
actor, fabric = owner_actor(), "small-model"
def played():
    # The worker plays them.
    while Drill.objects.filter(status__in=OPEN_STATUSES).exists():
        time.sleep(0.1)
for name in ("endpoint-down", "rate-limit-storm", "tool-error", "messages-lost", "answer-withheld"):
    scenario_ask(actor=actor, fabric=fabric, scenario=name)
source = scenario_get(actor, "endpoint-down").source
scenario_save(actor=actor, source=source.replace('title = "', 'title = "Ours: ').replace('failure = "provider_failure"', 'failure = "unsafe_output"'), name="endpoint-down-of-ours")
scenario_ask(actor=actor, fabric=fabric, scenario="endpoint-down-of-ours")
played()
kept = scenario_duplicate(actor=actor, name="rate-limit-then-healthy", to="written-by-another-version")
StoredScenario.objects.filter(name=kept.name).update(source=kept.source.replace("finalizer", "finaliser"))
Drill.objects.filter(scenario="messages-lost", tier="batch").update(covers="before")
scenario_ask(actor=actor, fabric=fabric, scenario="tool-error", tiers=["batch"])
"""
WRONG = 'name = "mine"\ntitel = "What goes wrong"\nfailure = "provider"\n\n[[disturbance]]\nfault = "unavailible"\n'


def dry(page: Page) -> None:
    page.get_by_role("button", name="Dry run").click()
    page.locator("#dry").wait_for()


def misfit(page: Page) -> None:
    page.locator("#p-status").evaluate("field => field.append(new Option('418', '418', true, true))")
    page.locator("#p-seed").fill("many")
    for box in page.locator("[name=tier]").all():
        box.uncheck()
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("#e-seed").wait_for()


def live(page: Page) -> None:
    page.get_by_role("radio", name="Live").check()
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator("#begin-live").wait_for()


def wrong_caps(page: Page) -> None:
    live(page)
    page.locator("#cap_s").fill("2")
    page.locator("#begin-live").click()
    page.locator("#e-cap_s").wait_for()


def delete(page: Page) -> None:
    page.locator("summary.danger").click()


def written(page: Page) -> None:
    page.locator("#source").fill(WRONG)
    page.locator("#edit button[type=submit]").click()
    page.locator("#problems").wait_for()


def library(home: Installation) -> Iterator[Scene]:
    """All of them."""
    yield Scene("library-never", "/scenarios?fabric=document-review")
    yield Scene("scenario-never", "/scenarios/rate-limit-then-healthy?fabric=document-review")
    home.manage("django", "shell", "--verbosity", "0", "-c", PLAYED)
    yield Scene("library", "/scenarios?fabric=small-model")
    yield Scene("library-none", "/scenarios?q=zzzz")
    yield Scene("scenario", "/scenarios/endpoint-down?fabric=small-model")
    yield Scene("scenario-dry", "/scenarios/endpoint-down?fabric=small-model", dry)
    yield Scene("scenario-misfit", "/scenarios/endpoint-down?fabric=small-model", misfit, 422)
    yield Scene("scenario-live-ask", "/scenarios/rate-limit-then-healthy?fabric=small-model", live)
    yield Scene("scenario-live-ask-wrong", "/scenarios/rate-limit-then-healthy?fabric=small-model", wrong_caps, 422)
    yield Scene("scenario-not-live", "/scenarios/tool-error?fabric=small-model")
    yield Scene("scenario-ours", "/scenarios/endpoint-down-of-ours?fabric=small-model", delete)
    yield Scene("scenario-unreadable", "/scenarios/written-by-another-version?fabric=small-model")
    yield Scene("scenario-new", "/scenarios/new")
    yield Scene("scenario-new-wrong", "/scenarios/new?as=toml", written, 422)
    yield Scene("scenario-edit", "/scenarios/endpoint-down-of-ours/edit?as=toml")
    for verdict, found in home.stored(
        "SELECT verdict, min(id) FROM drills_drill WHERE scenario <> '' AND verdict <> '' GROUP BY verdict ORDER BY verdict"
    ):
        yield Scene(f"scenario-drill-{verdict}", f"/drills/{found}")


def lived(home: Installation) -> Iterator[Scene]:
    """One that was played live by this installation's own worker, and in simulated time."""
    home.manage("scenario", "run", "rate-limit-then-healthy", "small-model", "--live", "--here", "--tier", "batch")
    yield Scene("scenario-lived", "/scenarios/rate-limit-then-healthy?fabric=small-model")
    for (found,) in home.stored("SELECT max(id) FROM drills_drill WHERE mode = 'live' AND scenario <> ''"):
        yield Scene("drill-live-scenario", f"/drills/{found}")
