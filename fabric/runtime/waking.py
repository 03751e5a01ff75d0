"""When a run that is owned is stepped next although nothing arrives, and whether its clock has to be set anew for that. Pure."""

from __future__ import annotations

from fabric.core import engine
from fabric.core.policy import FlowPolicy
from fabric.core.questions import NEVER_LATE
from fabric.core.run import Run

LATE_US = 1_000_000
"""How late a timer may fire without a look at the inbox: a process that stands still longer may have slept over an answer."""


def next_wake(run: Run, answers: frozenset[str], announced: int | None, policy: FlowPolicy) -> int | None:
    """The next instant that the run, or an answer that is announced, is due at; None: none is."""
    at = engine.wake_at(run, answers, policy)
    if at is None or announced is None or run.terminal:
        return at if announced is None or run.terminal else announced
    return min(at, announced)


def moves(wake: int | None, at: int | None, run: Run, policy: FlowPolicy) -> bool:
    """Whether a clock that is set to ``wake`` is set to ``at`` instead.

    Every event puts the stall watchdog off, so its clock is left as it is: it goes off too early, finds nothing due, and is set then.
    """
    sooner = wake is not None and at is not None and wake < at
    return at != wake and not (sooner and at == engine.stalls_at(run, policy))


def is_late(at: int, now: int) -> bool:
    """Whether what was to happen at ``at`` happens so late that the run's inputs are to be looked at first.

    Else a question would expire over an answer that came in time.
    """
    return now - at > LATE_US


def expires(run: Run, now: int, *, seen_at: int = -1) -> bool:
    """Returns True where a question's time is over ``now`` and was not over at ``seen_at``, the last look at the run's inputs (-1: not known)."""
    asked = (one.fact for one in run.questions.values())
    return any(fact.item not in NEVER_LATE and seen_at < fact.due_at <= now for fact in asked)


def wants_look(at: int, now: int, run: Run) -> bool:
    """Returns True where the run's inputs must be looked at before the event due at ``at``: it happens late, or a question expires with it."""
    return is_late(at, now) or expires(run, now)
