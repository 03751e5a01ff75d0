"""Waiting and retrying of a drilled run on its virtual clock: the ghost of the undisturbed run, what the table expects, and what was seen. SVG of attributes alone.

Idle time is folded as in a run's timeline (``time_axis``), and a pleat says how much; a wait for a breaker is none: it is what the picture is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString

from console.markup import built
from console.templatetags.figures import span
from console.templatetags.said import inert
from console.views.drill_lines import Shown
from console.views.drill_words import Step
from console.views.time_axis import PLEAT, US, Axis, axis_of, clock
from console.views.timeline_shapes import HATCH
from fabric.core.words import duration

JSON = Any
Run = Mapping[str, JSON]
BAR, LABEL = 13, 11
"""Height of a bar, and from the foot of a label to the head of its bar; pixels."""
GHOST_Y, EXPECTED_Y, OBSERVED_Y = 16, 58, 100
"""Where each row's bars begin."""
KNOTS_Y, AXIS_Y, TICKS_Y = 124, 136, 150
NARROWEST = 0.3
"""Percent: what is shorter can still be seen."""
CHAR_ROOM, GAP = 2.1, 2.0
"""Percent of the narrowest picture (a phone) that a character takes, and what stays free beside a label."""
LOOKS: Mapping[str, tuple[str, str]] = {
    "model": ("g-model", "model calls"),
    "tool": ("g-tool", "tool calls"),
    "child": ("g-child", "child runs"),
    "failed": ("g-fail", "failed"),
    "let_go": ("g-void", "let go"),
    "backoff": ("g-retry", "back-off"),
    "breaker": ("gh-wait", "waits for a breaker"),
    "human": ("g-human", "waits for a person"),
    "unwinding": ("gh-undo", "undone"),
}
"""Class and legend of each kind of segment; total over those of a story, by test."""
ALONG = frozenset({"human", "let_go"})
"""Kinds in which nothing runs: what only they fill may be folded."""


class Told(NamedTuple):
    """A row of the twin: the picture as a table."""

    at: str
    took: str
    what: str
    said: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture and its twin."""

    svg: SafeString
    told: str
    """The same in a sentence."""
    rows: tuple[Told, ...]
    marks: tuple[tuple[str, str], ...]
    """Class and words of what the legend explains."""
    odd: bool
    """Whether a decision was made that was not expected."""
    folded: int
    """Microseconds in pleats."""
    cut: int
    """Segments that the story left out."""


def picture_of(story: Mapping[str, JSON], lines: Sequence[Shown], now_s: float | None = None) -> Picture | None:
    """Draws a story; None: there is none. ``now_s``: where the player stands, virtual seconds."""
    ghost, seen = story.get("undisturbed") or {}, story.get("disturbed") or {}
    if not seen:
        return None
    segments: list[Run] = list(seen.get("segments", ()))
    axis = _axis(ghost, seen, segments)
    pen = _Pen(axis)
    shapes = [*pen.frame(), *pen.ghost(ghost), *pen.expected(lines), *pen.observed(seen, segments, lines)]
    if now_s is not None:
        shapes.append(pen.now(now_s))
    label = _told(ghost, seen)
    svg = f'<svg class="ghosts" role="img" aria-label="{escape(label)}"><defs>{HATCH}</defs>{"".join(shapes)}</svg>'
    kinds = {one["kind"] for one in segments}
    marks = tuple(LOOKS[kind] for kind in LOOKS if kind in kinds)
    cut = (seen.get("folded") or {}).get("segments", 0)
    odd = any(line.how != "same" and line.at_s is not None for line in lines)
    return Picture(built(svg), label, tuple(_rows(segments, lines)), marks, odd, axis.folded, cut)


def _us(seconds: JSON) -> int:
    return round(float(seconds) * US)


def _axis(ghost: Run, seen: Run, segments: Sequence[Run]) -> Axis:
    end = max(_us(ghost.get("total_s", 0)), _us(seen.get("total_s", 0)))
    at_work = [one for one in segments if one["kind"] not in ALONG]
    busy = [(_us(one["start_s"]), _us(one["end_s"])) for one in (*at_work, *ghost.get("stages", ()))]
    return axis_of(0, end, busy, name="drill-grid")


def _told(ghost: Run, seen: Run) -> str:
    """What the picture says, in one sentence."""
    before = f"The undisturbed run completes at {duration(ghost['total_s'])}; " if ghost else ""
    return f"{before}the disturbed run is {seen.get('state') or 'not over'} at {duration(seen['total_s'])}"


def _rows(segments: Sequence[Run], lines: Sequence[Shown]) -> Iterator[Told]:
    found = [(one["start_s"], _segment_told(one)) for one in segments]
    found += [(one.at_s, _line_told(one)) for one in lines if one.at_s is not None]
    yield from (row for _, row in sorted(found, key=lambda one: one[0]))


def _segment_told(one: Run) -> Told:
    return Told(f"{one['start_s']:.2f} s", duration(one["end_s"] - one["start_s"]), LOOKS[one["kind"]][1], str(one["said"]))  # fmt: skip


def _line_told(one: Shown) -> Told:
    assert one.observed is not None
    return Told(f"{one.at_s:.2f} s", "", f"line {one.number}", one.observed.words)


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
        """The axis, its ticks, and the pleats."""
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
            yield places.label(tick.x, clock(tick.elapsed, step, whole=axis.shown), "lab")

    def ghost(self, ghost: Run) -> Iterator[str]:
        """The undisturbed run, stage by stage."""
        if not ghost:
            return
        yield self.label(f"undisturbed, completes at {duration(ghost['total_s'])}", GHOST_Y)
        for one in ghost.get("stages", ()):
            title = f"{one['stage'].replace('_', '-')}, undisturbed: {duration(one['end_s'] - one['start_s'])}"
            yield self.rect("gh", one["start_s"], one["end_s"], GHOST_Y, title=title)

    def expected(self, lines: Sequence[Shown]) -> Iterator[str]:
        """The decisions of the table: as far as they were made, at the instants at which they were; from the first that was not, open."""
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

    def observed(self, seen: Run, segments: Sequence[Run], lines: Sequence[Shown]) -> Iterator[str]:
        """Attempts and waits as they were, and under them the decisions."""
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

    def knot(self, line: Shown, x: float, y: float, css: str, step: Step | None) -> str:
        tip = escape(inert(f"line {line.number}: {step.words if step else ''} {line.when}"))
        path = f'<path class="{css}" d="M0-5L5 0 0 5-5 0z"><title>{tip}</title></path>'
        return f'<svg x="{x:.2f}%" y="{y:g}" overflow="visible">{path}</svg>'

    def now(self, seconds: float) -> str:
        x = self.x(seconds)
        return f'<line class="g-now" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="{AXIS_Y}"/>'


def _expected_words(lines: Sequence[Shown]) -> str:
    same = all(line.how == "same" for line in lines)
    ends = next((line.expected.words for line in reversed(lines) if line.expected and line.expected.end), "")
    first = next((line.number for line in lines if line.how != "same"), 0)
    return f"expected, {ends}" if same else f"expected, from line {first} on otherwise; {ends}"


def _zigzag() -> str:
    points: Iterable[str] = (f"{-3 if n % 2 == 0 else 3} {n * 4}" for n in range(AXIS_Y // 4 + 1))
    return "M" + "L".join(points)


class _Places:
    """Where labels stand under the axis: each takes its place when it is free, or is not there."""

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
