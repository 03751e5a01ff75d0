"""The player of a drill: one moment of the disturbed run after the other, each as an address of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.templatetags.marks import EVENT_ICONS
from fabric.core.words import words
from fabric.selectors.display import EVENT_DISPLAY
from simulator.drills.evidence import exactly, seconds

JSON = Any
Fact = Mapping[str, JSON]
BREAKERS: Mapping[str, tuple[str, str, str]] = {
    "": ("not met", "neutral", "never"),
    "closed": ("closed", "ok", "okc"),
    "half_open": ("half-open, probing", "warn", "breaker"),
    "open": ("open", "danger", "breaker"),
}
"""Word, tone and icon of what a moment knows of the breaker; total over ``moments``."""


@dataclass(frozen=True, slots=True)
class Player:
    """Where the player stands."""

    at: int
    """Number of the moment, from 1."""
    count: int
    chosen: bool
    """Whether somebody went there; else it is the end, as the page opens."""
    fact: Fact
    cap_usd_micros: int
    cut: int
    """Moments that the story left out."""

    @property
    def first(self) -> int:
        """0: it is there."""
        return 1 if self.at > 1 else 0

    @property
    def previous(self) -> int:
        """0: there is none."""
        return self.at - 1

    @property
    def next(self) -> int:
        """0: there is none."""
        return self.at + 1 if self.at < self.count else 0

    @property
    def last(self) -> int:
        """0: it is there."""
        return self.count if self.at < self.count else 0

    @property
    def at_s(self) -> float:
        """Virtual seconds since the run began."""
        return float(self.fact["at_s"])

    @property
    def when(self) -> str:
        """The same in words."""
        return seconds(self.at_s)

    @property
    def seq(self) -> int:
        """The event."""
        return int(self.fact["seq"])

    @property
    def label(self) -> str:
        """What happened, in two or three words."""
        row = EVENT_DISPLAY.get(self.fact["kind"])
        return row.label if row else str(self.fact["kind"]).replace("_", " ")

    @property
    def icon(self) -> str:
        """The sprite's symbol."""
        row = EVENT_DISPLAY.get(self.fact["kind"])
        return EVENT_ICONS[row.icon] if row else "unknown"

    @property
    def tone(self) -> str:
        """How it is coloured."""
        return str(self.fact.get("tone") or "neutral")

    @property
    def said(self) -> str:
        """What happened, in a sentence."""
        return str(self.fact.get("said", ""))

    @property
    def stage(self) -> str:
        """The stage that the run was in."""
        return words(str(self.fact.get("stage", ""))) or "not begun"

    @property
    def epoch(self) -> int:
        """Which plan it followed, from 1."""
        return int(self.fact.get("epoch", 0)) + 1

    @property
    def spent(self) -> str:
        """Money so far, of the cap."""
        return f"{exactly(int(self.fact.get('spent_usd_micros', 0)))} of {exactly(self.cap_usd_micros)}"

    @property
    def retries(self) -> str:
        """Retries so far, and what is left in the budget."""
        left = self.fact.get("tokens_left")
        used = int(self.fact.get("retries", 0))
        return f"{used}, {left:g} tokens left" if left is not None else str(used)

    @property
    def breaker(self) -> tuple[str, str, str]:
        """Word, tone and icon."""
        return BREAKERS[str(self.fact.get("breaker", ""))]


def player_of(story: Mapping[str, JSON], asked: str) -> Player | None:
    """The player at the moment that an address asks for, at the nearest that there is; at the end where it asks for none. None: there is no story."""
    seen = story.get("disturbed") or {}
    moments: Sequence[Fact] = seen.get("moments") or ()
    if not moments:
        return None
    chosen = asked.isascii() and asked.isdecimal() and len(asked) < 6
    at = min(max(1, int(asked)), len(moments)) if chosen else len(moments)
    cut = int((seen.get("folded") or {}).get("moments", 0))
    return Player(at, len(moments), chosen, moments[at - 1], int(seen.get("cap_usd_micros", 0)), cut)
