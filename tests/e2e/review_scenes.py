"""Scenes of reviews: the queue empty, full and narrowed; a question of each kind, in hand, edited, decided, conflicting, and in high-stakes."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.e2e.installation import Installation
from tests.e2e.scenes import NOTES, PATIENT, started

WORDS = {"paying": "Pay Ana what we owe her."}


def waiting(page: Page, home: Installation, fabric: str, tier: str = PATIENT) -> str:
    """A run of a fabric that asks; the id of its question."""
    notes = home.data / "notes.md"
    notes.write_text(NOTES)
    run_id = started(page, fabric, WORDS.get(fabric, "What do these notes say about costs and deadlines?"), notes, tier)
    ((found,),) = home.stored("SELECT id FROM fabric_escalation WHERE run_id = ? AND decided_at IS NULL", run_id)
    return str(found)
