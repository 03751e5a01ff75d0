"""Places the instants of a review on a line and in a table: opened, reminded, passed on, expired, now."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.selectors.reviews.evidence.review_evidence import ReviewEvidence
from fabric.selectors.reviews.review_view import ReviewView

FIRST, LAST = 1.0, 98.0
"""Begin and end of the line, percent of the picture."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One instant of the line."""

    at: int
    """Microseconds since the epoch, UTC."""
    x: float
    """Position in percent."""
    says: str
    past: bool
    end: bool = False


@dataclass(frozen=True, slots=True)
class DueLine:
    """The line."""

    opened: Tick
    ticks: tuple[Tick, ...]
    """Ticks of reminder, passing on and expiry."""
    now: float
    """Position of now, or of the answer, in percent."""
    whole: int
    """Microseconds from opening to expiry."""


def due_line(item: ReviewView, known: ReviewEvidence, now: int, expiry: str, onward_to: str) -> DueLine:
    """Return the time line of a review.

    ``now``: microseconds since the epoch. ``expiry``: consequence without an answer. ``onward_to``: the next
    assignees.
    """
    until = item.decided_at if item.decided_at is not None else now

    def tick(at: int, says: str, *, end: bool = False) -> Tick:
        return Tick(at, _x(item, at), says, at <= until, end)

    ticks = [tick(known.remind_at, "reminder"), tick(known.onward_at, f"escalated to {onward_to}")]
    if item.open:
        ticks.append(tick(item.due_at, expiry, end=True))
    else:
        # Instants after the answer are left out.
        lapsed = item.by_system and item.verb != "withdrawn"
        ended = tick(until, expiry if lapsed else "withdrawn" if item.verb == "withdrawn" else "answered", end=lapsed)
        ticks = [*(one for one in ticks if one.past), ended]
    return DueLine(
        opened=tick(item.opened_at, "opened"),
        ticks=tuple(ticks),
        now=_x(item, until),
        whole=item.due_at - item.opened_at,
    )


def _x(item: ReviewView, at: int) -> float:
    whole = max(1, item.due_at - item.opened_at)
    share = min(1.0, max(0.0, (at - item.opened_at) / whole))
    return round(FIRST + share * (LAST - FIRST), 1)
