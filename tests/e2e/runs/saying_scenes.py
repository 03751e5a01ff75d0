"""Scenes of what people say in conversations: nothing yet, a message that waits, messages that were read, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.decided import decided
from tests.e2e.installation import Installation
from tests.e2e.scenes import NOTES, PATIENT, Scene, started

TALK = """\
name: billing-desk
title: Billing desk
description: Works out what is owed, after a person has looked at the sum.
example: What does Ana owe us?
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
    options: {agents: {sums: {calls: [[{tool: calculator, args: {expression: 1 + 1}}]]}}}
tools:
  - name: read_document
  - {name: calculator, approve_when: 'true'}
agents:
  - {name: sums, model: script, instructions: Work it out., tools: [read_document, calculator]}
  - {name: writer, model: script, instructions: Write it., tools: [read_document]}
topology:
  kind: graph
  initial_speaker: sums
  workers: [sums, writer]
  default_target: {kind: round_robin}
  max_turns: 2
policy:
  budget: {run_usd_micros: 1000000}
reviewers: [owner]
"""
"""Its first turn waits for a person before its call goes out: a turn in flight for as long as a test wants."""
SAID = (
    "The VAT on this invoice is 23 percent, not 21: the customer moved to Portugal in May.",
    "Please leave the shipping out of it.\nThat was refunded last week.",
)
TOO_LONG = "The customer has written a very long letter. " * 450


def talked(home: Installation, page: Page) -> dict[str, str]:
    """Runs in whose conversation no person, a person, and a person long ago said something; their ids."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    home.publish(TALK)
    ids = {}
    for name in ("quiet", "waits", "read"):
        ids[name] = started(page, "billing-desk", f"What does Ana owe us? ({name})", notes, PATIENT)
        for text in () if name == "quiet" else SAID:
            page.get_by_label("Say something").fill(text)
            page.get_by_role("button", name="Send").click()
            page.locator("#panel-talk li", has_text=text[:20]).get_by_text("waits for the turn in flight").wait_for()
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    return ids


def refused(page: Page) -> None:
    """A message without words."""
    page.get_by_role("button", name="Send").click()
    page.locator("#e-say .err").wait_for()


def too_long(page: Page) -> None:
    """One that is too long stays where it was written."""
    page.get_by_label("Say something").fill(TOO_LONG)
    refused(page)


def scenes(ids: dict[str, str]) -> Iterator[Scene]:
    """The run's page and its strip of turns, empty, full and failing."""
    for name, run_id in ids.items():
        yield Scene(f"say-{name}", f"/runs/{run_id}")
        yield Scene(f"say-{name}-graph", f"/runs/{run_id}?view=graph")
    yield Scene("say-refused", f"/runs/{ids['quiet']}", refused, 422)
    yield Scene("say-too-long", f"/runs/{ids['quiet']}?view=cost", too_long, 422)
    yield Scene("say-alone", f"/runs/{ids['waits']}/say")
    yield Scene("say-alone-ended", f"/runs/{ids['read']}/say")


def looking(ids: dict[str, str]) -> Iterator[Scene]:
    """The same for a viewer."""
    yield Scene("say-looking", f"/runs/{ids['waits']}?view=cost")
    yield Scene("say-looking-alone", f"/runs/{ids['waits']}/say")
