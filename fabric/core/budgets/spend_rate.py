"""Measures spending rates of runs and compares them with their limits (docs/specification/budgets.md). Amounts are
micro-dollars or tokens.

A fabric with an hourly ceiling has one rate for all its runs. The caller with access to the shared rows checks it
before each model call.

A row counts the model calls that came back and their cost, over a minute and to within ten seconds. It begins anew with
each decision about it. So of all runs that spend too fast together exactly one takes its cell: the run whose call
crossed the line. ``pace_call`` is a generator of ``RowStep`` like those of ``breaker/passing.py``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Literal

from fabric.core.breaker.passing import LOOKS, BreakerKey, BreakerRow, RowStep, Settling
from fabric.core.breaker.signals import CountChange
from fabric.core.budgets.charges import Charge, charge
from fabric.core.budgets.grants import FABRIC
from fabric.core.events.inputs import CallFailed, ModelReplied, Result
from fabric.core.spec.policies.budgets import CostVelocity, amount_words, cap_words
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.cost import Price
from fabric.core.values.frozen import value

Against = Literal["configured", "usual", "projection", "ceiling"]
"""Limits of a rate: the policy's rate, the usual rate, the cap at the plan's end, or the hour's ceiling."""
USUAL_SHARE = 10
"""A rate above the usual one trips only if its minute used one part in so many of the cap. Otherwise a fabric
whose runs cost a cent would stop the first long document, which is harmless.
"""
GOOD_PART = 0.5
"""A projection is judged once this share of the cap is spent, and this share of the branches is done.

Before that the cheapest branch says little of the others, and a person loses little by waiting.
"""


@value()
class SpendRate:
    """The spending rate of one scope, and its limit."""

    scope: str
    unit: str
    observed: int
    """Amount of the last minute."""
    limit: float
    """Most that a minute may cost."""
    left: int
    cap: int
    calls: int
    against: Against = "ceiling"
    usual: int = 0
    """The usual busiest minute, where the pace is compared with it."""

    @property
    def seconds_left(self) -> float | None:
        """Until the ceiling is reached at this rate; None: nothing is being spent."""
        return self.left * 60 / self.observed if self.observed else None

    @property
    def sentence(self) -> str:
        """Return the sentence that compares the spending with its limit."""
        spent = f"{cap_words(self.scope)} spent {amount_words(self.observed, self.unit)} in a minute"
        if self.against == "configured":
            return f"{spent}, and the fabric allows {amount_words(int(self.limit), self.unit)} a minute"
        if self.against == "usual":
            times = self.observed / self.usual
            return f"{spent}, {times:,.0f} times the {amount_words(self.usual, self.unit)} of its usual busiest minute"
        return (
            f"{spent}, and at that rate the {amount_words(self.left, self.unit)} left of "
            f"{amount_words(self.cap, self.unit)} would last {self.seconds_left or 0:.0f} s"
        )


def empties_too_soon(rule: CostVelocity, pace: SpendRate) -> bool:
    """Return True if runs together spend above the even rate of their hour and would soon exhaust it."""
    if not rule.factor or pace.calls < rule.calls or pace.observed <= pace.limit:
        return False
    return pace.left * 60 <= pace.observed * rule.within_s


@value()
class TooFast:
    """A rate that a mechanism judges, with its row as it stood."""

    pace: SpendRate
    scope: str
    generation: int
    asked_at: int


@value()
class Projection:
    """A plan that its cap cannot pay for. Each remaining branch is taken to cost as little as the cheapest finished
    one.
    """

    scope: str
    cap: int
    left: int
    needed: int
    """Micro-dollars that the branches left take at least."""
    done: int
    to_do: int
    """Branches that are needed and not done."""
    cheapest: int

    @property
    def sentence(self) -> str:
        """Return the sentence on the finished and the remaining work, and that the money is too little for it."""
        branches = "branch" if self.to_do == 1 else "branches"
        return (
            f"{cap_words(self.scope)} cannot reach its end within its cap: the {self.done} branches done cost at least "
            f"{amount_words(self.cheapest, 'usd_micros')} each, so the {self.to_do} {branches} left would take "
            f"{amount_words(self.needed, 'usd_micros')}, and {amount_words(self.left, 'usd_micros')} of {amount_words(self.cap, 'usd_micros')} is left"
        )


def project_overrun(
    scope: str, cap: int, spent: int, done: list[int], under_way: Iterable[int], needed: int
) -> Projection | None:
    """Return a projection that does not fit its cap; None: it may fit, or it is too early to tell. ``done``: cost of
    each finished branch; ``under_way``: cost so far of each other branch; ``needed``: the number of those that
    the plan needs. All in micro-dollars.
    """
    if needed <= 0 or len(done) < 2 or spent < cap * GOOD_PART or len(done) < (len(done) + needed) * GOOD_PART:
        return None
    cheapest, left = min(done), max(0, cap - spent)
    rest = sum(sorted(max(0, cheapest - cost) for cost in under_way)[:needed])
    if rest <= left:
        return None
    return Projection(scope, cap, left, rest, len(done), needed, cheapest)


KIND = "cost_velocity"
"""Kind of the rows: the mechanism's name, by test."""
CALLS, SPENT = "calls", "usd_micros"
"""Names of a row's counts."""
ANEW = "anew"
"""State of a row that was decided about; its counts began with the decision."""
HOUR_S = 3_600.0


@value()
class SharedSpend:
    """A budget that runs share, and its limit."""

    kind: str
    """``fabric``."""
    scope: str
    """The name of its budget, and of its row."""
    cap: int
    seconds: float
    """The time that its cap is for."""
    rule: CostVelocity

    @property
    def key(self) -> BreakerKey:
        """Its row."""
        return BreakerKey(self.scope, KIND)


@value()
class Counting:
    """A row that a call was let past: where its cost is counted when it is known."""

    shared: SharedSpend
    row: BreakerRow
    price: Price | None
    worst_usd_micros: int
    """Worst-case cost of the call, which counts where its cost stays unknown."""


Steps = Generator[RowStep, Any, "tuple[tuple[SharedSpend, BreakerRow], ...] | TooFast"]


def list_shared(policy: FlowPolicy, fabric_id: str) -> tuple[SharedSpend, ...]:
    """Return the hour that a run shares with its fabric's other runs, where it is capped and rates are judged. A
    session has no period to measure.
    """
    budget, rule = policy.budget, policy.cost_velocity
    if not rule.factor or not budget.fabric_hour_usd_micros:
        return ()
    return (SharedSpend(FABRIC, f"{FABRIC}:{fabric_id}", budget.fabric_hour_usd_micros, HOUR_S, rule),)


def pace_call(shared: tuple[SharedSpend, ...]) -> Steps:
    """Take a call past its rows; return all of them, as they stood, or the first that trips."""
    seen = []
    for one in shared:
        found = yield from _pass_rate(one)
        if isinstance(found, TooFast):
            return found
        seen.append((one, found))
    return tuple(seen)


def _pass_rate(one: SharedSpend) -> Generator[RowStep, Any, BreakerRow | TooFast]:
    row: BreakerRow = yield RowStep("look", one.key)
    for _ in range(LOOKS):
        if not empties_too_soon(one.rule, _pace(one, row, 0)):
            return row
        left = yield RowStep("left", one.key)  # Read only now, since nearly every call passes without it.
        pace = _pace(one, row, one.cap if left is None else left)
        if not empties_too_soon(one.rule, pace):
            return row
        if (yield RowStep("change", one.key, row, ANEW)):
            return TooFast(pace, one.scope, row.generation, row.asked_at)
        row = yield RowStep("look", one.key)  # Another worker was faster: the count is new.
    return row


def _pace(one: SharedSpend, row: BreakerRow, left: int) -> SpendRate:
    observed, calls = row.counts.get(SPENT, 0), row.counts.get(CALLS, 0)
    return SpendRate(one.kind, SPENT, observed, one.rule.factor * one.cap * 60 / one.seconds, left, one.cap, calls)


def count_spending(counting: tuple[Counting, ...], result: Result | None) -> Settling:
    """Add the end of a call to the rows that it passed; nothing for None or an unsent call."""
    if not counting or result is None:
        return
    amount = find_cost(counting[0], result)
    for one in counting if amount is not None else ():
        for name, n in ((CALLS, 1), (SPENT, amount)):
            yield RowStep("count", one.shared.key, one.row, tally=CountChange(key=name, n=n or 0, windowed=True))


def find_cost(one: Counting, result: Result) -> int | None:
    """Return the micro-dollars that an answer cost, as the run's own ledger has them; None: nothing was charged."""
    if not isinstance(result, ModelReplied | CallFailed):
        return None
    found = charge(one.price, Charge(one.worst_usd_micros, 0), result)
    return found.usd_micros if found.billed or found.usd_micros else None
