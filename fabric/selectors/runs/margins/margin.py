"""One margin says how near a run is to one limit, and what happens there. Money is micro-dollars, time is seconds."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.schema.limits import Unit
from fabric.core.spec.policies.flow_policy import policy_limit
from fabric.selectors.runs.story.trips import Fired

MEASURED = frozenset(
    {
        *(Unit.USD, Unit.USD_A_MINUTE, Unit.TOKENS, Unit.TOKENS_A_MINUTE),
        *(Unit.SECONDS, Unit.RETRY_TOKENS, Unit.COUNT_OR_SHARE),
    }
)
"""Units whose numbers are shown as a share of the limit, or as what is left of it. All others are counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """The distance of a run from one limit."""

    key: str
    """The limit's path under ``policy``; else a name for what is counted."""
    name: str
    observed: float
    limit: float
    unit: Unit
    at_limit: str
    """The effect at the limit."""
    where: str = ""
    """The stage, step or agent that it was observed in; empty for the whole run."""
    trips_at_limit: bool = False
    """True: a threshold, the N-th trips. False: a limit, N pass and the next one trips."""
    row: str = ""
    """The protection that it belongs to, a key of ``MARGINS``; empty where none counts it."""
    fired: Fired | None = None
    """The trip in the journal; None where it has not tripped."""
    standing: str = ""
    """State of a shared breaker that is not closed, in a word."""
    shared: tuple[str, str] | None = None
    """Scope and kind of the row where all workers count it together."""

    @property
    def counted(self) -> bool:
        """Return True for a count, which is shown as it is."""
        return self.unit not in MEASURED

    @property
    def share(self) -> float:
        """0: far; 1: at the limit; above when it was passed."""
        return self.observed / self.limit if self.limit > 0 else 1.0

    @property
    def remaining(self) -> float:
        """Return the rest until the limit."""
        return max(0, self.limit - self.observed)


def read_margin(
    path: str, observed: float, limit: float, *, where: str = "", stops: str = "", threshold: bool = False
) -> Margin:
    """Return the margin to a limit of the policy, in the limit's own words. ``stops``: what happens there this time."""
    declared = policy_limit(path)
    return Margin(
        key=path,
        name=declared.title,
        observed=observed,
        limit=limit,
        unit=declared.unit,
        at_limit=stops or declared.stops,
        where=where,
        trips_at_limit=threshold,
    )
