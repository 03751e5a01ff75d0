"""The headline of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence, the figures below it, and a tone that shows trouble."""

    sentence: str
    lede: str
    tone: str

    @property
    def icon(self) -> str:
        """Return the icon of the tone."""
        return {"ok": "okc", "danger": "alert"}.get(self.tone, "flag")
