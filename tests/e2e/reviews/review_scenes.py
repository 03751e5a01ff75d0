"""Scenes of reviews: the queue empty, full and narrowed; a review of each kind, in hand, edited, decided, conflicting, and in high-stakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.runs.held_scenes import PAYING
from tests.e2e.scenes import FABRIC, FABRICS, NOTES, PATIENT, Scene, started

ORDERING = """\
name: ordering
title: Ordering desk
description: Orders what is needed, after a person has looked at it.
models:
  - name: script
    provider: scripted
    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}
    options:
      agents:
        buyer:
          calls:
            - - tool: order
                args:
                  supplier: Karosserie Brandt GmbH
                  lines:
                    - {part: Front wing, number: 1, price: 412.5, to: {bay: "4", floor: 1}}
                    - {part: Clip set, number: 12, price: 3, to: {bay: "2", floor: 0}}
                  reference: 4711
tools:
  - name: order
    kind: http
    effect: irreversible
    description: Orders parts.
    target: https://order.invalid/orders
    timeout_s: 5
    parameters:
      type: object
      properties:
        supplier: {type: string}
        lines:
          type: array
          minItems: 1
          maxItems: 4
          description: What is ordered, line by line.
          items:
            type: object
            properties:
              part: {type: string, minLength: 2}
              number: {type: integer, maximum: 100}
              price: {type: number}
              to: {type: object, properties: {bay: {type: string}, floor: {type: integer}}, required: [bay, floor]}
            required: [part, number, price, to]
        reference: {oneOf: [{type: string}, {type: integer}]}
      required: [supplier, lines]
agents:
  - {name: buyer, model: script, instructions: Order what is needed., tools: [order]}
topology:
  workers: [buyer]
  plan:
    goal: The parts are ordered.
    briefs: [{agent: buyer, title: The order, instructions: Order the parts.}]
    exit_criteria: [They are ordered.]
policy:
  budget: {run_usd_micros: 100000}
reviewers: [owner]
"""
"""Its call has a list of objects with objects in them, and a part that may be of two shapes."""
WORDS = {
    "paying": "Pay Ana what we owe her.",
    "ordering": "Order the parts for the front.",
    "counting": "Pay Ana what we owe her.",
}
STRICT = (
    PAYING.replace("name: paying", "name: settling")
    .replace("title: Paying desk", "title: Settling desk")
    .replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n", 1)
)
"""The same in high-stakes."""
RULED = (
    PAYING.replace("name: paying", "name: counting")
    .replace("title: Paying desk", "title: Counting desk")
    .replace("effect: irreversible", "effect: idempotent\n    approve_when: args.usd > 50")
    .replace("tools:\n", "tools:\n  - {name: calculator}\n", 1)
    .replace("tools: [pay]", "tools: [pay, calculator]")
)
"""A rule asks about its call, in whose place a reviewer may have another one made."""
COSTLY = FABRIC.format(
    name="dear",
    title="Dear desk",
    description="Has hardly any money, and asks for more.",
    options="{}",
    budget=100,
).replace("topology:", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:")
UNPLANNED = FABRIC.format(
    name="unplanned",
    title="Unplanned",
    description="Its planner answers no plan.",
    options="{script: off_schema}",
    budget=1_000_000,
).replace("topology:", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:")
"""In high-stakes no person is asked about a plan that is none: its runs end, and leave a follow-up."""
STOPS = """decision_table:
  infinite_tool_loop: {high_stakes: {rungs: [{reaction: escalate}]}}
  provider_failure: {high_stakes: {rungs: [{reaction: retry, times: 2}, {reaction: escalate}]}}
  schema_grounding_fail: {high_stakes: {rungs: [{reaction: escalate}], deviation: for pictures}}
"""
"""A person is asked about each of these failures."""
STOPPED = {
    "looping": "{agents: {reader: {script: tool_loop}}}",
    "misfit": "{agents: {reader: {script: off_schema}}}",
    "down": "{agents: {reader: {fail: {cause: server_error, status: 503}}}}",
}
"""Fabrics whose reader fails, in different ways: the script's options."""
HIGH_STAKES = "high_stakes"

EMPTY = (
    Scene("reviews-empty", "/reviews"),
    Scene("reviews-empty-mine", "/reviews?tab=mine"),
    Scene("reviews-empty-decided", "/reviews?tab=decided"),
)


def waiting(page: Page, home: Installation, fabric: str, tier: str = PATIENT) -> str:
    """A run of a fabric that asks; the id of its review."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    run_id = started(page, fabric, WORDS.get(fabric, "What do these notes say about costs and deadlines?"), notes, tier)
    ((found,),) = home.stored("SELECT id FROM fabric_review WHERE run_id = ? AND decided_at IS NULL", run_id)
    return str(found)


def followed_up(page: Page, home: Installation) -> str:
    """The id of the follow-up that a run left."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    run_id = started(page, "unplanned", "What do these notes say about costs and deadlines?", notes, HIGH_STAKES)
    ((found,),) = home.stored("SELECT id FROM fabric_review WHERE run_id = ? AND item = 'follow_up'", run_id)
    return str(found)


def filled(home: Installation, page: Page) -> dict[str, str]:
    """Reviews of several kinds; their ids by what they are to show."""
    title, description, options, budget = FABRICS["contract-advice"]
    home.publish(
        FABRIC.format(name="contract-advice", title=title, description=description, options=options, budget=budget)
    )
    for source in (PAYING, STRICT, RULED, COSTLY, ORDERING, UNPLANNED):
        home.publish(source)
    for name, options in STOPPED.items():
        words = {"title": name.capitalize(), "description": "Its reader fails.", "options": options}
        source = FABRIC.format(name=name, budget=1_000_000, **words)
        home.publish(
            source.replace("topology:", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:") + STOPS
        )
    ids = {name: waiting(page, home, "paying") for name in ("call", "mine", "undone", "faster", "rejected")}
    ids |= {name: waiting(page, home, "contract-advice") for name in ("doubt", "overdue", "onward", "theirs")}
    ids["follow_up"] = followed_up(page, home)
    ids["strict"] = waiting(page, home, "settling", HIGH_STAKES)
    ids["cap"] = waiting(page, home, "dear", HIGH_STAKES)
    ids["ruled"] = waiting(page, home, "counting")
    ids |= {name: waiting(page, home, name, HIGH_STAKES) for name in STOPPED}
    ids |= {name: waiting(page, home, "ordering") for name in ("rows", "rows-wrong")}
    now = time.time_ns() // 1_000
    home.stored("UPDATE fabric_review SET due_at = ? WHERE id = ?", now - 600_000_000, ids["overdue"])
    home.stored("UPDATE fabric_review SET onward = 1 WHERE id = ?", ids["onward"])
    _held(home, ids["theirs"], "Ana Kowalczyk", now)
    _told(home, ids["doubt"], now)
    page.goto(f"/reviews/{ids['rejected']}")
    answered(page, "reject", "Not this month.")
    page.get_by_role("button", name="Continue now").click()
    page.goto(f"/reviews/{ids['mine']}")
    page.get_by_role("button", name="Claim").click()
    page.get_by_text("Claimed by you, expires").wait_for()
    return ids


def _held(home: Installation, review: str, holder: str, now: int) -> None:
    columns = "review, workspace_id, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from"
    home.stored(
        f"INSERT INTO fabric_review_assignment ({columns}) SELECT id, workspace_id, run_id, ?, 1, ?, ?, '', '' FROM fabric_review WHERE id = ?",
        *(holder, now, now + 3_600_000_000, review),
    )


def _told(home: Installation, review: str, now: int) -> None:
    """Notifications of a review: one that arrived, one that is tried again, one that was given up, one that was over."""
    columns = "id, workspace_id, run_id, seq, told, channel, target, member, shown, content, at, state, attempts, attempts_before, made_at, next_at, held_until, sent_at, error"
    rows = (
        ("review", "email", "ana.kowalczyk", "sent", 1, now - 3_000_000_000, ""),
        ("review", "webhook", "https://hooks.example.org", "failed", 16, None, "hooks.example.org answered HTTP 410"),
        ("reminder", "webhook", "https://chat.example.org", "waiting", 3, None, "no connection to chat.example.org"),
        (
            "reminder",
            "email",
            "ben.osei",
            "skipped",
            0,
            None,
            "ben.osei wants no mail of this, has no address or is no member (any more)",
        ),
    )
    for number, (told, channel, shown, state, attempts, sent_at, error) in enumerate(rows):
        home.stored(
            f"INSERT INTO fabric_notification ({columns}) SELECT ?, workspace_id, run_id, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, 0, ?, ?, 0, ?, ? FROM fabric_review WHERE id = ?",
            *(f"{number:032x}", 900 + number, told, channel, f"t{number}", shown),
            *(
                f'{{"review_id": "{review}"}}'.encode(),
                now,
                state,
                attempts,
                now - 3_600_000_000,
                now + 600_000_000,
                sent_at,
                error,
                review,
            ),
        )


# -- what is done on a page ------------------------------------------------------------------------------------------


def answered(page: Page, verb: str, message: str) -> None:
    page.locator(f"label[data-press=verb-{verb}]").click()
    page.locator("#message").fill(message)
    page.locator("#decision button.primary").click()
    page.locator("#waiting").or_(page.locator("#decided-by")).wait_for()


def edited(page: Page) -> None:
    page.locator("label[data-press=verb-edit]").click()
    page.locator('[id="f.to"]').fill("Karosserie Brandt GmbH")
    page.locator('[id="f.usd"]').fill("40")
    page.locator("#changes .add").first.wait_for()


def replaced(page: Page) -> None:
    """Another call in place of the one that is shown, about to be sent."""
    page.locator("label[data-press=verb-edit]").click()
    page.get_by_text("Use a different tool instead").click()
    page.get_by_label("Tool", exact=True).select_option("calculator")
    page.get_by_role("textbox", name="Arguments JSON").fill('{"expression": "2 * 45"}')


def misplaced(page: Page) -> None:
    replaced(page)
    page.get_by_role("textbox", name="Arguments JSON").fill('{"sum": "2 * 45"}')
    page.keyboard.press("Control+Enter")
    page.locator("[id^=instead-e-]").wait_for()


def wrong(page: Page) -> None:
    edited(page)
    page.locator('[id="f.usd"]').fill("many")
    page.keyboard.press("Control+Enter")
    page.locator('[id="e.usd"]').wait_for()


def held_back(page: Page) -> None:
    edited(page)
    page.locator("#message").fill("The assessor states 40 on page 3.")
    page.keyboard.press("Control+Enter")
    page.locator("#waiting").wait_for()


def taken_back(page: Page) -> None:
    held_back(page)
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("You withdrew your answer.").wait_for()


def too_late(home: Installation, review: str, page: Page) -> None:
    """A colleague answers while this reviewer still writes, before the page has heard of it."""
    page.route("**/news?**", lambda route: None)
    edited(page)
    page.locator("#message").fill("The assessor states 40 on page 3.")
    home.stored(
        "UPDATE fabric_review SET decided_at = opened_at + 1000000, verb = 'approve', decided_by = 'Ben Osei' WHERE id = ?",
        review,
    )
    page.keyboard.press("Control+Enter")
    page.locator("#kept").wait_for()
    home.stored("UPDATE fabric_review SET decided_at = NULL, verb = '', decided_by = '' WHERE id = ?", review)


def picked(verb: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.locator(f"label[data-press=verb-{verb}]").click()

    return act


def rowed(page: Page) -> None:
    """A row is added, filled and moved up."""
    picked("edit")(page)
    page.get_by_role("button", name="Add to lines").click()
    page.get_by_role("group", name="lines 3").wait_for()
    page.keyboard.type("Bolts")
    page.get_by_role("button", name="Move lines 3 up").click()
    page.locator(".nest-items > li:nth-child(2) input[value=Bolts]").wait_for()


def rows_wrong(page: Page) -> None:
    """The row that was added is sent with nothing but its name."""
    rowed(page)
    page.locator("#decision button.primary").click()
    page.locator(".nest-item .err").first.wait_for()


def noted(page: Page) -> None:
    page.locator("#message").fill("Asked the supplier: the part comes on Monday.")


def talked(page: Page) -> None:
    """Two comments are on the page, a third one mentions an unknown member."""
    for said in ("The score was 0.55 last week too.\nThe notes say 40 dollars.", "Ask the supplier first."):
        page.locator("#comment-text").fill(said)
        page.get_by_role("button", name="Comment", exact=True).click()
        page.locator(".talk").get_by_text(said.splitlines()[0]).last.wait_for()
    page.locator("#comment-text").fill("@bob may know.")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.locator("#e-comment").wait_for()
    page.locator("#talk").scroll_into_view_if_needed()


def evident(page: Page) -> None:
    """The parts of the evidence are open."""
    page.locator("#evidence").evaluate("box => box.querySelectorAll('details').forEach((part) => (part.open = true))")


def unsaid(page: Page) -> None:
    page.locator("#follow-up-fork").click()
    page.locator("#e-message").wait_for()


def narrowed(page: Page) -> None:
    page.locator(".more-by > summary").click()


def together(page: Page) -> None:
    for box in page.locator("tr:has-text('Pay (') input[type=checkbox]:not(:disabled)").all()[:2]:
        box.check()
    page.get_by_role("button", name="Decide the selected ones").click()
    page.locator("label:has(#v-reject)").click()
    page.locator("#message").fill("Not this month.")


def failing(home: Installation, page: Page) -> None:
    """Runs of one fabric have failed of one cause, and one of another."""
    ended = time.time_ns() // 1_000 - 60_000_000
    for fabric, cause in (("paying", "server_error"), ("ordering", "run_deadline")):
        home.stored(
            "UPDATE fabric_run SET state = 'failed', cause = ?, reason = '503 from script', ended_at = ? WHERE fabric_id IN (SELECT id FROM fabric_fabric WHERE name = ?)",
            *(cause, ended, fabric),
        )
    page.reload()


def scenes(home: Installation, ids: Mapping[str, str]) -> tuple[Scene, ...]:
    """All of them, in an order in which none spoils another; the answers that can be taken back come last."""
    at = {name: f"/reviews/{review}" for name, review in ids.items()}
    return (
        Scene("reviews-full", "/reviews"),
        Scene("reviews-filters", "/reviews?fabric=paying", narrowed),
        Scene("reviews-none", "/reviews?fabric=paying&stage=validate"),
        Scene("reviews-mine", "/reviews?tab=mine"),
        Scene("reviews-follow-ups", "/reviews?tab=follow_ups"),
        Scene("reviews-decided", "/reviews?tab=decided"),
        Scene("reviews-together", "/reviews?fabric=paying", together),
        Scene("review-doubt", at["doubt"], picked("approve")),
        Scene("review-call", at["call"]),
        Scene("review-edit", at["mine"], edited),
        Scene("review-wrong", at["call"], wrong, 422),
        Scene("review-reject", at["call"], picked("reject")),
        Scene("review-overdue", at["overdue"]),
        Scene("review-theirs", at["theirs"], picked("reject")),
        Scene("review-follow-up", at["follow_up"], noted),
        Scene("review-follow-up-wrong", at["follow_up"], unsaid, 422),
        Scene("review-rows", at["rows"], rowed),
        Scene("review-rows-wrong", at["rows-wrong"], rows_wrong, 422),
        Scene("review-strict", at["strict"], edited),
        *(Scene(f"review-{name}", at[name], evident) for name in STOPPED),
        Scene("review-talk", at["call"], talked, 422),
        Scene("reviews-inbox", "/reviews/inbox"),
        Scene("review-instead", at["ruled"], replaced),
        Scene("review-instead-wrong", at["ruled"], misplaced, 422),
        Scene("review-cap", at["cap"], picked("approve")),
        Scene("review-rejected", at["rejected"]),
        Scene("review-conflict", at["faster"], partial(too_late, home, ids["faster"]), 409),
        Scene("review-taken-back", at["undone"], taken_back),
        Scene("overview-failing", "/", partial(failing, home)),
        Scene("overview-failures", "/overview/failures?fabric=paying&cause=server_error"),
    )
