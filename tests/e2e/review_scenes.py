"""Scenes of reviews: the queue empty, full and narrowed; a question of each kind, in hand, edited, decided, conflicting, and in high-stakes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from playwright.sync_api import Page

from tests.e2e.held_scenes import PAYING
from tests.e2e.installation import Installation
from tests.e2e.scenes import FABRIC, FABRICS, NOTES, PATIENT, Scene, started

WORDS = {"paying": "Pay Ana what we owe her."}
STRICT = (
    PAYING.replace("name: paying", "name: settling")
    .replace("title: Paying desk", "title: Settling desk")
    .replace("topology:\n", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:\n", 1)
)
"""The same in high-stakes."""
COSTLY = FABRIC.format(
    name="dear",
    title="Dear desk",
    description="Has hardly any money, and asks for more.",
    options="{}",
    budget=100,
).replace("topology:", "tiers: {default: high_stakes, allowed: [high_stakes]}\ntopology:")
HIGH_STAKES = "high_stakes"

EMPTY = (
    Scene("reviews-empty", "/reviews"),
    Scene("reviews-empty-mine", "/reviews?tab=mine"),
    Scene("reviews-empty-decided", "/reviews?tab=decided"),
)


def waiting(page: Page, home: Installation, fabric: str, tier: str = PATIENT) -> str:
    """A run of a fabric that asks; the id of its question."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    run_id = started(page, fabric, WORDS.get(fabric, "What do these notes say about costs and deadlines?"), notes, tier)
    ((found,),) = home.stored("SELECT id FROM fabric_escalation WHERE run_id = ? AND decided_at IS NULL", run_id)
    return str(found)


def filled(home: Installation, page: Page) -> dict[str, str]:
    """Questions of several kinds; their ids by what they are to show."""
    title, description, options, budget = FABRICS["contract-check"]
    home.publish(
        FABRIC.format(name="contract-check", title=title, description=description, options=options, budget=budget)
    )
    for source in (PAYING, STRICT, COSTLY):
        home.publish(source)
    ids = {name: waiting(page, home, "paying") for name in ("call", "mine", "undone", "faster", "rejected")}
    ids |= {name: waiting(page, home, "contract-check") for name in ("doubt", "overdue", "onward", "theirs", "ticket")}
    ids["strict"] = waiting(page, home, "settling", HIGH_STAKES)
    ids["cap"] = waiting(page, home, "dear", HIGH_STAKES)
    now = time.time_ns() // 1_000
    home.stored("UPDATE fabric_escalation SET due_at = ? WHERE id = ?", now - 600_000_000, ids["overdue"])
    home.stored("UPDATE fabric_escalation SET onward = 1 WHERE id = ?", ids["onward"])
    home.stored(
        "UPDATE fabric_escalation SET item = 'ticket', verbs = 'respond', decided_at = ?, by_system = 1 WHERE id = ?",
        *(now, ids["ticket"]),
    )
    _held(home, ids["theirs"], "Ana Kowalczyk", now)
    page.goto(f"/reviews/{ids['rejected']}")
    answered(page, "reject", "Not this month.")
    page.get_by_role("button", name="Continue now").click()
    page.goto(f"/reviews/{ids['mine']}")
    page.get_by_role("button", name="Claim").click()
    page.get_by_text("In your hand").wait_for()
    return ids


def _held(home: Installation, question: str, holder: str, now: int) -> None:
    columns = "escalation, workspace_id, run_id, holder, lease, claimed_at, lease_until, assigned_by, taken_from"
    home.stored(
        f"INSERT INTO fabric_review_claim ({columns}) SELECT id, workspace_id, run_id, ?, 1, ?, ?, '', '' FROM fabric_escalation WHERE id = ?",
        *(holder, now, now + 3_600_000_000, question),
    )


# -- what is done on a page --------------------------------------------------------------------------------------------


def answered(page: Page, verb: str, message: str) -> None:
    page.locator(f"label[data-press=verb-{verb}]").click()
    page.locator("#message").fill(message)
    page.locator("#decision button.primary").click()
    page.locator("#waiting").or_(page.locator("#decided-by")).wait_for()


def edited(page: Page) -> None:
    page.locator("label[data-press=verb-edit]").click()
    page.locator("#e-0").fill("Karosserie Brandt GmbH")
    page.locator("#e-1").fill("40")
    page.locator("#changes .add").first.wait_for()


def wrong(page: Page) -> None:
    edited(page)
    page.locator("#e-1").fill("many")
    page.keyboard.press("Control+Enter")
    page.locator("#e-e-1").wait_for()


def held_back(page: Page) -> None:
    edited(page)
    page.locator("#message").fill("The assessor states 40 on page 3.")
    page.keyboard.press("Control+Enter")
    page.locator("#waiting").wait_for()


def taken_back(page: Page) -> None:
    held_back(page)
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("You took your answer back.").wait_for()


def too_late(home: Installation, question: str, page: Page) -> None:
    """Somebody else answers while this one still writes."""
    edited(page)
    page.locator("#message").fill("The assessor states 40 on page 3.")
    home.stored(
        "UPDATE fabric_escalation SET decided_at = opened_at + 1000000, verb = 'approve', decided_by = 'Ben Osei' WHERE id = ?",
        question,
    )
    page.keyboard.press("Control+Enter")
    page.locator("#kept").wait_for()
    home.stored("UPDATE fabric_escalation SET decided_at = NULL, verb = '', decided_by = '' WHERE id = ?", question)


def picked(verb: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.locator(f"label[data-press=verb-{verb}]").click()

    return act


def narrowed(page: Page) -> None:
    page.locator(".more-by > summary").click()


def together(page: Page) -> None:
    for box in page.locator("tr:has-text('Payer wants to call') input[type=checkbox]:not(:disabled)").all()[:2]:
        box.check()
    page.get_by_role("button", name="Answer the picked ones").click()
    page.locator("label:has(#v-reject)").click()
    page.locator("#message").fill("Not this month.")


def scenes(home: Installation, ids: Mapping[str, str]) -> tuple[Scene, ...]:
    """All of them, in an order in which none spoils another; the answers that can be taken back come last."""
    at = {name: f"/reviews/{question}" for name, question in ids.items()}
    return (
        Scene("reviews-full", "/reviews"),
        Scene("reviews-filters", "/reviews?fabric=paying", narrowed),
        Scene("reviews-none", "/reviews?fabric=paying&stage=validate"),
        Scene("reviews-mine", "/reviews?tab=mine"),
        Scene("reviews-tickets", "/reviews?tab=tickets"),
        Scene("reviews-decided", "/reviews?tab=decided"),
        Scene("reviews-together", "/reviews?fabric=paying", together),
        Scene("review-doubt", at["doubt"], picked("approve")),
        Scene("review-call", at["call"]),
        Scene("review-edit", at["mine"], edited),
        Scene("review-wrong", at["call"], wrong, 422),
        Scene("review-reject", at["call"], picked("reject")),
        Scene("review-overdue", at["overdue"]),
        Scene("review-theirs", at["theirs"], picked("reject")),
        Scene("review-ticket", at["ticket"], picked("respond")),
        Scene("review-strict", at["strict"], edited),
        Scene("review-cap", at["cap"], picked("approve")),
        Scene("review-rejected", at["rejected"]),
        Scene("review-conflict", at["faster"], partial(too_late, home, ids["faster"]), 409),
        Scene("review-taken-back", at["undone"], taken_back),
    )
