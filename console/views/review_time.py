"""The time of a question: opened, reminder, passed on, expiry, and now, as places on a line and as rows of the table beside it."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_evidence import Evidence

FIRST, LAST = 1.0, 98.0
"""Where the line begins and ends, percent of the picture."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One instant of the line."""

    at: int
    """Microseconds since the epoch, UTC."""
    x: float
    """Percent."""
    says: str
    past: bool
    end: bool = False


@dataclass(frozen=True, slots=True)
class DueLine:
    """The line."""

    opened: Tick
    ticks: tuple[Tick, ...]
    """Reminder, passing on, expiry."""
    now: float
    """Percent; where an answer ended it, that."""
    whole: int
    """From opening to expiry, microseconds."""


def due_line(item: EscalationView, known: Evidence, now: int, expiry: str, onward_to: str) -> DueLine:
    """``now``: microseconds since the epoch. ``expiry``: what becomes of it unanswered. ``onward_to``: to whom it is passed on."""
    until = item.decided_at if item.decided_at is not None else now

    def tick(at: int, says: str, *, end: bool = False) -> Tick:
        return Tick(at, _x(item, at), says, at <= until, end)

    ticks = [tick(known.remind_at, "reminder"), tick(known.onward_at, f"passed on to {onward_to}")]
    if item.open:
        ticks.append(tick(item.due_at, expiry, end=True))
    else:
        # What it did not come to any more is left out: only what was before the answer, and the answer itself.
        lapsed = item.by_system and item.verb != "withdrawn"
        ended = tick(until, expiry if lapsed else "withdrawn" if item.verb == "withdrawn" else "answered", end=lapsed)
        ticks = [*(one for one in ticks if one.past), ended]
    return DueLine(
        opened=tick(item.opened_at, "opened"),
        ticks=tuple(ticks),
        now=_x(item, until),
        whole=item.due_at - item.opened_at,
    )


def _x(item: EscalationView, at: int) -> float:
    whole = max(1, item.due_at - item.opened_at)
    share = min(1.0, max(0.0, (at - item.opened_at) / whole))
    return round(FIRST + share * (LAST - FIRST), 1)
