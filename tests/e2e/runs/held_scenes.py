"""Scenes of runs that people took hold of, of a call that asks first, and of an answer that can still be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from playwright.sync_api import Page

from console.launch.processes.data_directory import ROOT
from tests.e2e.decided import decided
from tests.e2e.installation import Installation
from tests.e2e.scenes import PATIENT, REQUESTS, Scene, started

PAYING = """\
name: paying
title: Paying desk
description: Pays what is owed, after a person has looked at it.
example: Pay Ana what we owe her.
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
    options: {agents: {payer: {calls: [[{tool: pay, args: {to: Ana, usd: 90, note: "Invoice 4711, due on Friday"}}]]}}}
tools:
  - name: pay
    kind: http
    effect: irreversible
    description: Pays somebody.
    target: https://pay.invalid/payments
    timeout_s: 5
    parameters:
      type: object
      properties: {to: {type: string}, usd: {type: integer, maximum: 100}, note: {type: string}}
      required: [to, usd]
agents:
  - {name: payer, model: script, instructions: Pay what is owed., tools: [pay]}
topology:
  workers: [payer]
  plan:
    goal: Ana is paid.
    briefs: [{agent: payer, title: The payment, instructions: Pay Ana.}]
    exit_criteria: [She has her money.]
policy:
  budget: {run_usd_micros: 100000}
reviewers: [owner]
"""
"""Its only call cannot be undone, so a person is asked before it is made."""


TRIP = ROOT / "fabric/samples/trip-desk.yaml"
"""Books what is cancelled again when a person says no."""
TRIP_DESK = "127.0.0.1:8421"
"""Where it expects the booking service."""


def take_hold(home: Installation, page: Page, desk: str) -> dict[str, str]:
    """Runs that people took hold of, one that asks before a call, and one that was undone; their ids by what became of them.

    ``desk``: ``host:port`` of a booking service.
    """
    notes = home.data / "notes.md"
    home.publish(TRIP.read_text().replace(TRIP_DESK, desk))
    unwound = started(page, "trip-desk", "Book a flight to Lisbon and a hotel for two nights.", notes, PATIENT)
    decided(page, "reject", "Not this month.")
    page.locator("#live[data-live=ended]").wait_for()
    home.publish(PAYING)
    ids = {"unwound": unwound}
    ids["asks-first"] = started(page, "paying", "Pay Ana what we owe her.", notes, PATIENT)
    ids["paused"] = started(page, "contract-advice", REQUESTS[0], notes, PATIENT)
    page.goto(f"/runs/{ids['paused']}/pause")
    page.get_by_label("Reason").fill("Until the auditor is back.")
    page.get_by_role("button", name="Pause the run").click()
    page.locator("#panel-head .badge", has_text="Paused").wait_for()
    ids["quarantined"] = started(page, "contract-advice", REQUESTS[1], notes, PATIENT)
    home.stored("UPDATE fabric_run SET claims = 6 WHERE id = ?", ids["quarantined"])
    decided(page, "approve")
    page.locator("#panel-head .badge", has_text="Quarantined").wait_for()
    return ids


def answered(page: Page, notes: Path) -> None:
    """An answer that can still be taken back, of a run of its own: another picture takes longer than that."""
    started(page, "contract-advice", REQUESTS[2], notes, PATIENT)
    decided(page, "approve", "The clause binds us until Friday; the rest is fine.")


def unreasoned(page: Page) -> None:
    """Terminating without a reason."""
    page.get_by_role("button", name="Terminate the run").click()
    page.locator("form .err").first.wait_for()


def held(home: Installation, ids: dict[str, str]) -> Iterator[Scene]:
    """Runs that people took hold of, and what they are asked before they do."""
    notes = home.data / "notes.md"
    for name in ("asks-first", "paused", "quarantined", "unwound"):
        yield Scene(f"run-{name}", f"/runs/{ids[name]}")
    for verb in ("pause", "terminate", "cancel"):
        yield Scene(f"hold-{verb}", f"/runs/{ids['waiting']}/{verb}")
    yield Scene("hold-terminate-no-reason", f"/runs/{ids['waiting']}/terminate", unreasoned, 422)
    yield Scene("hold-resume", f"/runs/{ids['paused']}/resume")
    yield Scene("hold-not-possible", f"/runs/{ids['done0']}/pause")
    yield Scene("fork", f"/runs/{ids['done0']}/fork/1")
    yield Scene("fork-late", f"/runs/{ids['done0']}/fork/20")
    yield Scene("run-answered", "/runs/start", partial(answered, notes=notes))
