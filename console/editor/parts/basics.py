"""A fabric's name, purpose, and the tiers that its runs may ask for."""

from __future__ import annotations

from typing import Any

from console.editor.draft import Editing
from console.templatetags.marks import TIERS

NAMED = ("title", "description", "example", "safe_fallback")


def build(editing: Editing) -> dict[str, Any]:
    """Its fields."""
    words = {str(tier): word for tier, word in TIERS.items()}
    tiers = [editing.field(f"tiers.{name}", **words) for name in ("allowed", "default")]
    return {"fields": [editing.field(name) for name in NAMED], "tiers": tiers}
