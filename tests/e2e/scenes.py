"""The pictures show every page of a running installation, empty, full and failing, and how each comes to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.decided import decided
from tests.e2e.installation import RUN, Installation


def nothing(_page: Page) -> None:
    """The page as it loads."""


class Scene(NamedTuple):
    """One picture: a page, and what is done on it first."""

    name: str
    address: str
    act: Callable[[Page], None] = nothing
    status: int = 200
    """What the server answers to the address, or to what is done there; the browser's own complaint about it is none."""


# -- what is run -----------------------------------------------------------------------------------------------------

FABRIC = """\
name: {name}
title: {title}
description: {description}
example: Which of these clauses bind us?
models:
  - name: script
    provider: scripted
    price: {{input_usd_per_mtok: 1, output_usd_per_mtok: 2}}
    options: {options}
tools:
  - name: read_document
agents:
  - {{name: planner, model: script, instructions: Plan.}}
  - {{name: reader, model: script, instructions: Read., tools: [read_document]}}
  - {{name: critic, model: script, instructions: Judge.}}
topology: {{planner: planner, workers: [reader], critic: critic}}
policy:
  budget: {{run_usd_micros: {budget}}}
reviewers: [owner]
"""
FABRICS = {
    "contract-advice": ("Contract check", "Asks a person before it says anything binding.", "{score: 0.55}", 1_000_000),
    "goes-round": (
        "Goes round",
        "Its reader makes one call for ever.",
        "{agents: {reader: {script: tool_loop}}}",
        1_000_000,
    ),
    "off-schema": ("Off schema", "Its planner answers off its schema.", "{script: off_schema}", 1_000_000),
    "no-answer": (
        "No answer",
        "The endpoint of its model refuses every call.",
        "{fail: {cause: auth, times: 99, status: 401}}",
        1_000_000,
    ),
    "small-purse": ("Small purse", "Has a hundredth of a cent.", "{}", 100),
    "busy-hour": (
        "Busy hour",
        "All its runs together have a hundredth of a cent an hour.",
        "{}",
        "1000000, fabric_hour_usd_micros: 100",
    ),
}
"""Fabrics that wait, and that fail in their several ways: title, description, the script's options, micro-dollars a run and what else is in the budget."""
PARTS = ("costs", "deadlines", "owners", "risks", "promises", "open questions")
FAMILY = """\
name: many-readers
title: Many readers
description: Cuts its fan-out into child runs of at most two briefs.
models:
  - {name: script, provider: scripted, price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}, options: {delay_s: 0.2}}
tools:
  - name: read_document
agents:
  - {name: reader, model: script, instructions: Read., tools: [read_document]}
topology:
  workers: [reader]
  plan: {goal: Read the notes for everything that binds us., briefs: BRIEFS, exit_criteria: [Every part was read.]}
policy:
  budget: {run_usd_micros: 1000000}
  limits: {fan_out_inline_max: 2}
reviewers: [owner]
""".replace(
    "BRIEFS",
    json.dumps(
        [{"agent": "reader", "title": f"Read for {part}", "instructions": f"Look for {part}."} for part in PARTS]
    ),
)
"""A fabric whose runs have children."""
PATIENT = "batch"
"""The tier in which a person has a day: the review must outlast the taking of the pictures."""
NOTES = "The budget of the project is 40 dollars. The deadline is Friday, and it will not move.\n"
REQUESTS = (
    "What do these notes say about costs and deadlines?",
    "Compare what the two documents say about budgets.",
    "Which of the promises in here have no owner?",
    "Summarise the risks in three sentences.",
)


def fill(home: Installation, page: Page) -> dict[str, str]:
    """Runs of every kind; their ids by what became of them."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    for name, (title, description, options, budget) in FABRICS.items():
        text = FABRIC.format(name=name, title=title, description=description, options=options, budget=budget)
        home.publish(text)
    home.publish(FAMILY)
    ids = {f"done{number}": started(page, "research-desk", text, notes) for number, text in enumerate(REQUESTS)}
    for name in ("many-readers", "goes-round", "off-schema", "no-answer", "small-purse", "busy-hour"):
        ids[name] = started(page, name, REQUESTS[0], notes)
    family = f"SELECT id FROM fabric_run WHERE parent_run_id = '{ids['many-readers']}' ORDER BY parent_command"
    ids["child"] = str(home.stored(family)[0][0])
    waiting = [started(page, "contract-advice", text, notes, PATIENT) for text in REQUESTS[:3]]
    decided(page, "reject", "The notes say otherwise: the deadline moved.")
    page.locator("#live[data-live=ended]").wait_for()
    page.goto(f"/runs/{waiting[1]}/cancel")
    page.get_by_label("Reason").fill("Asked twice.")
    page.get_by_role("button", name="Cancel the run").click()
    page.locator("#live[data-live=ended]").wait_for()
    approved = started(page, "contract-advice", REQUESTS[3], notes, PATIENT)
    decided(page, "approve")
    page.locator("#live[data-live=ended]").wait_for()
    return ids | {"waiting": waiting[0], "cancelled": waiting[1], "rejected": waiting[2], "approved": approved}


def started(page: Page, fabric: str, text: str, notes: Path, tier: str = "") -> str:
    page.goto(f"/runs/start?fabric={fabric}")
    page.get_by_label("Your request").fill(text)
    page.get_by_label("Documents to read").set_input_files([str(notes)])
    page.get_by_role("heading", name="Run settings").click()
    page.get_by_label("Tier").select_option(tier)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(RUN)
    page.locator("#live[data-live=ended], article.review").first.wait_for()
    return page.url.rpartition("/")[2]


# -- what is done on a page ------------------------------------------------------------------------------------------


def sign_in(page: Page) -> None:
    page.get_by_role("button", name="Sign in").click()
    page.locator("#h-error").wait_for()


def palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.locator("#palette [role=option]").first.wait_for()


def palette_found(page: Page) -> None:
    palette(page)
    page.keyboard.type("budget")
    page.locator("#palette-found a[id^=palette-run]").first.wait_for()


def palette_none(page: Page) -> None:
    palette(page)
    page.keyboard.type("zzzz")
    page.get_by_text("No results").wait_for()


def sheet(page: Page) -> None:
    page.locator("body").press("?")
    page.locator("dialog#keys[open]").wait_for()


def pause(page: Page) -> None:
    page.locator("#live[data-live=live]").wait_for()
    page.locator("body").press("p")
    page.locator("#live[data-live=paused]").wait_for()


def send(page: Page) -> None:
    page.get_by_role("button", name="Start the run").click()


def wrong_request(page: Page) -> None:
    page.locator("#text").fill("  ")
    send(page)
    page.locator("#e-text").wait_for()


def wrong_everywhere(page: Page) -> None:
    """The form sends what the browser's own checks would hold back."""
    page.get_by_role("heading", name="Run settings").click()
    page.locator("#text").fill("x" * 70_000)
    page.locator("#session_key").fill("x" * 201)
    page.locator("#documents").set_input_files(
        [
            FilePayload(name="report.pdf", mimeType="application/pdf", buffer=b"%PDF-1.7 and so on"),
            FilePayload(name="large.txt", mimeType="text/plain", buffer=b"x" * 1_000_001),
        ]
    )
    page.evaluate("document.querySelector('#tier').append(new Option('Nightly', 'nightly', true, true))")
    page.evaluate("document.querySelector('#priority').append(new Option('Now', 'now', true, true))")
    send(page)
    page.locator("#e-session").wait_for()


def wrong_fabric(page: Page) -> None:
    page.locator("#text").fill("What is due?")
    gone = "radio => { radio.value = 'gone'; radio.dispatchEvent(new Event('change', {bubbles: true})); }"
    page.locator("[name=fabric]:checked").evaluate(gone)  # The table of its tiers goes now, not under the pointer.
    send(page)
    page.locator("#e-fabric").wait_for()


def attached(page: Page) -> None:
    page.locator("#text").fill("What is due, and when?")
    page.locator("#documents").set_input_files(
        [FilePayload(name="notes.md", mimeType="text/markdown", buffer=b"Friday.")]
    )
    page.locator("#files li").first.wait_for()


def unreachable(page: Page) -> None:
    page.locator("#text").fill("Worth keeping")
    page.route("**/runs/start", lambda route: route.abort())
    send(page)
    page.locator("#notice .banner").wait_for()
    page.unroute("**/runs/start")


def first_event(page: Page) -> None:
    page.locator("#events-rows a.seq").first.click()
    expect(page.locator("#inspector [data-shown]")).to_be_attached()


def add_filter(page: Page) -> None:
    page.locator("[data-press=filter]").click()


# -- the scenes ------------------------------------------------------------------------------------------------------

STRANGER = (
    Scene("signed-out", "/runs"),
    Scene("signed-out-link-used", "/login/link#used", sign_in, 410),
    Scene("signed-out-not-found", "/nosuch", status=404),
)
EMPTY = (
    Scene("overview-empty", "/"),
    Scene("runs-empty", "/runs"),
    Scene("dashboards-empty", "/dashboards"),
    Scene("reviews-empty", "/reviews"),
    Scene("drills-never", "/drills/coverage?fabric=document-review"),
    Scene("notifications-empty", "/notifications"),
    Scene("start-first", "/runs/start"),
    Scene("search-nothing-asked", "/search"),
    Scene("fabrics-samples", "/fabrics"),
    Scene("memory-empty", "/fabrics/supplier-notes?tab=memory"),
)
UNPUBLISHED = (
    Scene("overview-no-fabric", "/"),
    Scene("start-no-fabric", "/runs/start"),
    Scene("fabrics-empty", "/fabrics"),
)
FORM = (
    Scene("start", "/runs/start"),
    Scene("start-example", "/runs/start?fabric=research-desk&example=1"),
    Scene("start-attached", "/runs/start", attached),
    Scene("start-error-empty", "/runs/start", wrong_request, 422),
    Scene("start-error-everywhere", "/runs/start", wrong_everywhere, 422),
    Scene("start-error-fabric-gone", "/runs/start", wrong_fabric, 422),
    Scene("start-error-unreachable", "/runs/start", unreachable),
)
SHELL = (
    Scene("palette", "/runs", palette),
    Scene("palette-found", "/runs", palette_found),
    Scene("palette-none", "/runs", palette_none),
    Scene("keys", "/runs", sheet),
    Scene("search", "/search?q=budget"),
    Scene("search-none", "/search?q=zzzz"),
    Scene("search-too-long", f"/search?q={'x' * 201}", status=422),
    Scene("not-found", "/nosuch", status=404),
    Scene("styleguide", "/styleguide"),
    Scene("api", "/api/v1/docs"),
)
LISTS = (
    Scene("overview", "/"),
    Scene("overview-paused", "/", pause),
    Scene("runs", "/runs"),
    Scene("runs-filter-open", "/runs", add_filter),
    Scene("dashboards", "/dashboards?range=1d"),
    Scene("dashboards-by-model", "/dashboards?by=model"),
    Scene("dashboards-wrong", "/dashboards?q=state:nosuch", status=422),
    Scene("runs-filtered", "/runs?q=state:completed+costs"),
    Scene("runs-failed-by-end", "/runs?q=state:failed,aborted,stopped&sort=-ended"),
    Scene("runs-none", "/runs?q=state:failed+nosuchword"),
    Scene("runs-wrong-query", "/runs?q=state:nosuch", status=422),
    Scene("reviews", "/reviews"),
    Scene("fabrics", "/fabrics"),
    Scene("breakers", "/models/breakers"),
    Scene("protections", "/protections"),
    Scene("health", "/installation"),
    Scene("docs", "/docs"),
    Scene("docs-found", "/docs?q=webhook"),
    Scene("docs-none", "/docs?q=zzzz"),
    Scene("docs-page", "/docs/concepts/tiers"),
    Scene("docs-rule", "/docs/specification/budgets"),
    *(
        Scene(f"fabric-{tab}", f"/fabrics/contract-advice?tab={tab}")
        for tab in ("agents", "topology", "stages", "limits", "table", "memory", "yaml", "versions")
    ),
    Scene("fabric-summary", "/fabrics/research-desk"),
    Scene("fabric-research-desk", "/fabrics/research-desk?tab=topology"),
    Scene("fabric-checked-answer", "/fabrics/checked-answer?tab=topology"),
    *(
        Scene(f"fabric-{name}", f"/fabrics/{name}?tab=topology")
        for name in ("contract-check", "incident-triage", "research-teams", "support-routing", "vendor-debate")
    ),
    Scene("fabric-checked-answer-stages", "/fabrics/checked-answer?tab=stages"),
    Scene("fabric-revision", "/fabrics/contract-advice/r1"),
    Scene("fabric-not-found", "/fabrics/nosuch", status=404),
)
VIEWS = ("events", "graph", "protections", "cost", "io")
ENDS = (
    "waiting",
    "approved",
    "rejected",
    "cancelled",
    "goes-round",
    "off-schema",
    "no-answer",
    "small-purse",
    "busy-hour",
)


def full(ids: dict[str, str]) -> Iterator[Scene]:
    """Every page of an installation that was used."""
    run = f"/runs/{ids['done0']}"
    yield from (*LISTS, *SHELL, *FORM)
    yield Scene("start-like", f"/runs/start?from={ids['done0']}")
    yield Scene("run-completed", run)
    yield Scene("run-inspected", run, first_event)
    yield Scene("run-unfolded", f"{run}?fold=off")
    yield from (Scene(f"run-{view}", f"{run}?view={view}") for view in VIEWS)
    yield from (Scene(f"run-events-{density}", f"{run}?view=events&events={density}") for density in ("full", "raw"))
    yield Scene("run-events-none", f"{run}?view=events&q=nosuchword")
    yield Scene("run-no-such-view", f"{run}?view=nosuch", status=422)
    yield Scene("run-not-found", "/runs/019a1f3c-5d20-7c11-9a5e-4c81d7e20b1f", status=404)
    yield Scene("run-waiting-paused", f"/runs/{ids['waiting']}", pause)
    for name in ENDS:
        yield Scene(f"run-{name}", f"/runs/{ids[name]}")
        yield from (Scene(f"run-{name}-{view}", f"/runs/{ids[name]}?view={view}") for view in VIEWS[1:])
    yield Scene("run-family", f"/runs/{ids['many-readers']}")
    yield Scene("run-family-events", f"/runs/{ids['many-readers']}?view=events")
    yield Scene("run-child", f"/runs/{ids['child']}")
    yield Scene("cancel", f"/runs/{ids['waiting']}/cancel")
    yield Scene("cancel-ended", f"/runs/{ids['done0']}/cancel")


def inspected(home: Installation) -> Iterator[Scene]:
    """One event of each kind that was recorded."""
    for kind, run_id, seq in home.stored("SELECT kind, min(run_id), seq FROM fabric_event GROUP BY kind ORDER BY kind"):
        yield Scene(f"event-{kind}", f"/runs/{run_id}/events/{seq}")
