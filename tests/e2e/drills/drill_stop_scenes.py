"""The drill stop and the schedules of drills: none, several in each state, a form that was refused, and every page while the drill stop is pulled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene

SCHEDULED = """
from fabric.worker.process.duties import database_us
from fabric.services.actors import owner_actor
from simulator.drills.models.tables import Drill, Schedule
from simulator.drills.schedules.services import schedule_create, schedule_pause
from simulator.scenarios.spec.collection import library
actor = owner_actor()
nightly = schedule_create(actor=actor, fabric="small-model", cron="0 3 * * *", cells="stale", reason="What changed since yesterday.")
weekly = schedule_create(actor=actor, fabric="small-model", cron="30 5 * * 0", cells="all")
played = schedule_create(actor=actor, fabric="small-model", cron="15 */2 * * 1-5", scenario=next(iter(library())))
schedule_pause(actor=actor, schedule=weekly.id, version=1)
batch = Drill.objects.filter(scenario="").order_by("-id").first().batch
Schedule.objects.filter(id=nightly.id).update(last_at=database_us() - 3_600_000_000, last_batch=batch)
Schedule.objects.filter(id=played.id).update(last_at=database_us(), last_said="the scenario waits to be played in small-model, or is played right now: wait for the verdict, or stop it first")
"""
LIVE = """
from fabric.models import Duty
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.services.actors import owner_actor
from simulator.drills.batches.batch import drill_claim
from simulator.drills.models.tables import Drill
from simulator.drills.services.drills import drill_ask
asked = drill_ask(actor=owner_actor(), fabric="small-model", cells=[(FailureType.PROVIDER, tier) for tier in Tier], seed=20261118)
Drill.objects.filter(batch=asked.batch).update(mode="live")
Duty.objects.update_or_create(name="drills-live", defaults={"holder": "nobody", "held_until": 2**60})
drill_claim(asked.batch, "nobody")
"""


def _opened(page: Page) -> None:
    page.locator("#delete-box summary").click()


def _sent(button: str, **fields: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        for name, value in fields.items():
            page.locator(f"#{name}").fill(value)
        page.locator(f"#{button}").click()
        page.wait_for_load_state("load")

    return act


def parts(home: Installation) -> Iterator[list[Scene]]:
    """The scenes, in their order: what a part shows is there once the one before it was taken."""
    yield [Scene("schedules-none", "/drills/schedules")]
    home.manage("django", "shell", "--verbosity", "0", "-c", SCHEDULED)
    ((one,),) = home.stored("SELECT min(id) FROM drills_schedule")
    yield [
        Scene("schedules-full", "/drills/schedules"),
        Scene("schedules-refused", "/drills/schedules", _sent("schedule-create", cron="*/5 * * * *"), 422),
        Scene("schedule-one", f"/drills/schedules/{one}"),
        Scene("schedule-deleting", f"/drills/schedules/{one}", _opened),
        Scene("drill-stop-at-rest", "/drills/stop"),
        Scene("drill-stop-refused", "/drills/stop", _sent("drill-stop-pull"), 422),
    ]
    home.manage("django", "shell", "--verbosity", "0", "-c", LIVE)
    yield [
        Scene("drill-stop-live-drill", "/runs"),
        Scene("drill-stop-live-coverage", "/drills/coverage?fabric=small-model"),
    ]
    home.manage("drill", "stop", "pull", "--reason", "The provider asked for quiet until noon.")
    yield [
        Scene("drill-stop-pulled", "/drills/stop"),
        Scene("drill-stop-pulled-coverage", "/drills/coverage?fabric=small-model"),
        Scene("drill-stop-pulled-overview", "/"),
        Scene("drill-stop-pulled-scenario", "/scenarios/endpoint-down?fabric=small-model"),
    ]
    for (ended,) in home.stored("SELECT min(id) FROM drills_drill WHERE verdict = 'pass'"):
        yield [Scene("drill-stop-pulled-drill", f"/drills/{ended}")]
    home.manage("drill", "stop", "release", "--reason", "It is noon.")
