"""One margin: how near a run is to one limit, and what happens there. Money is micro-dollars, time is seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fabric.selectors.story_trips import Fired

US = 1_000_000
Unit = Literal["count", "usd_micros", "usd_micros_a_minute", "tokens", "seconds", "retry_tokens", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """How near a run is to one limit."""

    name: str
    observed: float
    limit: float
    unit: Unit
    at_limit: str
    """What happens there."""
    where: str = ""
    """The stage, step or agent it was observed in; empty: the whole run."""
    trips_at_limit: bool = False
    """True: a threshold, the N-th trips. False: a limit, N pass and the next one trips."""
    row: str = ""
    """The protection that it belongs to, a key of ``MARGINS``; empty: none of them counts it."""
    fired: Fired | None = None
    """How it tripped, by the journal; None: it did not."""
    standing: str = ""
    """Of a shared breaker that is not closed: where it stands, in a word."""
    shared: tuple[str, str] | None = None
    """Whose row it is, scope and kind, where all workers count it together."""

    @property
    def share(self) -> float:
        """0: far; 1: at the limit; above when it was passed."""
        return self.observed / self.limit if self.limit > 0 else 1.0

    @property
    def left(self) -> float:
        """What is left until the limit."""
        return max(0, self.limit - self.observed)
