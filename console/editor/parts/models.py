"""Models: which provider answers as which model, what it costs and can do, and what stands in for it."""

from __future__ import annotations

from typing import Any

from console.editor.draft import Editing
from console.editor.lists import items_of, users_in
from fabric.core.values.units import JSON

FIELDS = (
    "name",
    "provider",
    "model",
    "base_url",
    "price.input_usd_per_mtok",
    "price.output_usd_per_mtok",
    "fallbacks",
    "cheaper",
)
MORE = (
    "price.cached_usd_per_mtok",
    "price.cache_write_usd_per_mtok",
    "price.reasoning_usd_per_mtok",
    "price.audio_in_usd_per_mtok",
    "price.audio_out_usd_per_mtok",
    "structured_output",
    "tool_calls",
    "capabilities",
    "context_tokens",
    "options",
)


def build(editing: Editing) -> dict[str, Any]:
    """The models in the draft's order."""

    def note(model: JSON) -> str:
        said = [str(model.get(part)) for part in ("provider", "model") if model.get(part)]
        return " · ".join(said) or "the installation's"

    return {
        "items": items_of(editing, "models", FIELDS, MORE, note=note, users=users_in(editing, "agents", "model")),
        "listed": "models",
    }
