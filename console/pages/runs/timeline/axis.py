"""Place instants on the time axis of a picture, in percent, with idle time folded into pleats. Pure functions.

Instants are microseconds since the epoch. A pleat says how much it folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from fabric.core.values.units import US
from fabric.selectors.runs.story.figures import Interval, unite_intervals

LEFT, RIGHT = 1.2, 98.8
"""Percent: room for marks that stand on an edge."""
PLEAT = 4.0
"""Width of a pleat, percent, however much it folded."""
PLEATS_MAX = 5
FOLD_MIN_US = 5 * US
FOLD_SHARE = 0.08
"""A gap is folded when it is longer than both: less would not be worth the break."""
TICKS_MAX = 7
_STEPS_S = (
    *(
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1_800,
        3_600,
        7_200,
        14_400,
        28_800,
        43_200,
    ),
    *(86_400, 172_800, 604_800, 2_592_000),
)


@dataclass(frozen=True, slots=True)
class Pleat:
    """Folded time: from one instant to another, drawn at ``x`` percent."""

    start: int
    end: int
    x: float

    @property
    def micros(self) -> int:
        """The folded time."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis: where, and how much unfolded time has passed there, microseconds."""

    x: float
    elapsed: int


@dataclass(frozen=True)
class Axis:
    """From ``start`` to ``end`` with pleats between, in order."""

    start: int
    end: int
    pleats: tuple[Pleat, ...] = ()
    right: float = RIGHT
    """Where the end stands, percent. It is short of the edge while the run goes on, so that open parts look open."""
    name: str = "axis"
    """Id of its marks, to which everything drawn on it refers."""
    until: int = 0
    """Instant at the right edge, behind the end: the last deadline of the calls that are out. 0: none is out."""

    @cached_property
    def folded_us(self) -> int:
        """Microseconds folded away."""
        return sum(pleat.micros for pleat in self.pleats)

    @cached_property
    def drawn_us(self) -> int:
        """Microseconds that are drawn."""
        return max(1, self.end - self.start - self.folded_us)

    @cached_property
    def scale(self) -> float:
        """Percent a microsecond."""
        return (self.right - LEFT - PLEAT * len(self.pleats)) / self.drawn_us

    def x(self, at: int) -> float:
        """Return the place of an instant, percent. One outside stands at the edge, one in a pleat within it."""
        at = min(max(at, self.start), self.end)
        gone, before = 0, 0.0
        for pleat in self.pleats:
            if at <= pleat.start:
                break
            if at < pleat.end:
                return pleat.x + PLEAT * (at - pleat.start) / pleat.micros
            gone += pleat.micros
            before += PLEAT
        return LEFT + before + (at - self.start - gone) * self.scale

    def place_end(self, at: int | None) -> float:
        """Return the place of an end, percent. An open end reaches to the edge."""
        return RIGHT if at is None else self.x(at)

    def ahead(self, at: int) -> float:
        """Return the place of an instant behind the end, percent. That part of the picture has a scale of its own."""
        share = (min(max(at, self.end), self.until) - self.end) / max(1, self.until - self.end)
        return self.right + (RIGHT - self.right) * share

    def ticks(self) -> list[Tick]:
        """Round instants of the time that is drawn, few enough to be read."""
        step = next((s for s in _STEPS_S if self.drawn_us / US / s <= TICKS_MAX), _STEPS_S[-1])
        step_us = round(step * US)
        return [Tick(self.x(self._instant(n * step_us)), n * step_us) for n in range(self.drawn_us // step_us + 1)]

    def measure_drawn(self, at: int) -> int:
        """Return the drawn time before an instant, microseconds."""
        at = min(max(at, self.start), self.end)
        return at - self.start - sum(min(at, p.end) - p.start for p in self.pleats if p.start < at)

    def _instant(self, elapsed: int) -> int:
        """The instant at which so much drawn time has passed."""
        at = self.start + elapsed
        for pleat in self.pleats:
            if at < pleat.start:
                break
            at += pleat.micros
        return at


def build_axis(
    start: int,
    end: int,
    busy: Iterable[Interval],
    *,
    fold: bool = True,
    right: float = RIGHT,
    name: str = "axis",
    until: int = 0,
) -> Axis:
    """Return the axis of a picture. The longest gaps between ``busy`` intervals are folded, unless ``fold`` is off."""
    end = max(end, start + 1)
    if not fold:
        return Axis(start, end, (), right, name, until)
    edges = [
        (start, start),
        *unite_intervals((max(a, start), min(b, end)) for a, b in busy if b >= start and a <= end),
        (end, end),
    ]
    gaps = [(a[1], b[0]) for a, b in pairwise(edges) if b[0] > a[1]]
    idle = sum(b - a for a, b in gaps)
    least = max(FOLD_MIN_US, FOLD_SHARE * (end - start - idle))
    longest = sorted((gap for gap in gaps if gap[1] - gap[0] > least), key=lambda gap: gap[0] - gap[1])[:PLEATS_MAX]
    placed = Axis(start, end, tuple(Pleat(a, b, 0.0) for a, b in sorted(longest)), right, name, until)
    return Axis(start, end, tuple(Pleat(p.start, p.end, placed.x(p.start)) for p in placed.pleats), right, name, until)


SHORT_US = 60 * US
"""Up to here an axis counts in seconds; below one second in milliseconds."""


def clock(micros: int, step: int = US, *, whole: int = SHORT_US) -> str:
    """Return elapsed time in the form that fits the axis: ``84 ms``, ``0.5 s``, ``4 s``, ``1:05``, ``2:03:00``."""
    if whole < US:
        return f"{micros / 1_000:.0f} ms"
    if step < US:
        return f"{micros / US:.1f} s"
    if whole < SHORT_US:
        return f"{micros // US} s"
    hours, rest = divmod(micros // US, 3_600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
