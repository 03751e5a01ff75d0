"""The page of one drill: drills that are driven for real, in each end that there is, and the ones that wait, run, or were ended early."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import Scene, nothing

GUARDED = """\
name: guarded
title: Guarded
description: Its finalizer stands behind a circuit breaker.
models:
  - {name: script, provider: scripted, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
agents:
  - {name: reader, model: script, instructions: Read.}
  - {name: writer, model: script, instructions: Write.}
topology:
  workers: [reader]
  finalizer: writer
  plan: {goal: Read it., briefs: [{agent: reader, title: Read, instructions: Read it.}], exit_criteria: [It was read.]}
policy:
  budget: {run_usd_micros: 1000000}
  deadlines: {batch: {call_s: 60, stage_s: 40000, run_s: 90000}}
  breakers: [{scope: agent, signals: [{names: [server_error], mode: consecutive, threshold: 5}], cooldown_s: 60, max_trips: 3}]
reviewers: [owner]
"""
DRIVEN = """
from fabric.worker.process.duties import database_us
from fabric.core.spec.policies.decision_table import Ladder, Rung
from fabric.core.values.taxonomy import FailureType as F, Tier
from fabric.selectors.fabrics.lookup import fabric_get, revision_spec
from fabric.services.actors import owner_actor
from simulator.drills.batches.batch import drill_drive, drill_end
from simulator.drills.services.drafts import drill_ask_spec
from simulator.drills.models.tables import Drill, Status
from simulator.drills.services.drills import drill_ask
def drilled(name, fabric, failure, tier, drive=True, **columns):
    asked = drill_ask(actor=owner_actor(), fabric=fabric, cells=[(failure, tier)], seed=20261117)
    mine = Drill.objects.filter(id=asked.drills[0])
    # No worker is to take it: what drives drills in this installation takes whatever waits.
    mine.update(status=Status.RUNNING, holder="pictures", started_at=database_us())
    if drive:
        came, kept = drill_drive(mine.get())
        drill_end(mine.get(), "pictures", kept, **came)
    mine.update(**columns)
    print(name, asked.drills[0])
drilled("breaker", "guarded", F.PROVIDER, Tier.BATCH)
drilled("loop", "research-desk", F.TOOL_LOOP, Tier.BATCH)
drilled("asked", "research-desk", F.DEADLOCK, Tier.HIGH_STAKES)
drilled("deviates", "guarded", F.PROVIDER, Tier.BATCH, verdict="deviated", expected=" > ".join(["retry"] * 5 + ["wait_for_breaker"] * 3 + ["escalate", "aborted"]))
drilled("runs", "research-desk", F.PROVIDER, Tier.BATCH, drive=False)
drilled("aborts", "research-desk", F.COST_OVERRUN, Tier.BATCH, drive=False, status=Status.ABORTED, stopped_by="owner", why="the fabric is published anew", ended_at=database_us())
draft = fabric_get(owner_actor(), "guarded").revision_id
draft = revision_spec(draft).model_copy(update={"decision_table": {F.PROVIDER: {Tier.BATCH: Ladder(rungs=(Rung(reaction="retry", times=2), Rung(reaction="abort")))}}})
asked = drill_ask_spec(actor=owner_actor(), spec=draft, cells=[(F.PROVIDER, Tier.BATCH)], seed=20261117)
mine = Drill.objects.filter(id=asked.drills[0])
mine.update(status=Status.RUNNING, holder="pictures", started_at=database_us())
came, kept = drill_drive(mine.get())
drill_end(mine.get(), "pictures", kept, **came)
print("draft", asked.drills[0])
"""


def _steps(page: Page) -> None:
    """Forward through the moments, by the page's own script."""
    page.locator("body").press("Home")
    page.locator("#player-first[aria-disabled]").wait_for()
    for _ in range(12):
        at = page.locator(".moment .at").inner_text()
        page.locator("body").press("ArrowRight")
        page.wait_for_function("at => document.querySelector('.moment .at').innerText !== at", arg=at)


def _unfold(page: Page) -> None:
    page.get_by_text("Show as table").click()


def pages(home: Installation) -> Iterator[Scene]:
    """Every kind of drill, one of them as it runs."""
    home.publish(GUARDED)
    ids = dict(line.split() for line in home.manage("django", "shell", "--verbosity", "0", "-c", DRIVEN).splitlines())
    for name, act in (
        ("breaker", nothing),
        ("loop", _steps),
        ("asked", _unfold),
        ("deviates", _steps),
        ("draft", nothing),
    ):
        yield Scene(f"one-drill-{name}", f"/drills/{ids[name]}", act)
    yield Scene("one-drill-at", f"/drills/{ids['breaker']}?at=20")
    yield Scene("one-drill-reports", f"/drills/{ids['loop']}", lambda page: page.locator("#reports").click())
    yield Scene("one-drill-pytest", f"/drills/{ids['deviates']}/pytest")
    for name in ("runs", "aborts"):
        yield Scene(f"one-drill-{name}", f"/drills/{ids[name]}")
