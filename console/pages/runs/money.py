"""Show the cost of a run: against its ceiling, over time, by stage, agent and model. Pure functions.

Rates and projections are those of the run's last event. They are worked out once, on the server, for all readers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from console.pages.runs.timeline.axis import Axis, build_axis
from console.templatetags.figures import decimals_of, usd_with
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import Stage
from fabric.core.values.units import US
from fabric.core.values.words import words
from fabric.selectors.runs.story.figures import busy, part_words
from fabric.selectors.runs.story.fold import RunStory
from fabric.selectors.runs.story.parts import CallSums

BUCKETS = 16
"""Points of the rate's curve."""
HEIGHT = 60
"""Height of a chart's box; its width is 100."""
HEADROOM = 1.12
PROJECT_MAX = 10
"""A ceiling further off than this many times the run's age so far is not drawn. Beyond a day no text names it."""
FAR_US = 86_400 * US


@dataclass(frozen=True, slots=True)
class Chart:
    """A curve in a box of 100 by 60: ``line`` and ``area`` as SVG points."""

    line: str
    area: str
    ceiling_y: float | None = None
    end: tuple[float, float] | None = None
    """Where the curve stands now."""
    hit: tuple[float, float] | None = None
    """Where it would reach the ceiling."""


@dataclass(frozen=True, slots=True)
class Money:
    """The numbers of the header's cost section, micro-dollars and microseconds."""

    spent: int
    cap: int
    tokens: int
    calls: int
    children: int
    """Child runs; what those cost that have ended is in what was spent."""
    rate: int
    """Micro-dollars a minute, over the last minute before the last event."""
    going: bool
    """True if more can be spent: only then is a projection shown."""
    to_ceiling: int | None
    """Microseconds until the ceiling at this rate; None: not at this rate."""
    ceiling_at: int | None
    total: Chart | None
    rates: Chart | None
    age: int
    """Time that was worked, without what was folded away."""

    @property
    def remaining(self) -> int:
        """The money that may still be spent."""
        return max(0, self.cap - self.spent)

    @property
    def percent(self) -> int:
        """Share of the ceiling, whole percent."""
        return 100 * self.spent // self.cap if self.cap else 0

    @property
    def tone(self) -> str:
        """Grey until the ceiling is near."""
        return "danger" if self.percent >= 90 else "warn" if self.percent >= 70 else "neutral"

    @property
    def near(self) -> bool:
        """True: the ceiling is less than ten minutes away (docs/specification/budgets.md)."""
        return self.to_ceiling is not None and self.to_ceiling <= 600 * US


@dataclass(frozen=True, slots=True)
class MoneyLine:
    """The header's line about money. All amounts have equal decimals; an amount of nothing is empty."""

    spent: str
    unconfirmed: str
    """The part of it that was charged at its maximum, since the bill is not known."""
    reserved: str
    left: str
    over: str
    cap: str


def build_money_line(*, spent: int, unconfirmed: int, reserved: int, cap: int) -> MoneyLine:
    """Return the line for amounts in micro-dollars. Above the cap it says by how much, and nothing is left."""
    over, left = max(0, spent - cap), max(0, cap - spent - reserved)
    decimals = decimals_of((spent, unconfirmed, reserved, cap))

    def show(amount: int) -> str:
        return usd_with(amount, decimals) if amount else ""

    return MoneyLine(
        spent=usd_with(spent, decimals),
        unconfirmed=show(unconfirmed),
        reserved=show(reserved),
        left=usd_with(left, decimals),
        over=show(over),
        cap=usd_with(cap, decimals),
    )


def money(story: RunStory, cap: int, *, going: bool) -> Money:
    """The cost of a run against its ceiling, as of its last event."""
    rate = story.rate_usd_micros_per_min()
    axis = build_axis(story.started_at, story.at, busy(story))
    spent, age = story.total.cost_usd_micros, axis.drawn_us if story.started_at else 0
    until = None
    if going and rate > 0 and spent < cap:
        until = (cap - spent) * 60 * US // rate
        until = until if until <= FAR_US else None
    return Money(
        spent=spent,
        cap=cap,
        tokens=story.total.tokens,
        calls=story.total.calls,
        children=story.total.children,
        rate=rate,
        going=going,
        to_ceiling=until,
        ceiling_at=None if until is None else story.at + until,
        total=_total(story, axis, cap, until),
        rates=_rates(story, axis),
        age=age,
    )


def _points(points: list[tuple[float, float]]) -> tuple[str, str]:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return line, f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}"


def _total(story: RunStory, axis: Axis, cap: int, until: int | None) -> Chart | None:
    """Return the money spent, with the way to the limit where that is near."""
    if not story.points:
        return None
    age = axis.drawn_us
    drawn = until if until is not None and until <= PROJECT_MAX * age else None
    width = age + (drawn or 0)
    spent = story.points[-1][1]
    # The ceiling is in the picture once it matters: near, or on the way.
    shows_cap = cap > 0 and (drawn is not None or spent * 4 >= cap)
    top = HEADROOM * max(spent, cap if shows_cap else 0, 1)

    def place_point(instant: int, amount: int) -> tuple[float, float]:
        return 100 * axis.measure_drawn(instant) / width, HEIGHT - HEIGHT * amount / top

    steps = [place_point(story.started_at, 0)]
    for instant, amount in story.points:
        steps += [(place_point(instant, 0)[0], steps[-1][1]), place_point(instant, amount)]
    steps.append(place_point(story.at, spent))
    line, area = _points(steps)
    ceiling = place_point(story.at, cap)[1] if shows_cap else None
    hit = (100.0, ceiling) if drawn is not None and ceiling is not None else None
    return Chart(line, area, ceiling, steps[-1], hit)


def _rates(story: RunStory, axis: Axis) -> Chart | None:
    """Return the spend rate of each sixteenth of the run."""
    if not story.points:
        return None
    age = axis.drawn_us
    instants = [axis.measure_drawn(instant) for instant, _ in story.points]
    sums = [0, *(amount for _, amount in story.points)]
    edges = [age * n // BUCKETS for n in range(BUCKETS + 1)]
    so_far = [sums[bisect_right(instants, edge)] for edge in edges]
    so_far[-1] = sums[-1]
    spent = [b - a for a, b in pairwise(so_far)]
    top = HEADROOM * max(*spent, 1)
    line, area = _points([(100 * n / (BUCKETS - 1), HEIGHT - HEIGHT * amount / top) for n, amount in enumerate(spent)])
    return Chart(line, area)


# -- by stage, agent and model -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """One line of a cost table. ``cost`` None: unpriced, which is not nothing."""

    name: str
    tally: CallSums
    cost: int | None
    percent: int
    """Points of the total cost."""

    @property
    def parts(self) -> str:
        """Its tokens of kinds that have prices of their own."""
        return part_words(self.tally)

    @property
    def paid_for(self) -> str:
        """The things that were paid for: calls, child runs, or both."""
        tally = self.tally
        runs = f"{tally.children:,} child run{'' if tally.children == 1 else 's'}" if tally.children else ""
        return " + ".join(part for part in (f"{tally.calls:,}" if tally.calls or not runs else "", runs) if part)


def share_by_stage(story: RunStory) -> list[Share]:
    """The five stages in order; those that made no call say so by their calls."""
    return [_share(words(stage), story.by_stage.get(stage, CallSums()), story) for stage in Stage]


def share_by_agent(story: RunStory) -> list[Share]:
    """Agents, the dearest first."""
    return _shares(story.by_agent, story)


def share_by_model(story: RunStory, spec: FabricSpec) -> list[Share]:
    """Models, the dearest first, then all child runs together. A model that answered, has no price in its fabric and
    cost nothing is unpriced.
    """
    priced = {model.name for model in spec.models if model.price is not None}
    own = [
        Share(share.name, share.tally, None if _is_unpriced(share, priced) else share.cost, share.percent)
        for share in _shares(story.by_model, story)
    ]
    spent = CallSums(children=story.total.children)
    for lane in story.lanes.values():
        for bar in lane.bars:
            if bar.call == "child":
                spent.add(bar.tokens, bar.cost_usd_micros)
    return [*own, _share("child runs", spent, story)] if spent.children else own


def _is_unpriced(share: Share, priced: set[str]) -> bool:
    return share.name not in priced and not share.cost and share.tally.tokens > 0


def _shares(tallies: Mapping[str, CallSums], story: RunStory) -> list[Share]:
    found = [_share(name, tally, story) for name, tally in tallies.items()]
    return sorted(found, key=lambda share: (-(share.cost or 0), -share.tally.tokens, share.name))


def _share(name: str, tally: CallSums, story: RunStory) -> Share:
    whole = story.total.cost_usd_micros
    percent = 100 * tally.cost_usd_micros // whole if whole else 0
    return Share(name, tally, tally.cost_usd_micros, percent)
