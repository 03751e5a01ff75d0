"""How fast money or tokens go out, and when that is too fast (semantics.md 4 "cost velocity"). Amounts are micro-dollars or tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fabric.core.budget_caps import amount_words, cap_words
from fabric.core.frozen import value
from fabric.core.velocity_policy import CostVelocity

Against = Literal["configured", "usual", "projection", "ceiling"]
"""The measures of a pace: the policy's rate, the usual rate, the cap at the end of the plan, or the hour's ceiling."""
USUAL_SHARE = 10
"""A rate above the usual one trips only where its minute took at least this part of the cap: one in so many.

Without that, a fabric whose runs cost a cent would stop the first long document, which is no danger to anybody.
"""
GOOD_PART = 0.5
"""A projection is judged once this share of the cap is spent, and this share of the branches is done.

Before that the cheapest branch says little of the others, and a person loses little by waiting.
"""


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
    against: Against = "ceiling"
    usual: int = 0
    """The usual busiest minute, where the pace is compared with it."""

    @property
    def seconds_left(self) -> float | None:
        """Until the ceiling is reached at this rate; None: nothing is being spent."""
        return self.left * 60 / self.observed if self.observed else None

    @property
    def sentence(self) -> str:
        """Says what was spent and what that was compared with."""
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


def empties_too_soon(rule: CostVelocity, pace: Pace) -> bool:
    """Returns True where runs together spend above the even pace of their hour and would soon have used it up."""
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


@value()
class Projection:
    """A plan that its cap cannot pay for, even where each branch left costs as little as the cheapest finished one."""

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
        """Says what is done, what is left to do, and that the money does not reach."""
        branches = "branch" if self.to_do == 1 else "branches"
        return (
            f"{cap_words(self.scope)} cannot reach its end within its cap: the {self.done} branches done cost at least "
            f"{amount_words(self.cheapest, 'usd_micros')} each, so the {self.to_do} {branches} left would take "
            f"{amount_words(self.needed, 'usd_micros')}, and {amount_words(self.left, 'usd_micros')} of {amount_words(self.cap, 'usd_micros')} is left"
        )


def projected(
    scope: str, cap: int, spent: int, done: list[int], under_way: Iterable[int], needed: int
) -> Projection | None:
    """Returns a projection that does not fit its cap; None: it may fit, or it is too early to say.

    ``done``: what each finished branch cost; ``under_way``: what each other branch has cost so far; ``needed``: how many of those the
    plan needs. All in micro-dollars.
    """
    if needed <= 0 or len(done) < 2 or spent < cap * GOOD_PART or len(done) < (len(done) + needed) * GOOD_PART:
        return None
    cheapest, left = min(done), max(0, cap - spent)
    rest = sum(sorted(max(0, cheapest - cost) for cost in under_way)[:needed])
    if rest <= left:
        return None
    return Projection(scope, cap, left, rest, len(done), needed, cheapest)
