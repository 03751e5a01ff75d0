"""The chart over the list: when the matching runs were asked for, and how they went. Drawn here, with a table that says the same."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.selectors.run_filter import Ids
from fabric.selectors.run_query import Query
from fabric.selectors.run_query_values import Bounds
from fabric.selectors.runs_list import Bar, Matched, runs_bars

US = 1_000_000
BARS_MAX = 60
HEIGHT = 60.0
WIDTHS_S: tuple[tuple[int, str], ...] = (
    (10, "10 seconds"),
    (30, "30 seconds"),
    (60, "1 minute"),
    (300, "5 minutes"),
    (900, "15 minutes"),
    (1_800, "30 minutes"),
    (3_600, "1 hour"),
    (3 * 3_600, "3 hours"),
    (6 * 3_600, "6 hours"),
    (12 * 3_600, "12 hours"),
    (86_400, "1 day"),
    (7 * 86_400, "1 week"),
    (30 * 86_400, "30 days"),
    (365 * 86_400, "1 year"),
)
"""Seconds and words of what one bar may stand for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of the picture."""

    tone: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A row of the table: one bar."""

    at: int
    plain: int
    recovered: int
    bad: int

    @property
    def all(self) -> int:
        """Every run of it."""
        return self.plain + self.recovered + self.bad


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of equal width from ``since`` to ``until``; microseconds since the epoch."""

    since: int
    until: int
    width_words: str
    bars: int
    stretches: tuple[Stretch, ...]
    """Those with runs, in order."""
    cut: bool
    """Whether there are older runs than it shows."""

    @property
    def most(self) -> int:
        """Runs of the highest bar."""
        return max((stretch.all for stretch in self.stretches), default=0)

    @property
    def totals(self) -> Stretch:
        """All of it in one."""
        rows = self.stretches
        return Stretch(self.since, sum(s.plain for s in rows), sum(s.recovered for s in rows), sum(s.bad for s in rows))

    @property
    def dated(self) -> str:
        """How its instants are written: with the day where it is longer than one."""
        return "full" if self.until - self.since > 20 * 3_600 * US else "minute"

    @property
    def parts(self) -> list[Part]:
        """The rectangles, in percent of the width and of ``HEIGHT``."""
        step = 100 / self.bars
        width = (self.until - self.since) // self.bars
        drawn: list[Part] = []
        for stretch in self.stretches:
            x, y = step * ((stretch.at - self.since) // width), HEIGHT
            for tone, count in (("neutral", stretch.plain), ("warn", stretch.recovered), ("danger", stretch.bad)):
                if count:
                    # One run among thousands is still to be seen.
                    height = max(1.5, (HEIGHT - 4) * count / self.most)
                    y -= height
                    drawn.append(
                        Part(tone, round(x + step * 0.08, 3), round(y, 2), round(step * 0.84, 3), round(height, 2))
                    )
        return drawn


def chart_of(actor: Actor, query: Query, fabrics: Ids, *, matched: Matched, now: int) -> Chart:
    """The chart of what was counted: from the query's own beginning, else from the oldest run counted, until now. Raises TookTooLong."""
    asked = [term.value for term in query.terms if term.field == "started" and not term.negated]
    lows = [value.low for value in asked if isinstance(value, Bounds) and value.low is not None]
    highs = [value.high for value in asked if isinstance(value, Bounds) and value.high is not None]
    oldest = matched.oldest or now
    since = oldest if matched.more or not lows else max(lows)
    until = max(since + US, min([*highs, now]))
    width_s, words = next(((s, w) for s, w in WIDTHS_S if (until - since) / US / s < BARS_MAX), WIDTHS_S[-1])
    width = width_s * US
    # Bars begin at round times, so that they stay where they are from one look to the next.
    first = since // width * width
    bars = min(BARS_MAX + 1, max(1, -(-(until - first) // width)))
    # From the bar's beginning on, so that the first one is whole even where older runs are left out.
    rows = runs_bars(actor, query, fabrics, since=first, width=width, bars=bars)
    return Chart(
        first,
        first + bars * width,
        words,
        bars,
        tuple(_stretch(bar, first, width) for bar in rows if bar.number < bars),
        matched.more,
    )


def _stretch(bar: Bar, since: int, width: int) -> Stretch:
    return Stretch(since + bar.number * width, bar.plain, bar.recovered, bar.bad)
