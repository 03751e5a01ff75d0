"""Stops of new runs: none, the form and its refusal, what stands on every page, a refused start, and those that ended."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

FABRIC = "research-desk"


def _sent(page: Page) -> None:
    page.locator("#stop-new-runs").click()
    page.wait_for_load_state("load")


def _started(page: Page) -> None:
    page.get_by_role("button", name="Start the run").click()
    page.locator("#start-form .banner[role=alert]").wait_for()


def parts(home: Installation) -> Iterator[list[Scene]]:
    """The scenes, in their order: what a part shows is there once the one before it was taken."""
    yield [
        Scene("stops-none", f"/runs/stops?fabric={FABRIC}"),
        Scene("stops-refused", "/runs/stops", _sent, 422),
        Scene("stops-fabric-at-rest", f"/fabrics/{FABRIC}"),
    ]
    reason = "Its search tool returns other customers' documents; the vendor looks into it."
    home.manage("fabric", "stop", FABRIC, "--reason", reason, "--running", "pause", "--for", "2h")
    yield [
        Scene("stops-fabric", f"/fabrics/{FABRIC}"),
        Scene("stops-fabrics", "/fabrics"),
        Scene("stops-start-refused", f"/runs/start?fabric={FABRIC}&example=1", _started, 409),
        Scene("stops-overview-fabric", "/"),
    ]
    home.manage("fabric", "stop", "--all", "--reason", "The provider bills twice until noon.")
    yield [
        Scene("stops-overview", "/"),
        Scene("stops-standing", "/runs/stops"),
        Scene("stops-runs", "/runs"),
    ]
    home.manage("fabric", "allow", "--all")
    home.manage("fabric", "allow", FABRIC, "--resume")
    yield [Scene("stops-ended", "/runs/stops")]
