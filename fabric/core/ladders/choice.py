"""The choice of a rung, and the rungs that it skipped."""

from __future__ import annotations

from fabric.core.ladders import fallback_model
from fabric.core.spec.policies.decision_table import Reaction, Rung
from fabric.core.state.failure import Unfit
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import FailureType, Trip

Why = str | Trip | Unfit
"""Reason against a rung: a sentence, a mechanism's trip, or the findings on all models; "": none."""


@value()
class RungSkipped:
    """A rung that could not apply."""

    rung: int
    reaction: Reaction
    why: Why

    @property
    def reason(self) -> str:
        """Why it could not apply."""
        if isinstance(self.why, Unfit):
            return self.why.reason
        return self.why if isinstance(self.why, str) else f"{self.why.cause}: {self.why.message}"


@value()
class Choice:
    """The table's choice for one failure."""

    trip: Trip
    failure_type: FailureType | None
    rung_index: int
    rung: Rung
    scope: str
    spent: int
    skipped: tuple[RungSkipped, ...] = ()
    instead: fallback_model.FallbackFound | None = None
    """For the rung *fallback model*: the chosen fallback."""
