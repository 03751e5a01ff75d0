"""Draw the chart over the list of runs: times of request and results, with an equal table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from django.utils.safestring import SafeString

from console.site.markup import mark_safe_markup
from fabric.core.people.actor import Actor
from fabric.core.values.units import US
from fabric.selectors.runs.query.filters import Ids
from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.list_pages import Bar, Matched, runs_bars
from fabric.selectors.runs.query.values import Bounds

BARS_MAX = 60
LONG_US = 20 * 3_600 * US
SHORT_US = 10 * 60 * US
"""A chart of ten-second bars, whose ends may lie within one minute."""
HEIGHT = 60.0
HEADROOM = 4.0
"""Above the highest bar."""
LOWEST = 1.5
"""Smallest height of a bar's part that stands for one run among thousands."""
GAP = 0.16
"""Between two bars, as a part of the width that one has."""
PARTS: tuple[tuple[str, str, str], ...] = (
    ("completed", "neutral", "completed"),
    ("recovered", "warn", "completed after recovery"),
    ("bad", "danger", "failed, aborted or stopped"),
    ("cancelled", "hollow", "cancelled"),
    ("unended", "info", "not ended yet"),
)
"""Field of ``Bar``, tone and words of each part of a bar, from below."""
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
class Stretch:
    """A row of the table: one bar."""

    at: int
    counts: tuple[int, ...]
    """Number of runs of each part."""

    @property
    def all(self) -> int:
        """Number of runs in this bar."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of all bars."""

    tone: str
    word: str
    count: int


@dataclass(frozen=True)
class Chart:
    """Bars of equal width from ``since`` to ``until``; microseconds since the epoch."""

    since: int
    until: int
    width_words: str
    bars: int
    stretches: tuple[Stretch, ...]
    """Bars with runs, in order."""
    cut: bool
    """True if older runs are not shown."""

    @cached_property
    def most(self) -> int:
        """Runs of the highest bar."""
        return max((stretch.all for stretch in self.stretches), default=0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts, each with its sum over all bars."""
        rows = [stretch.counts for stretch in self.stretches]
        return tuple(Part(tone, word, sum(row[number] for row in rows)) for number, (_, tone, word) in enumerate(PARTS))

    @property
    def instant_form(self) -> str:
        """The form of its instants: with the day in a long span, with seconds in a short one."""
        length = self.until - self.since
        return "full" if length > LONG_US or length <= SHORT_US else "minute"

    @property
    def label(self) -> str:
        """The picture in a sentence, for readers who do not see it."""
        whole = sum(part.count for part in self.parts)
        started = f"Runs started, {self.width_words} a bar, {self.most:,} in the highest: {whole:,} in all"
        return ", ".join([started, *(f"{part.count:,} {part.word}" for part in self.parts)])

    @property
    def bars_svg(self) -> SafeString:
        """The bars as rectangles of SVG, in percent of the width and of ``HEIGHT``."""
        return mark_safe_markup("".join(self._rects()))

    def _rects(self) -> Iterator[str]:
        step, most = 100 / self.bars, self.most
        width_us = (self.until - self.since) // self.bars
        for stretch in self.stretches:
            x, y = step * ((stretch.at - self.since) // width_us + GAP / 2), HEIGHT
            for (_, tone, _), count in zip(PARTS, stretch.counts, strict=True):
                if count:
                    # One run among thousands is still to be seen.
                    height = max(LOWEST, (HEIGHT - HEADROOM) * count / most)
                    y -= height
                    size = f'width="{step * (1 - GAP):.3f}" height="{height:.2f}"'
                    yield f'<rect class="f-{tone}" x="{x:.3f}" y="{y:.2f}" {size}/>'


def build_chart(actor: Actor, query: Query, fabrics: Ids, *, matched: Matched, now: int) -> Chart:
    """The chart of what was counted: from the query's own beginning, else from the oldest run counted, until now.
    Raises TookTooLong.
    """
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
    return Stretch(since + bar.number * width, tuple(getattr(bar, field) for field, _, _ in PARTS))
