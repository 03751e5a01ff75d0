"""Draws a drilled run on its virtual clock as SVG.

It shows the ghost of the undisturbed run, the expectation of the table, and the observation. Idle time is folded as in
a run's timeline (``runs.timeline.axis``), and a pleat shows how much. A wait for a breaker is never folded: it is the
subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString

from console.pages.drills.lines import DrillLine
from console.pages.runs.timeline.axis import PLEAT, Axis, build_axis, clock
from console.pages.runs.timeline.shapes import HATCH
from console.site.markup import mark_safe_markup
from console.templatetags.figures import span
from console.templatetags.said import inert
from console.words.drills import ChainStep
from fabric.core.values.units import JSON, US
from fabric.core.values.words import duration

Run = Mapping[str, JSON]
BAR = 13
"""Height of a bar; pixels."""
GHOST_Y, EXPECTED_Y, OBSERVED_Y = 16, 58, 100
"""Vertical position of each row's bars."""
KNOTS_Y, AXIS_Y, TICKS_Y = 124, 136, 150
NARROWEST = 0.3
"""Smallest visible width, in percent."""
CHAR_ROOM, GAP = 2.1, 2.0
"""Width of a character, and the gap beside a label, in percent of the narrowest picture (a phone)."""
LOOKS: Mapping[str, tuple[str, str]] = {
    "model": ("g-model", "model calls"),
    "tool": ("g-tool", "tool calls"),
    "child": ("g-child", "child runs"),
    "failed": ("g-fail", "failed"),
    "let_go": ("g-void", "abandoned"),
    "backoff": ("g-retry", "back-off"),
    "breaker": ("gh-wait", "waits for a breaker"),
    "human": ("g-human", "waits for a person"),
    "unwinding": ("gh-undo", "undone"),
}
"""Class and legend of each kind of segment; total over those of a story, by test."""
ALONG = frozenset({"human", "let_go"})
"""Kinds in which nothing runs. Time that only they fill may be folded."""


class TimelineRow(NamedTuple):
    """A row of the table beside the picture."""

    at: str
    took: str
    what: str
    said: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture and the table beside it."""

    svg: SafeString
    told: str
    """The picture in one sentence."""
    rows: tuple[TimelineRow, ...]
    marks: tuple[tuple[str, str], ...]
    """Class and words of each row of the legend."""
    odd: bool
    """True if a decision was made that the table does not promise."""
    folded: int
    """Microseconds that are folded into pleats."""
    cut: int
    """Number of segments that the story left out."""


def find_picture(story: Mapping[str, JSON], lines: Sequence[DrillLine], now_s: float | None = None) -> Picture | None:
    """Draw a story; None without one. ``now_s``: position of the player, in virtual seconds."""
    ghost, seen = story.get("undisturbed") or {}, story.get("disturbed") or {}
    if not seen:
        return None
    segments: list[Run] = list(seen.get("segments", ()))
    axis = _axis(ghost, seen, segments)
    pen = _Pen(axis)
    shapes = [*pen.frame(), *pen.ghost(ghost), *pen.draw_expected(lines), *pen.draw_observed(seen, segments, lines)]
    if now_s is not None:
        shapes.append(pen.now(now_s))
    label = _describe_picture(ghost, seen)
    svg = f'<svg class="ghosts" role="img" aria-label="{escape(label)}"><defs>{HATCH}</defs>{"".join(shapes)}</svg>'
    kinds = {one["kind"] for one in segments}
    marks = tuple(LOOKS[kind] for kind in LOOKS if kind in kinds)
    cut = (seen.get("folded") or {}).get("segments", 0)
    odd = any(line.how != "same" and line.at_s is not None for line in lines)
    return Picture(mark_safe_markup(svg), label, tuple(_rows(segments, lines)), marks, odd, axis.folded_us, cut)


def _us(seconds: JSON) -> int:
    return round(float(seconds) * US)


def _axis(ghost: Run, seen: Run, segments: Sequence[Run]) -> Axis:
    end = max(_us(ghost.get("total_s", 0)), _us(seen.get("total_s", 0)))
    at_work = [one for one in segments if one["kind"] not in ALONG]
    busy = [(_us(one["start_s"]), _us(one["end_s"])) for one in (*at_work, *ghost.get("stages", ()))]
    return build_axis(0, end, busy, name="drill-grid")


def _describe_picture(ghost: Run, seen: Run) -> str:
    """Return the picture in one sentence."""
    before = f"The undisturbed run completes at {duration(ghost['total_s'])}; " if ghost else ""
    return f"{before}the disturbed run is {seen.get('state') or 'not over'} at {duration(seen['total_s'])}"


def _rows(segments: Sequence[Run], lines: Sequence[DrillLine]) -> Iterator[TimelineRow]:
    found = [(one["start_s"], _segment_told(one)) for one in segments]
    found += [(one.at_s, _line_told(one)) for one in lines if one.at_s is not None]
    yield from (row for _, row in sorted(found, key=lambda one: one[0]))


def _segment_told(one: Run) -> TimelineRow:
    return TimelineRow(f"{one['start_s']:.2f} s", duration(one["end_s"] - one["start_s"]), LOOKS[one["kind"]][1], str(one["said"]))  # fmt: skip


def _line_told(one: DrillLine) -> TimelineRow:
    assert one.observed is not None
    return TimelineRow(f"{one.at_s:.2f} s", "", f"line {one.number}", one.observed.words)


# -- drawing -----------------------------------------------------------------------------------------------------------


class _Pen:
    """Draws on one axis."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def x(self, seconds: JSON) -> float:
        return self.axis.x(_us(seconds))

    def rect(self, css: str, start_s: JSON, end_s: JSON, y: int, height: int = BAR, title: str = "") -> str:
        left, right = self.x(start_s), self.x(end_s)
        width = max(right - left, NARROWEST)
        tip = f"<title>{escape(inert(title))}</title>" if title else ""
        return f'<rect class="{css}" x="{left:.2f}%" width="{width:.2f}%" y="{y}" height="{height}" rx="2">{tip}</rect>'

    def label(self, text: str, y: int) -> str:
        return f'<text class="lab" x="0" y="{y - 5}">{escape(inert(text))}</text>'

    def frame(self) -> Iterator[str]:
        """Yield the axis, its ticks, and the pleats."""
        axis = self.axis
        yield f'<line class="c-axis" x1="0" x2="100%" y1="{AXIS_Y}" y2="{AXIS_Y}"/>'
        places = _Places()
        for pleat in axis.pleats:
            middle = pleat.x + PLEAT / 2
            yield f'<rect class="g-fold" x="{pleat.x:.2f}%" width="{PLEAT:g}%" y="0" height="{AXIS_Y}"/>'
            yield f'<svg x="{middle:.2f}%" y="0" overflow="visible"><path class="g-fold-z" d="{_zigzag()}"/></svg>'
            yield places.label(middle, f"{span(pleat.micros)} folded", "fold-t")
        ticks = axis.ticks()
        step = ticks[1].elapsed - ticks[0].elapsed if len(ticks) > 1 else US
        for tick in ticks:
            yield f'<line class="g-grid" x1="{tick.x:.2f}%" x2="{tick.x:.2f}%" y1="0" y2="{AXIS_Y}"/>'
            yield places.label(tick.x, clock(tick.elapsed, step, whole=axis.drawn_us), "lab")

    def ghost(self, ghost: Run) -> Iterator[str]:
        """Yield the undisturbed run, stage by stage."""
        if not ghost:
            return
        yield self.label(f"undisturbed, completes at {duration(ghost['total_s'])}", GHOST_Y)
        for one in ghost.get("stages", ()):
            title = f"{one['stage'].replace('_', '-')}, undisturbed: {duration(one['end_s'] - one['start_s'])}"
            yield self.rect("gh", one["start_s"], one["end_s"], GHOST_Y, title=title)

    def draw_expected(self, lines: Sequence[DrillLine]) -> Iterator[str]:
        """Yield the decisions of the table. Those that were made have their instants; from the first missing one on
        they are open.
        """
        if not any(line.expected for line in lines):
            return
        middle = EXPECTED_Y + BAR / 2
        yield self.label(_expected_words(lines), EXPECTED_Y)
        reached = self.axis.x(0)
        for line in lines:
            if line.how != "same" or line.at_s is None:
                break
            here = self.x(line.at_s)
            yield f'<line class="g-thread" x1="{reached:.2f}%" x2="{here:.2f}%" y1="{middle}" y2="{middle}"/>'
            yield self.knot(line, here, middle, "gate pass", line.expected)
            reached = here
        if any(line.how != "same" for line in lines):
            yield f'<line class="g-pend" x1="{reached:.2f}%" x2="98.8%" y1="{middle}" y2="{middle}"/>'

    def draw_observed(self, seen: Run, segments: Sequence[Run], lines: Sequence[DrillLine]) -> Iterator[str]:
        """Yield the observed attempts and waits, with the decisions under them."""
        state = seen.get("state") or "not over"
        yield self.label(f"observed, {state} at {duration(seen['total_s'])}", OBSERVED_Y)
        for one in segments:
            yield self.segment(one)
        for line in lines:
            if line.at_s is not None:
                css = "gate pass" if line.how == "same" else "gate fail"
                yield self.knot(line, self.x(line.at_s), KNOTS_Y, css, line.observed)

    def segment(self, one: Run) -> str:
        css = LOOKS[one["kind"]][0]
        title = f"{one['said']}, {duration(one['end_s'] - one['start_s'])}"
        if one["kind"] != "backoff":
            return self.rect(css, one["start_s"], one["end_s"], OBSERVED_Y, title=title)
        left, middle = self.x(one["start_s"]), OBSERVED_Y + BAR / 2
        right = max(self.x(one["end_s"]), left + NARROWEST)
        tip = f"<title>{escape(inert(title))}</title>"
        return f'<line class="{css}" x1="{left:.2f}%" x2="{right:.2f}%" y1="{middle}" y2="{middle}">{tip}</line>'

    def knot(self, line: DrillLine, x: float, y: float, css: str, step: ChainStep | None) -> str:
        tip = escape(inert(f"line {line.number}: {step.words if step else ''} {line.when}"))
        path = f'<path class="{css}" d="M0-5L5 0 0 5-5 0z"><title>{tip}</title></path>'
        return f'<svg x="{x:.2f}%" y="{y:g}" overflow="visible">{path}</svg>'

    def now(self, seconds: float) -> str:
        x = self.x(seconds)
        return f'<line class="g-now" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="{AXIS_Y}"/>'


def _expected_words(lines: Sequence[DrillLine]) -> str:
    same = all(line.how == "same" for line in lines)
    ends = next((line.expected.words for line in reversed(lines) if line.expected and line.expected.end), "")
    first = next((line.number for line in lines if line.how != "same"), 0)
    return ", ".join(filter(None, ("expected", "" if same else f"from line {first} on otherwise", ends)))


def _zigzag() -> str:
    points: Iterable[str] = (f"{-3 if n % 2 == 0 else 3} {n * 4}" for n in range(AXIS_Y // 4 + 1))
    return "M" + "L".join(points)


class _Places:
    """Positions of labels under the axis. A label whose position is taken is left out."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, float]] = []

    def label(self, x: float, text: str, css: str) -> str:
        room = CHAR_ROOM * len(text) + GAP
        left = min(max(0.0, x - room / 2), 100 - room)
        if any(left < b and a < left + room for a, b in self.taken):
            return ""
        self.taken.append((left, left + room))
        anchor, at = ("start", 0.0) if left == 0 else ("end", 100.0) if left == 100 - room else ("middle", x)
        return f'<text class="{css}" x="{at:.2f}%" y="{TICKS_Y}" text-anchor="{anchor}">{text}</text>'
