"""How fast the runs of a fabric with an hourly ceiling spend together: looked at when a model call is about to go out, by whoever has the rows that all workers share.

A row counts the model calls that came back and their cost, for a minute and to within ten seconds. It begins anew with each decision about it.
So of all runs that spend too fast together exactly one takes its cell: the run whose call crossed the line. ``pacing`` is a generator of ``Step`` as ``breaker/passing.py`` is.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fabric.core.breaker.passing import LOOKS, Key, Row, Settling, Step
from fabric.core.breaker.signals import Tally
from fabric.core.charging import Charge, charge
from fabric.core.cost import Price
from fabric.core.frozen import value
from fabric.core.grants import FABRIC
from fabric.core.inputs import CallFailed, ModelReplied, Result
from fabric.core.pace import Pace, TooFast, empties_too_soon
from fabric.core.policy import FlowPolicy
from fabric.core.velocity_policy import CostVelocity

KIND = "cost_velocity"
"""Whose rows they are: the mechanism's name, by test."""
CALLS, SPENT = "calls", "usd_micros"
"""What a row counts."""
ANEW = "anew"
"""The state of a row that was decided about; what it counts began with that."""
HOUR_S = 3_600.0


@value()
class Shared:
    """What runs spend together, and what they may."""

    kind: str
    """``fabric``."""
    scope: str
    """The name of its budget, and of its row."""
    cap: int
    seconds: float
    """The time that its cap is for."""
    rule: CostVelocity

    @property
    def key(self) -> Key:
        """Its row."""
        return Key(self.scope, KIND)


@value()
class Counting:
    """A row that a call was let past: where its cost is counted when it is known."""

    shared: Shared
    row: Row
    price: Price | None
    worst_usd_micros: int
    """What the call may cost at most: what one comes to whose cost nobody says."""


Steps = Generator[Step, Any, "tuple[tuple[Shared, Row], ...] | TooFast"]


def shared_by(policy: FlowPolicy, fabric_id: str) -> tuple[Shared, ...]:
    """The hour that a run shares with its fabric's other runs, where it is capped and rates are judged. A session has no period to measure."""
    budget, rule = policy.budget, policy.cost_velocity
    if not rule.factor or not budget.fabric_hour_usd_micros:
        return ()
    return (Shared(FABRIC, f"{FABRIC}:{fabric_id}", budget.fabric_hour_usd_micros, HOUR_S, rule),)


def pacing(shared: tuple[Shared, ...]) -> Steps:
    """Takes a call past its rows: all of them, as they stood; or the first that says that its runs spend too fast."""
    seen = []
    for one in shared:
        found = yield from _past(one)
        if isinstance(found, TooFast):
            return found
        seen.append((one, found))
    return tuple(seen)


def _past(one: Shared) -> Generator[Step, Any, Row | TooFast]:
    row: Row = yield Step("look", one.key)
    for _ in range(LOOKS):
        if not empties_too_soon(one.rule, _pace(one, row, 0)):
            return row
        left = yield Step("left", one.key)  # Asked only now: nearly every call passes without.
        pace = _pace(one, row, one.cap if left is None else left)
        if not empties_too_soon(one.rule, pace):
            return row
        if (yield Step("change", one.key, row, ANEW)):
            return TooFast(pace, one.scope, row.generation, row.asked_at)
        row = yield Step("look", one.key)  # Somebody else was faster: it is counted anew.
    return row


def _pace(one: Shared, row: Row, left: int) -> Pace:
    observed, calls = row.counts.get(SPENT, 0), row.counts.get(CALLS, 0)
    return Pace(one.kind, SPENT, observed, one.rule.factor * one.cap * 60 / one.seconds, left, one.cap, calls)


def spent(counting: tuple[Counting, ...], result: Result | None) -> Settling:
    """What the end of a call adds to the rows that it was let past. None, or one that was never sent: nothing."""
    if not counting or result is None:
        return
    amount = cost_of(counting[0], result)
    for one in counting if amount is not None else ():
        for name, n in ((CALLS, 1), (SPENT, amount)):
            yield Step("count", one.shared.key, one.row, tally=Tally(key=name, n=n or 0, windowed=True))


def cost_of(one: Counting, result: Result) -> int | None:
    """Micro-dollars that an answer cost, as the run's own ledger has it; None: nobody was paid."""
    if not isinstance(result, ModelReplied | CallFailed):
        return None
    found = charge(one.price, Charge(one.worst_usd_micros, 0), result)
    return found.usd_micros if found.billed or found.usd_micros else None
