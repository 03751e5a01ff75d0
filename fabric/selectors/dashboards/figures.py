"""Figures of a dashboard. Money is micro-dollars, times are microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.values.flow import LIVE_STATES, TERMINAL, RunState

OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "completed": ("state:completed", "recovered:no"),
    "recovered": ("state:completed", "recovered:yes"),
    "bad": (f"state:{','.join(sorted(TERMINAL - {RunState.COMPLETED, RunState.CANCELLED}))}",),
    "cancelled": ("state:cancelled",),
    "unended": (f"state:{','.join(sorted(LIVE_STATES))}",),
}
"""Outcomes of runs, each with the terms of the query line that find them. They are parts of all runs."""
REVIEWS = ("in_time", "late", "expired", "overdue", "waiting")
"""Outcomes of reviews, as the query line's field ``review`` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFigures:
    """Reviews of runs by the time of their answer. Withdrawn ones and follow-ups are left out."""

    in_time: int = 0
    """Answered by a person before the due time."""
    late: int = 0
    """Answered by a person after it."""
    expired: int = 0
    """Closed by the system for want of an answer."""
    overdue: int = 0
    """Open after the due time."""
    waiting: int = 0
    """Open before it: unknown yet, and in no share."""

    @property
    def due(self) -> int:
        """Return the number of reviews that were answered, or were due."""
        return self.in_time + self.late + self.expired + self.overdue

    @property
    def share(self) -> int | None:
        """Return the whole percent that was answered in time; None: none was answered or due."""
        return 100 * self.in_time // self.due if self.due else None


NO_REVIEWS = ReviewFigures()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of some runs."""

    runs: int = 0
    completed: int = 0
    """Without a recovery."""
    recovered: int = 0
    """Completed after a recovery."""
    bad: int = 0
    """Failed, aborted or stopped."""
    cancelled: int = 0
    unended: int = 0
    """Not ended: neither a success nor a failure."""
    succeeded: int = 0
    """Completed by the agents themselves: a static answer is no success."""
    cost_usd_micros: int = 0
    """Spending so far, with that of runs that failed or have not ended."""
    unconfirmed_usd_micros: int | None = 0
    """Part of it that no bill confirms, charged at the worst case. None: not known for a part of a run."""
    timed: int = 0
    """Number of runs with a latency: those that ended and were not cancelled."""
    p50_us: int | None = None
    p95_us: int | None = None
    p99_us: int | None = None
    """Percentiles of the time from the request to the end, by nearest rank; None: no run has a latency."""
    fired: Mapping[str, int] = field(default_factory=dict)
    """Number of runs in which each protection fired, by its short name."""
    reviews: ReviewFigures = NO_REVIEWS

    @property
    def per_success(self) -> int | None:
        """Return micro-dollars for each success, rounded up; None: there is none."""
        return -(-self.cost_usd_micros // self.succeeded) if self.succeeded else None

    @property
    def success_share(self) -> int | None:
        """Return the whole percent of ended runs that succeeded; None: none ended."""
        ended = self.runs - self.unended
        return 100 * self.succeeded // ended if ended else None


NO_FIGURES = Figures()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs with a common property."""

    name: str
    """Name in words; of a revision, model or agent with its fabric."""
    query: str
    """Query line that finds its runs; empty: no line says it."""
    terms: tuple[str, ...] | None
    """Terms of the query line that find its runs among the others; None: no term says it."""
    figures: Figures
    costs: tuple[int, ...]
    """Spending in each stretch of time."""
    counts: tuple[int, ...]
    """Number of runs in each stretch of time."""
    other: bool = False
    """True: all groups beyond the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeFigures:
    """Figures of the runs that were started in a stretch of time."""

    since: int
    until: int
    query: str
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """Figures of the runs that a query finds in a range."""

    query: str
    """Query line that finds all of them."""
    whole: Figures
    groups: tuple[Group, ...]
    """The dearest first; all beyond the largest are one at the end."""
    times: tuple[TimeFigures, ...]
    """The oldest stretch first."""
    oldest_at: int | None
    """Request of the oldest counted run; None: no run is counted."""
    cut: bool
    """True: only the newest runs are counted, from ``oldest_at`` on."""
