"""How fast money or tokens go out, and when that is too fast (semantics.md 4 "cost velocity"). Amounts are micro-dollars or tokens."""

from __future__ import annotations

from fabric.core.frozen import value
from fabric.core.policy import CostVelocity


@value()
class Pace:
    """How fast one scope spends, and what it may spend."""

    scope: str
    unit: str
    observed: int
    """Of the last minute."""
    limit: float
    """What a minute may cost before it is too fast."""
    left: int
    cap: int
    calls: int

    @property
    def seconds_left(self) -> float | None:
        """Until the ceiling is reached at this rate; None: nothing is being spent."""
        return self.left * 60 / self.observed if self.observed else None


def too_fast(rule: CostVelocity, pace: Pace) -> bool:
    """Whether a pace is over its limit and would spend what is left in too short a time."""
    if not rule.factor or pace.calls < rule.calls or pace.observed <= pace.limit:
        return False
    return pace.left * 60 <= pace.observed * rule.within_s


@value()
class TooFast:
    """What a mechanism judges: how fast, and by which row, as it stood."""

    pace: Pace
    scope: str
    generation: int
    asked_at: int
