"""The pages of what a fabric remembers: full, one key, a deleted one, and forms that were filled in wrongly."""

from __future__ import annotations

import json

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import REQUESTS, Scene, started


def remember(home: Installation, page: Page) -> None:
    """Keys that runs wrote, that a person wrote, and one that was deleted."""
    notes = home.data / "notes.md"
    for text in REQUESTS[:2]:
        started(page, "supplier-notes", text, notes)
    for key, value in (
        ("supplier/gone", '{"pays_in_days": 14}'),
        ("supplier/wide", json.dumps({"contact": "a" * 300})),
    ):
        remembered(page, key, value)
    page.goto("/fabrics/supplier-notes/memory/suppliers?key=supplier/gone")
    page.locator("#reason").fill("The supplier closed.")
    page.get_by_role("button", name="Delete supplier/gone").click()


def new_key(page: Page, key: str, value: str) -> None:
    if not page.locator("#key-suppliers").is_visible():
        page.get_by_text("Write a key by hand").click()
    for name, text in (("key", key), ("value", value), ("why", "Told by the office.")):
        page.locator(f"#{name}-suppliers").fill(text)
    page.get_by_role("button", name="Write", exact=True).click()


def remembered(page: Page, key: str, value: str) -> None:
    """Writes a key of the supplier notes by hand."""
    page.goto("/fabrics/supplier-notes?tab=memory")
    new_key(page, key, value)
    page.get_by_text(f"{key} is written").wait_for()


def written_wrong(page: Page) -> None:
    page.locator("#value").fill("thirty days")
    page.get_by_role("button", name="Write", exact=True).click()
    page.locator("#e-value").wait_for()


def new_key_wrong(page: Page) -> None:
    new_key(page, "-no key", "{}")
    page.locator(".banner[data-tone=danger]").wait_for()


SCENES = (
    Scene("memory-none", "/fabrics/research-desk?tab=memory"),
    Scene("memory-full", "/fabrics/supplier-notes?tab=memory"),
    Scene("memory-key", "/fabrics/supplier-notes/memory/suppliers?key=supplier/acme"),
    Scene("memory-key-wrong", "/fabrics/supplier-notes/memory/suppliers?key=supplier/acme", written_wrong, 422),
    Scene("memory-new-wrong", "/fabrics/supplier-notes?tab=memory", new_key_wrong, 422),
    Scene("memory-deleted", "/fabrics/supplier-notes/memory/suppliers?key=supplier/gone"),
    Scene("memory-never", "/fabrics/supplier-notes/memory/suppliers?key=nosuch", status=404),
)
